"""The way in: who gets a token for a code, and what the install script is for whom."""

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from fleet.accounts.models import AgentToken, EnrolmentCode

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def enrol(code: object, node: object = "gpu-1") -> tuple[int, dict[str, str]]:
    """Status and body of one try."""
    answer = Client().post("/agent/enrol", json.dumps({"code": code, "node": node}), content_type="application/json")
    return answer.status_code, answer.json()


def test_a_code_becomes_a_token_of_the_node_once() -> None:
    """The second use is refused, for the same node too, and the token is live."""
    code = EnrolmentCode.issue("", HOUR)
    status, body = enrol(code)
    again = [enrol(code), enrol(code, "gpu-2")]

    token = AgentToken.of(body["token"])
    assert status == 200
    assert token is not None
    assert token.node_name == "gpu-1"
    assert EnrolmentCode.objects.get().used_by == "gpu-1"
    assert [one[0] for one in again] == [403, 403]
    assert "used already" in again[0][1]["detail"]
    assert AgentToken.objects.count() == 1


@pytest.mark.parametrize("code", ["", "wrong", "x" * 3000, "\x00", "é"])
def test_an_unknown_code_gets_nothing(code: str) -> None:
    """Whatever it holds, the answer is the same sentence."""
    assert enrol(code) == (403, {"detail": "This enrolment code is not known here."})


def test_a_body_that_is_far_too_large_gets_json_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """The server reads no more than it must."""
    answer = Client().post("/agent/enrol", "x" * 3_000_000, content_type="application/json")

    assert answer.status_code == 413
    assert "too large" in answer.json()["detail"]
    assert [record for record in caplog.records if record.exc_info] == []


def test_a_code_that_is_too_old_gets_nothing() -> None:
    """Its time is over; it stays unused."""
    code = EnrolmentCode.issue("", HOUR)
    EnrolmentCode.objects.update(expires_at=timezone.now())

    assert enrol(code)[0] == 403
    assert EnrolmentCode.objects.get().used_at is None


def test_a_code_made_for_a_node_is_no_other_nodes() -> None:
    """And the failed try does not spend it."""
    code = EnrolmentCode.issue("gpu-1", HOUR)

    assert enrol(code, "gpu-2") == (403, {"detail": "This enrolment code was made for another node."})
    assert enrol(code, "gpu-1")[0] == 200


def test_only_a_code_made_for_it_takes_a_node_over() -> None:
    """A general code cannot steal the name of a node that has a token; a code made for the node replaces its tokens."""
    old, _ = AgentToken.issue(node_name="gpu-1")
    general, own = EnrolmentCode.issue("", HOUR), EnrolmentCode.issue("gpu-1", HOUR)
    stolen = enrol(general)
    status, body = enrol(own)
    old.refresh_from_db()

    assert stolen[0] == 403
    assert "has a token already" in stolen[1]["detail"]
    assert status == 200
    assert old.revoked_at is not None
    assert AgentToken.of(body["token"]) is not None


@pytest.mark.parametrize("body", ["", "[]", "{", '{"code": 1, "node": "a"}', '{"code": "x"}', "[" * 5000, '"' + "x" * 5000 + '"'])
def test_a_body_that_says_nothing_is_refused(body: str) -> None:
    """400 with what to send, never a traceback."""
    answer = Client().post("/agent/enrol", body, content_type="application/json")

    assert answer.status_code == 400
    assert "code" in answer.json()["detail"]


@pytest.mark.parametrize("node", ["", "a b", "../x", "n\n", "x" * 300, "节点"])
def test_a_name_that_no_node_can_have_is_refused(node: str) -> None:
    """The code is not spent by it."""
    code = EnrolmentCode.issue("", HOUR)

    assert enrol(code, node)[0] == 400
    assert enrol(code, "gpu-1")[0] == 200


def test_the_script_is_not_given_out_in_the_clear(settings: object, tmp_path: Path) -> None:
    """Over plain http to another machine, what `sh` gets only says why; over https and on loopback it is the script."""
    file = tmp_path / "agent.pyz"
    file.write_bytes(b"the agent")
    settings.FETTLE_AGENT_FILE, settings.ALLOWED_HOSTS = str(file), ["fettle.example", "127.0.0.1"]  # type: ignore[attr-defined] # the fixture's class is pytest-django's own
    plain = Client().get("/agent/install.sh", headers={"host": "fettle.example"})
    secure = Client().get("/agent/install.sh", secure=True, headers={"host": "fettle.example"})
    loopback = Client().get("/agent/install.sh", headers={"host": "127.0.0.1:8000"})

    assert plain.status_code == 503
    assert plain.content.decode().endswith("exit 1\n")
    assert "is not https" in plain.content.decode()
    assert "FETTLE_BASE=https://fettle.example " in secure.content.decode()
    assert "FETTLE_BASE=http://127.0.0.1:8000 " in loopback.content.decode()
    for text in (secure.content.decode(), loopback.content.decode()):
        assert "@" not in text.split("<<'PROGRAM'")[0].split("set -eu")[1]


def test_without_the_file_the_script_says_how_to_build_it(settings: object, tmp_path: Path) -> None:
    """And the file's own address is a 404 with the same sentence."""
    settings.FETTLE_AGENT_FILE, settings.ALLOWED_HOSTS = str(tmp_path / "none"), ["*"]  # type: ignore[attr-defined] # as above
    script = Client().get("/agent/install.sh", headers={"host": "localhost"})
    file = Client().get("/agent/fettle-agent.pyz")

    assert script.status_code == 503
    assert "make agent" in script.content.decode()
    assert file.status_code == 404
    assert "make agent" in file.json()["detail"]


def test_the_command_prints_a_code_and_nothing_else() -> None:
    """So that it can be used in a pipe; what it was told wrong is a sentence."""
    out = StringIO()
    call_command("enrolment_code", "--node", "gpu-7", "--hours", "2", stdout=out)
    row = EnrolmentCode.objects.get()

    assert enrol(out.getvalue().strip(), "gpu-7")[0] == 200
    assert row.expires_at - row.created_at < timedelta(hours=2, seconds=5)
    with pytest.raises(CommandError, match="letters, digits"):
        call_command("enrolment_code", "--node", "a b")
    with pytest.raises(CommandError, match="at most 8784"):
        call_command("enrolment_code", "--hours", "nan")
