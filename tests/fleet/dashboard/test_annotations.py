"""The node's page shows what was told of the node, its jobs and its engines."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from fleet.annotations.models import Annotation
from tests.fleet.dashboard.fleet_rows import make_node

pytestmark = pytest.mark.django_db


def say(scope: str, target: str, value: Any, **more: Any) -> None:
    """One annotation."""
    Annotation.objects.create(
        **{"scope": scope, "target": target, "key": f"key_{value}", "value": value, "by_name": "olga", **more}
    )


def test_it_shows_what_counts_for_the_node_with_who_told_it(viewer: Client) -> None:
    """Not what is over, nor what is another node's."""
    make_node("n1")
    say("node", "n1", "alpha")
    say("job", "n1/ann/train.py", "beta")
    say("service", "n1/http://h:1", "gamma")
    say("job", "n10/ann/train.py", "delta")
    say("node", "n1", "over", until=timezone.now() - timedelta(minutes=1))
    page = viewer.get("/nodes/n1/").content.decode()

    for text in ("Annotations", "alpha", "beta", "ann/train.py", "gamma", "http://h:1", "olga"):
        assert text in page
    for text in ("delta", "key_over"):
        assert text not in page


def test_a_node_of_which_nothing_was_told_has_no_such_section(viewer: Client) -> None:
    """An empty table says nothing."""
    make_node("n1")

    assert "annotations-title" not in viewer.get("/nodes/n1/").content.decode()


def test_what_was_told_is_escaped(viewer: Client) -> None:
    """A scheduler may tell anything."""
    make_node("n1")
    say("job", "n1/<b>x</b>", "<script>alert(1)</script>", key="image")
    page = viewer.get("/nodes/n1/").content.decode()

    assert "<script>alert(1)" not in page
    assert "&lt;b&gt;x" in page
