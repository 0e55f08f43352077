"""A node that was not heard of lately is stale: neither healthy nor idle."""

from datetime import timedelta

from django.utils import timezone

from fleet.inventory.models import STALE_AFTER, Node


def test_a_node_never_heard_of_is_stale() -> None:
    """No sample is no knowledge."""
    assert Node(name="n").is_stale


def test_a_node_heard_of_just_now_is_not() -> None:
    """A fresh sample is knowledge."""
    assert not Node(name="n", last_seen_at=timezone.now()).is_stale


def test_a_node_goes_stale_with_time() -> None:
    """Past the limit its last values say nothing of now."""
    assert Node(name="n", last_seen_at=timezone.now() - STALE_AFTER - timedelta(seconds=1)).is_stale
