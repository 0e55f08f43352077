"""Who is let in."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from rest_framework.test import APIClient

from fleet.accounts.models import ApiToken, User
from tests.fleet.api.conftest import caller
from tests.fleet.rows import person, token

pytestmark = pytest.mark.django_db
PATHS = ("nodes/", "gpus/", "findings/", "series/", "nodes/1/", "findings/1/transitions/")


@pytest.mark.parametrize("path", PATHS)
def test_a_stranger_is_asked_for_a_token(stranger: APIClient, path: str) -> None:
    """401, with what is wanted in the header; never 403 or the data."""
    answer = stranger.get(f"/api/v1/{path}")

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="fettle"'


@pytest.mark.parametrize("header", ["Bearer nonsense", "Bearer", "Bearer a b", "bearer \u00e4"])
def test_a_bad_token_is_refused(stranger: APIClient, header: str) -> None:
    """Unknown, missing, two of them, not even ASCII."""
    stranger.credentials(HTTP_AUTHORIZATION=header)

    assert stranger.get("/api/v1/nodes/").status_code == 401


def test_a_revoked_token_is_refused(bob: APIClient) -> None:
    """From the moment of its revocation."""
    assert bob.get("/api/v1/nodes/").status_code == 200
    ApiToken.objects.update(revoked_at=timezone.now())

    assert bob.get("/api/v1/nodes/").status_code == 401


def test_the_token_of_a_person_who_left_is_refused(bob: APIClient) -> None:
    """An account that is switched off speaks through no token."""
    User.objects.filter(username="bob").update(is_active=False)

    assert bob.get("/api/v1/nodes/").status_code == 401


def test_a_person_with_a_session_is_let_in(stranger: APIClient) -> None:
    """The dashboard's login counts."""
    stranger.force_login(person("carol"))

    assert stranger.get("/api/v1/nodes/").status_code == 200


def test_the_use_of_a_token_is_noted_once_a_minute(bob: APIClient) -> None:
    """So that unused ones can be found, without a write for each read."""
    bob.get("/api/v1/nodes/")
    first = ApiToken.objects.get().last_used_at
    bob.get("/api/v1/nodes/")
    assert first is not None
    assert ApiToken.objects.get().last_used_at == first

    ApiToken.objects.update(last_used_at=first - timedelta(minutes=2))
    bob.get("/api/v1/nodes/")
    later = ApiToken.objects.get().last_used_at
    assert later is not None
    assert later >= first


def test_the_command_prints_a_token_that_works(capsys: pytest.CaptureFixture[str]) -> None:
    """Once, alone on its line; only its digest is kept."""
    person("dave")
    call_command("api_token", "dave", "slurm")
    printed = capsys.readouterr().out.strip()

    assert caller(printed).get("/api/v1/nodes/").status_code == 200
    row = ApiToken.objects.get()
    assert (row.name, row.may_write) == ("slurm", False)
    assert printed not in row.digest


def test_the_command_makes_tokens_that_write_only_when_told_to() -> None:
    """And none for people who are not there."""
    person("dave")
    call_command("api_token", "dave", "slurm", "--write")
    assert ApiToken.objects.get().may_write

    with pytest.raises(CommandError, match="nobody"):
        call_command("api_token", "nobody", "slurm")


def test_tokens_differ() -> None:
    """Two tokens of one person are two."""
    erin = person("erin")

    assert token(erin) != token(erin)
