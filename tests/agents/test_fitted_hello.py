"""A hello is never larger than a server takes: what is largest is left out of it, and no reading is lost for it."""

import logging

import pytest
from msgspec import structs

from agents import fitted_hello
from agents.gpu_slot import MAX_GPUS
from agents.source import Inventory
from wire.codec import MAX_FRAME_BYTES, decode_from_agent, encode_text
from wire.messages import GpuFacts, Hello, HostFacts

NUMA = {node: tuple(range(300)) for node in range(300)}


def hello(inventory: Inventory) -> Hello:
    """What a server makes of it."""
    found = decode_from_agent(encode_text(structs.replace(inventory.hello("n", "b" * 32, "1", 1.0), t=1.8e9)))
    assert isinstance(found, Hello)
    return found


def gpu(index: int, **texts: str) -> GpuFacts:
    """One of many."""
    return GpuFacts(index=index, uuid=f"GPU-{index:032}", **{"name": "NVIDIA H200", **texts})  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def untold() -> None:
    """Each test hears of it anew."""
    fitted_hello._tell.cache_clear()


def test_what_is_usual_is_told_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """Every fact of a large node."""
    inventory = Inventory(
        HostFacts(cores=128, numa_distances={0: (10, 21)}), tuple(gpu(i, pci_bus_id="00000000:19:00.0") for i in range(MAX_GPUS))
    )
    told = hello(inventory)

    assert (told.host, told.gpus) == (inventory.host, inventory.gpus)
    assert caplog.records == []


def test_a_text_without_an_end_is_cut_and_none_moves_a_cursor() -> None:
    """Of a driver or an exporter; a UUID stays as it is, for it is the GPU."""
    inventory = Inventory(
        HostFacts(driver_version="5" * 1000), tuple(gpu(i, name="N\x1b\x00\ud800" * 2000) for i in range(MAX_GPUS))
    )
    told = hello(inventory)

    assert told.host.driver_version == "5" * 200
    assert {one.name for one in told.gpus} == {"N" * 100}
    assert [one.uuid for one in told.gpus] == [one.uuid for one in inventory.gpus]


def test_the_largest_facts_are_left_out_and_that_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """All others are told, and for a fact of the host why it is not."""
    caplog.set_level(logging.INFO)
    inventory = Inventory(HostFacts(cores=128, kernel="6.8", numa_distances=NUMA), tuple(gpu(i) for i in range(MAX_GPUS)))
    for _ in range(3):
        told = hello(inventory)

    assert told.host.absent == {"numa_distances": "out_of_range"}
    assert (told.host.cores, told.host.kernel, told.host.numa_distances) == (128, "6.8", {})
    assert told.gpus == inventory.gpus
    (record,) = caplog.records
    assert "numa_distances of the host" in record.getMessage()


def test_texts_of_all_gpus_give_way_and_the_gpus_stay() -> None:
    """Four bytes a character, the longest that each may be."""
    texts = ("name", "pci_bus_id", "compute_capability", "mig_profile", "memory_kind", "power_scope")
    inventory = Inventory(HostFacts(cores=8), tuple(gpu(i, **dict.fromkeys(texts, "\U0001f600" * 200)) for i in range(MAX_GPUS)))
    told = hello(inventory)

    assert len(encode_text(told).encode()) <= MAX_FRAME_BYTES
    assert len(told.gpus) == MAX_GPUS
    assert told.host.cores == 8
