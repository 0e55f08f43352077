"""One card that two nodes tell of (I03): both are told and it is counted, or it has moved; rows of two nodes are never mixed."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from msgspec import structs

from fleet.ingest import identity
from fleet.inventory.models import Event, Gpu, Node, Refusal
from tests.fleet.rows import gpu as make_gpu
from tests.fleet.rows import node as make_node
from tests.serving import Server, eventually
from tests.speaking import batch, hello, speak
from wire.messages import GpuFacts

CARD = "GPU-6d0c5fe8-f6c7-1ab0-5b7a-0dff2509c886"
NIL = "GPU-00000000-0000-0000-0000-000000000000"


async def test_two_connections_that_tell_of_one_card_are_told_of_each_other(server: Server, node: str) -> None:
    """A cloned machine, or two agents on one host under two names: what each of them sends stays its own."""
    first, second, t = f"{node}-a", f"{node}-b", time.time()
    own = f"GPU-{node}-own"
    cards = (GpuFacts(index=0, uuid=f"GPU-{node}-both", name="NVIDIA H200"), GpuFacts(index=1, uuid=own, name="NVIDIA H200"))
    async with speak(server.agents, server.token(first)) as one, speak(server.agents, server.token(second)) as other:
        said = await one.greet(structs.replace(hello(first), gpus=cards))
        await one.say(batch(said, 0, t, {"power_w": 1.0}))
        said = await other.greet(structs.replace(hello(second), gpus=cards[:1]))
        await other.say(batch(said, 0, t, {"power_w": 2.0}))
        assert await one.acked(0)
        assert await other.acked(0)
        assert eventually(lambda: server.refusals(second).get("double_gpu")) == 1

    assert server.refusals(first) == {"double_gpu": 1}
    told = server.rows(
        "SELECT n.name, e.kind, e.text, e.severity FROM inventory_event e JOIN inventory_node n ON n.id = e.node_id"
        " WHERE n.name IN (?, ?) ORDER BY n.name", first, second,
    )  # fmt: skip
    assert [tuple(row.values()) for row in told] == [
        (first, "conflict", f"{second}: GPU 0", "warn"),
        (second, "conflict", f"{first}: GPU 0", "warn"),
    ]
    rows = [server.gpus(name)[0]["id"] for name in (first, second)]
    assert [server.window("gpu", t - 1, t + 1, [row])["power_w"].to_list() for row in rows] == [[1.0], [2.0]]


def enrolled(name: str, *uuids: str, seen_s_ago: float = 0, greeted_s_ago: float = 5, **changes: Any) -> Node:
    """A node whose agent told of these cards."""
    now = timezone.now()
    node = make_node(name)
    values = {"connected_at": now - timedelta(seconds=greeted_s_ago), "last_seen_at": now - timedelta(seconds=seen_s_ago)}
    Node.objects.filter(pk=node.pk).update(**values | changes)
    node.refresh_from_db()
    for index, uuid in enumerate(uuids):
        make_gpu(node, index, uuid=uuid)
    return node


def told() -> list[tuple[str, str, str]]:
    """Node, kind and text of every event."""
    return list(Event.objects.order_by("pk").values_list("node__name", "kind", "text"))


@pytest.mark.django_db
def test_a_node_that_was_renamed_takes_its_cards_along() -> None:
    """The old name is silent: the cards are told of as moved, once, and are no longer present there."""
    old = enrolled("old", CARD, "GPU-2", "GPU-stays", seen_s_ago=40, greeted_s_ago=4000)
    enrolled("new", CARD, "GPU-2")
    for _ in range(2):
        identity.look()

    assert told() == [("new", "changed", "Node: old → new")]
    assert list(old.gpus.order_by("index").values_list("present", flat=True)) == [False, False, True]
    assert not Refusal.objects.exists()


@pytest.mark.django_db
def test_one_card_of_several_that_moved_is_told_of_as_itself() -> None:
    """Swapped into another machine."""
    enrolled("old", CARD, "GPU-stays", seen_s_ago=40)
    home = enrolled("new", "GPU-own", CARD)
    identity.look()

    assert Event.objects.get().gpu == home.gpus.get(index=1)


@pytest.mark.django_db
def test_a_pair_is_told_of_once_a_day_and_again_the_day_after() -> None:
    """Agents say hello at every connection."""
    enrolled("a", CARD)
    enrolled("b", CARD)
    for _ in range(3):
        identity.look()
    assert told() == [("a", "conflict", "b: GPU 0"), ("b", "conflict", "a: GPU 0")]
    Event.objects.update(observed_at=timezone.now() - timedelta(days=1, seconds=1))
    identity.look()

    assert len(told()) == 4
    assert dict(Refusal.objects.values_list("node_name", "total")) == {"a": 2, "b": 2}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("uuid", "changes"),
    [
        (NIL, {}),
        (CARD, {"recording": "llama"}),
        (CARD, {"source": "prometheus"}),
        (CARD, {"seen_s_ago": 10, "disconnected_at": timezone.now()}),  # it may only be restarting
        (CARD, {"last_seen_at": None}),
    ],
    ids=["nil", "recording", "prometheus", "just ended", "never heard"],
)
def test_what_is_no_second_card_is_left_alone(uuid: str, changes: dict[str, Any]) -> None:
    """No event, no count, and every card stays present."""
    enrolled("a", uuid, **changes)
    enrolled("b", uuid)
    identity.look()

    assert told() == []
    assert not Refusal.objects.exists()
    assert not Gpu.objects.filter(present=False).exists()
