"""Fixtures of the server's tests."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.utils import translation
from pytest_django import DjangoDbBlocker, Settings

from fleet.findings import minutes
from fleet.store.series import store


@pytest.fixture(scope="session")
def migrated_rows(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> str:
    """What migrations wrote into a new database."""
    with django_db_blocker.unblock():
        return str(connection.creation.serialize_db_to_string())


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """A request in Chinese leaves its language to the thread; the next test begins without one."""
    yield
    translation.deactivate()


@pytest.fixture(autouse=True)
def same_form_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every form holds the same token: among a page's 64 random letters any short word ("USD") that must not stand there may turn up."""
    monkeypatch.setattr("django.middleware.csrf.get_random_string", lambda length, allowed_chars: "0" * length)


@pytest.fixture(autouse=True)
def rows_of_migrations(request: pytest.FixtureRequest) -> None:
    """Bring back what migrations wrote (roles, permissions) where an earlier test's truncation took it away."""
    mark = request.node.get_closest_marker("django_db")
    if "_django_db_helper" not in request.fixturenames or (mark is not None and mark.kwargs.get("databases") == []):
        return
    rows = request.getfixturevalue("migrated_rows")
    request.getfixturevalue("_django_db_helper")
    if not Group.objects.exists():
        for model in (Permission, ContentType):
            model.objects.all().delete()
        ContentType.objects.clear_cache()
        connection.creation.deserialize_db_from_string(rows)


@pytest.fixture
def memory_store(settings: Settings) -> Iterator[None]:
    """An empty store in memory for this test."""
    settings.FETTLE_STORE = "memory"
    store.cache_clear()
    minutes.forget()
    yield
    store.cache_clear()
