"""A change that takes memory is not asked of a job that has none: all rules, with the card, the host or /dev/shm nearly full."""

import re
from typing import Any

import pytest

from advisor import room
from advisor.rule import Rule, load
from tests.advisor.test_rule_texts import LAUNCHERS, SCHEDULERS, said

GPU = r"batch_size=2 \*|\(2 \* B\)|: 2 \* B|torch\.compile\(|--no-enforce-eager|device=\"cuda\"|count: 2|fraction(\" value \{\{ string_value: \")?[ -][a-z]*0?\.9|size 16384|tokens 16384|Interleaved|virtual-pipeline"
HOST = r"num_workers=2 \* W|prefetch_factor=[48]|async_save|--async-save|workers \d\d"
GPU_FULL: dict[str, Any] = {"mem_used_share": 0.95, "mem_used_share_max": 0.95, "mem_free_min_bytes": 1.0}
ASKS_FOR_ROOM = {"batch-underfills-gpu", "memory-headroom-unused", "fsdp-oversharded", "serving-underbatched"}
"""Rules that open only where the memory has room: nothing of theirs is said without."""
RULES = [rule for rule in load() if rule.id not in ASKS_FOR_ROOM]


def asked(change: str) -> str:
    """The change without the lines that it takes away."""
    return "\n".join(line for line in change.split("\n") if not line.startswith("- "))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_nothing_that_takes_device_memory_is_said_where_it_is_full(rule: Rule) -> None:
    """Larger batches, compiling, a second copy of the model: none of it, whatever started the job; and something is left to do."""
    for launcher in LAUNCHERS:
        change = said(rule, launcher=launcher, **GPU_FULL).change
        assert change, launcher
        for step in change:
            assert not re.search(GPU, asked(step.text)), step.text


@pytest.mark.parametrize("full", [{"host_mem_share": 0.97}, {"shm_used_share": 0.97}], ids=str)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_no_further_batches_are_kept_where_host_memory_is_full(rule: Rule, full: dict[str, Any]) -> None:
    """No more loader processes or prefetched batches, and where the host's memory is short no copy of the state; something is left to do."""
    for launcher in LAUNCHERS:
        for scheduler in SCHEDULERS[:2]:
            change = said(rule, launcher=launcher, scheduler=scheduler, suggested_workers=12, **full).change
            assert change, (launcher, scheduler)
            for step in change:
                taken = re.search(HOST, asked(step.text))
                assert taken is None or ("async" in taken[0] and "shm_used_share" in full), step.text


def test_loader_processes_are_not_added_where_no_core_is_free() -> None:
    """Reads in flight need a core each to begin with."""
    (rule,) = [rule for rule in RULES if rule.id == "storage-throughput-bound"]

    assert any("2 * W" in step.text for step in said(rule, free_cores=4.0, host_mem_share=0.5, shm_used_share=0.1).change)
    assert not any("2 * W" in step.text for step in said(rule, free_cores=0.2, host_mem_share=0.5, shm_used_share=0.1).change)


@pytest.mark.parametrize("rule_id", sorted(ASKS_FOR_ROOM))
def test_rules_that_need_room_ask_for_it(rule_id: str) -> None:
    """Their conditions read how full the memory is."""
    (rule,) = [rule for rule in load() if rule.id == rule_id]

    assert rule.reads() & {"mem_used_share_max", "alloc_peak_share"}


def test_the_limits_are_those_of_the_rules_about_memory() -> None:
    """Where memory-nearly-full is over, a job has room again: the two never say the opposite of each other."""
    thresholds = {(rule.id, one.name): one.default for rule in load() for one in rule.thresholds}

    assert thresholds["memory-nearly-full", "mem_used_share_clears"] == room.GPU_FULL_SHARE
    assert thresholds["host-memory-pressure", "host_mem_share_clears"] == room.HOST_FULL_SHARE
    assert thresholds["container-shm-small", "shm_used_share_opens"] == room.SHM_FULL_SHARE
    assert thresholds["serving-memory-margin-thin", "mem_free_clears_bytes"] == room.SERVICE_FREE_BYTES
