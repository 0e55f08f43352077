"""Facts of nodes as features, and the fleet's mix of versions."""

from collections.abc import Collection
from typing import Any

import pytest

from fleet.inventory.models import Node
from fleet.slow import node_facts
from tests.fleet.rows import gpu, node

pytestmark = pytest.mark.django_db


def facts(home: Node, lost: Collection[int] = (), persistent: dict[int, bool] | None = None) -> dict[str, Any]:
    """The node's features."""
    return node_facts.of_nodes([home], node_facts.cards([home.pk]), lost, persistent or {})[home.pk]


def test_facts_are_those_that_its_agent_told() -> None:
    """Versions with their first number."""
    home = node(
        "n1", driver_version="580.65.06", cuda_driver_version="13.0", kernel="6.8.0-45-generic", cpu_governor="performance",
        nvidia_module_version="580.65.06", rdma_ready=True, numa_distances={"0": [10, 21], "1": [21, 10]},
    )  # fmt: skip
    cards = [gpu(home, index) for index in range(2)]
    told = facts(home, persistent={cards[0].pk: True, cards[1].pk: False})

    assert (told["node_name"], told["driver_version"], told["driver_major"]) == ("n1", "580.65.06", 580)
    assert (told["cuda_driver_version"], told["cuda_driver_major"]) == ("13.0", 13)
    assert (told["kernel"], told["cpu_governor"], told["numa_nodes"]) == ("6.8.0-45-generic", "performance", 2)
    assert told["rdma_ready"] is True
    assert told["persistence_mode"] is False
    assert facts(home, persistent={cards[0].pk: True})["persistence_mode"] is True


def test_what_was_not_told_is_unknown() -> None:
    """Null, but for what the inventory counts; a version that is none has no first number."""
    told = facts(node("n1", driver_version="nvidia"))
    unknown = {name for name, value in told.items() if value is None}

    assert unknown == {
        "driver_major", "cuda_driver_version", "cuda_driver_major", "kernel", "nvidia_module_version", "cpu_governor",
        "numa_nodes", "rdma_ready", "persistence_mode", "up_s",
    }  # fmt: skip
    assert (told["node_gpus"], told["node_gpus_present"]) == (0, 0)


def test_cards_that_are_gone_are_missing_and_those_replaced_moved_or_split_are_not() -> None:
    """By place and UUID; slices come and go."""
    home, other = node("n1"), node("n2")
    gpu(home, 0)
    gone = gpu(home, 1, present=False)
    gpu(home, 2, uuid="GPU-old", present=False)
    gpu(home, 2, uuid="GPU-new")
    gpu(home, 3, uuid="GPU-moved", present=False)
    gpu(other, 0, uuid="GPU-moved")
    gpu(home, 4, uuid="MIG-1", parent_uuid="GPU-n1-0", present=False)
    cards = node_facts.cards([home.pk, other.pk])
    missing = node_facts.missing(cards)
    told = node_facts.of_nodes([home], cards, missing, {})[home.pk]

    assert missing == {gone.pk}
    assert (told["node_gpus"], told["node_gpus_present"]) == (3, 2)


def test_a_card_that_is_listed_and_lost_is_not_present() -> None:
    """The driver lists it and cannot reach it."""
    home = node("n1")
    cards = [gpu(home, index) for index in range(8)]
    told = facts(home, {cards[3].pk})

    assert (told["node_gpus"], told["node_gpus_present"]) == (8, 7)


def test_the_mix_names_versions_with_how_many_have_them() -> None:
    """Most first; those who told nothing are not counted."""
    nodes = [node(f"n{number}", driver_version=version) for number, version in enumerate(("570.1", "580.2", "580.2", ""))]
    told = node_facts.of_fleet(nodes, ["2.9.1", "2.8.0", "2.9.1"])

    assert told == {
        "driver_versions": 2, "driver_mix": "580.2: 2, 570.1: 1", "torch_versions": 2, "torch_mix": "2.9.1: 2, 2.8.0: 1",
    }  # fmt: skip
    assert set(node_facts.of_fleet([], []).values()) == {None}


def test_a_mix_of_many_is_cut() -> None:
    """Eight and three dots."""
    told = node_facts.of_fleet([], [str(number) for number in range(20)])

    assert told["torch_versions"] == 20
    assert told["torch_mix"].count(":") == 8
    assert told["torch_mix"].endswith(", ...")
