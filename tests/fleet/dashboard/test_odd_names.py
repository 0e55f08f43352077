"""Addresses with names that nothing can have: a database that takes no NUL is never asked for one."""

import pytest
from django.test import Client
from django.urls import Resolver404, resolve

from fleet.dashboard.listing import filtered

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("address", ["/nodes/a\x00b/", "/nodes/a\x00b/command/", "/nodes/a\nb/"])
def test_a_name_with_a_control_character_is_no_address(viewer: Client, address: str) -> None:
    """It is answered 404 before anything is looked up."""
    with pytest.raises(Resolver404):
        resolve(address)
    assert viewer.get(address).status_code == 404


@pytest.mark.parametrize("name", ["node", "rule", "severity", "condition"])
def test_a_filter_with_a_control_character_finds_nothing(viewer: Client, name: str) -> None:
    """The page says that it names nothing; no query is made with it."""
    found, _ = filtered({name: "a\x00b"})
    answer = viewer.get("/findings/", {name: "a\x00b"})

    assert found.query.is_empty()
    assert answer.status_code == 200
    assert "“?”" in answer.content.decode()
