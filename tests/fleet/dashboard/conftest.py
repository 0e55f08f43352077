"""A fresh store, a fresh fleet snapshot, and people who are logged in."""

from collections.abc import Iterator

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import Group, Permission
from django.test import Client

from fleet.accounts.models import User
from fleet.dashboard import readings
from fleet.store.series import store


@pytest.fixture(autouse=True)
def empty_store(settings: LazySettings) -> Iterator[None]:
    """The memory engine, empty, and no snapshot of the test before."""
    settings.FETTLE_STORE = "memory"
    store.cache_clear()
    readings.fleet.forget()
    yield
    store.cache_clear()
    readings.fleet.forget()


@pytest.fixture
def viewer(db: None) -> Client:
    """A person who may look."""
    client = Client()
    client.force_login(User.objects.create_user("vera", password="x"))
    return client


@pytest.fixture
def operator(db: None) -> Client:
    """A person who may decide about advice, by a group."""
    user = User.objects.create_user("olga", password="x")
    group = Group.objects.create(name="team")
    group.permissions.add(Permission.objects.get(codename="change_finding", content_type__app_label="findings"))
    user.groups.add(group)
    client = Client()
    client.force_login(user)
    return client
