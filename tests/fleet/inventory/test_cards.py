"""The cards that a process remembers: right after every change, and read anew for the nodes that changed alone."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from pytest_django import DjangoAssertNumQueries

from fleet.inventory import cards
from fleet.inventory.cards import inventory
from fleet.inventory.models import Gpu, GpuListing, Node
from tests.fleet.rows import gpu, node

pytestmark = pytest.mark.django_db


def seen() -> dict[str, list[tuple[Any, ...]]]:
    """By node its cards, as they are remembered."""
    found = inventory()
    return {found.machines[pk].name: [(one.uuid, one.index, one.present) for one in mine] for pk, mine in found.of_node.items()}


def there() -> dict[str, list[tuple[Any, ...]]]:
    """The same of the database."""
    rows = {one.pk: one for one in Node.objects.order_by("name")}
    return {one.name: [*one.gpus.order_by("index", "pk").values_list("uuid", "index", "present")] for one in rows.values()}


def saved(card: Gpu, only: list[str] | None = None, **values: Any) -> None:
    """The card with other values."""
    for name, value in values.items():
        setattr(card, name, value)
    card.save(update_fields=only)


def saved_together(card: Gpu) -> None:
    """As a batch."""
    card.index = 9
    Gpu.objects.bulk_update([card], ["index"])


CHANGES: dict[str, Callable[[Gpu], object]] = {
    "a save": lambda card: saved(card, index=7),
    "a save of some columns": lambda card: saved(card, ["present"], present=False),
    "an update of many": saved_together,
    "an update": lambda card: Gpu.objects.filter(present=True).update(present=False),
    "an update by its node": lambda card: card.node.gpus.update(index=5),
    "new ones": lambda card: Gpu.objects.bulk_create([Gpu(node=card.node, uuid="GPU-new", index=1, model="x")]),
    "a new one": lambda card: gpu(card.node, 3),
    "one that goes": lambda card: card.delete(),
    "several that go": lambda card: Gpu.objects.filter(pk=card.pk).delete(),
    "another node": lambda card: Gpu.objects.filter(pk=card.pk).update(node=Node.objects.get(name="n2")),
    "a node that goes": lambda card: card.node.delete(),
    "a node that comes": lambda card: gpu(node("n3")),
    "a node's name": lambda card: Node.objects.filter(pk=card.node_id).update(name="n9"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_is_seen_at_once(change: str) -> None:
    """However the rows are written."""
    card = gpu(node("n1"))
    gpu(node("n2"), 1)
    assert seen() == there()
    before = there()
    CHANGES[change](card)

    assert there() != before
    assert seen() == there()


def test_what_does_not_change_is_not_read_again(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """One query of the nodes and their versions; labels and other columns that nobody remembers change none."""
    card = gpu(node("n1"))
    gpu(node("n2"))
    first = inventory()
    made = first.made("count", lambda one: [*one.cards()])
    Gpu.objects.filter(pk=card.pk).update(labels={"pod": "a"}, labels_told_at=None)
    card.save(update_fields=["sm_clock_max_mhz"])

    with django_assert_num_queries(1):
        again = inventory()
    assert again is first
    assert again.made("count", lambda one: []) is made

    Gpu.objects.filter(pk=card.pk).update(power_limit_w=300.0)
    with django_assert_num_queries(2):
        changed = inventory()
    assert changed.of_node[card.node_id][0].power_limit_w == 300.0
    assert len(changed.made("count", lambda one: [*one.cards()])) == 2


def test_a_change_that_was_rolled_back_is_never_taken_for_what_is_there() -> None:
    """What was remembered of it in between has a version that no row has again."""
    card = gpu(node("n1"))
    before = seen()
    with transaction.atomic():
        Gpu.objects.filter(pk=card.pk).update(index=6)
        assert seen()["n1"][0][1] == 6
        transaction.set_rollback(True)
    assert seen() == before

    Gpu.objects.filter(pk=card.pk).update(index=4)
    assert seen()["n1"][0][1] == 4


def test_what_went_past_django_shows_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a repair by hand, in SQL."""
    card = gpu(node("n1"))
    inventory()
    kept = GpuListing.objects.get(node=card.node_id).version
    Gpu.objects.filter(pk=card.pk).update(index=6)
    GpuListing.objects.update(version=kept)
    assert seen()["n1"][0][1] == 0

    monkeypatch.setattr(cards, "FORGET_S", 0.0)
    assert seen()["n1"][0][1] == 6
