"""Holders that cannot be seen are replaced by the command's processes that have a GPU open."""

import os
from pathlib import Path

import pytest

from agents.stand_ins import GROWN_BYTES, StandIns
from tests.agents.proc import Proc
from wire.recording import Sample


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    """The command (10), its two ranks (11, 12) with a GPU open, a loader worker (13) without, and a stranger (14) with one."""
    made = Proc(tmp_path)
    for pid, parent in ((10, 1), (11, 10), (12, 10), (13, 11), (14, 1)):
        made.process(pid, parent=parent)
        (tmp_path / str(pid) / "fd").mkdir()
    for pid in (11, 12, 14):
        os.symlink("/dev/nvidia0", tmp_path / str(pid) / "fd" / "3")
    os.symlink("/dev/nvidiactl", tmp_path / "13" / "fd" / "3")
    return made


def sample(t: float, used: int, *pids: dict[str, int | None], processes: tuple[dict[str, object], ...] = ()) -> Sample:
    """One sample; every GPU uses `used` bytes more than nothing."""
    return Sample(
        t=t, gpus=tuple({"index": i, "mem_used_bytes": used, "pids": p} for i, p in enumerate(pids)), processes=processes
    )


def after(proc: Proc, *pids: dict[str, int | None], processes: tuple[dict[str, object], ...] = ()) -> Sample:
    """A sample after the command began to use every GPU."""
    stand_ins = StandIns(10, str(proc.root))
    stand_ins.apply(sample(0, 0, *({} for _ in pids)))
    return stand_ins.apply(sample(1, GROWN_BYTES, *pids, processes=processes))


def held(found: Sample) -> list[dict[str, int | None]]:
    """Who holds each GPU."""
    return [gpu["pids"] for gpu in found.gpus]


def test_as_many_processes_as_gpus_hold_one_each(proc: Proc) -> None:
    """Ranks are started in the order of their GPUs; the bytes are the driver's."""
    found = after(proc, {"90001": 5}, {"90002": 7}, processes=({"pid": 90001, "name": ""}, {"pid": 90002, "name": ""}))

    assert held(found) == [{"11": 5}, {"12": 7}]
    assert [one["pid"] for one in found.processes] == [11, 12]


def test_two_processes_on_one_gpu_are_both_holders(proc: Proc) -> None:
    """By the order of their pids; without a list from the driver the bytes are unknown, not zero."""
    assert held(after(proc, {"90001": 5, "90002": 7})) == [{"11": 5, "12": 7}]
    assert held(after(proc, {})) == [{"11": None, "12": None}]


def test_holders_that_can_be_seen_stay(proc: Proc) -> None:
    """Nothing is replaced where the driver's pids are this namespace's."""
    seen = ({"pid": 77, "name": "x", "threads": 3},)

    assert held(after(proc, {"77": 5}, processes=seen)) == [{"77": 5}]


def test_a_gpu_whose_memory_did_not_grow_is_somebody_elses(proc: Proc) -> None:
    """The command did not put anything there."""
    stand_ins = StandIns(10, str(proc.root))
    stand_ins.apply(sample(0, 1000, {"90001": 5}))

    assert held(stand_ins.apply(sample(1, 1000, {"90001": 5}))) == [{"90001": 5}]
