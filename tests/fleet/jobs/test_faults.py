"""What goes wrong between schedulers, processes and GPUs, one test a fault; where the fault is met elsewhere, its tests are named here.

- Devices named by index, UUID, its beginning, MIG UUIDs of both forms, -1, twice: test_devices.py.
- One UUID on two nodes, a node that was re-imaged, two agents on one host: tests/fleet/faults/test_one_identity.py.
- Epilogs that never ran, requeues, arrays, heterogeneous jobs, `--gpus` in all spellings: tests/deploy/slurm; a number that is used again:
  tests/fleet/slow/test_job_rows.py.
- Pods that come and go: tests/agents/kubernetes; a GPU that several jobs share: tests/fleet/findings/test_allocated.py.
"""

from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from django.utils import timezone
from polars.testing import assert_frame_equal

from advisor.features import features_of
from fleet.findings import allocated
from fleet.findings.windows import Look, look
from fleet.inventory.models import Absence, Gpu
from fleet.jobs.holding import holders
from fleet.jobs.models import Allocation, Job
from tests.fleet.jobs.given import give, job
from tests.fleet.recorded import fill
from tests.fleet.rows import gpu, minutes, node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
NOW = timezone.now().replace(microsecond=0)
HOUR = timedelta(hours=1)
CARD: dict[str, Any] = {"power_limit_w": 700, "power_limit_default_w": 700, "sm_clock_max_mhz": 1980, "compute_capability": "9.0"}


def playing(name: str = "n1", *, processes: bool = True) -> Gpu:
    """A node with one GPU that trains."""
    card = gpu(node(name, last_seen_at=NOW, mem_total_bytes=256 << 30), **CARD)
    fill("fp32_train", [card], int(NOW.timestamp()), processes=processes)
    return card


def seen() -> Look:
    """The last minute."""
    return look(NOW, 60, 2.0)


def test_a_job_keeps_its_gpu_when_the_driver_numbers_anew() -> None:
    """I01: an index is for people; who holds what goes by the card."""
    one, two = gpu(home := node("n1"), 0), gpu(home, 1)
    give(job("4711", NOW - HOUR), one)
    Gpu.objects.filter(pk=one.pk).update(index=7)
    Gpu.objects.filter(pk=two.pk).update(index=0)
    assert {pk: [held.target for held in found] for pk, found in holders(NOW).items()} == {one.pk: ["west/4711"]}


def test_a_list_of_processes_that_cannot_be_read_says_no_job_unused() -> None:
    """I04: nobody listed is not nobody there; for how long is not known then, which is not zero."""
    card = playing(processes=False)
    give(job("4711", NOW - HOUR), card)
    absent = Absence.objects.create(node=card.node, gpu=card, metric="processes", reason="timeout", since=NOW - HOUR)
    blind = seen()
    assert blind.unused == frozenset()
    (row,) = allocated.of_jobs(NOW, blind).rows(named=True)
    assert row["allocated_idle_s"] is None
    (of_gpu,) = allocated.of_gpus(NOW, blind).rows(named=True)
    assert of_gpu["foreign_processes"] is None

    absent.delete()
    assert seen().unused == {"west/4711"}


def test_a_job_without_a_process_holds_its_gpus_and_one_without_gpus_holds_none() -> None:
    """I05: the allocation is the base, whatever is seen; a CPU job on the node takes no GPU to itself."""
    card, other = playing("n1", processes=False), playing("n2", processes=False)
    give(job("4711", NOW - HOUR), card)
    cpu_only = job("4712", NOW - HOUR, gpus_total=0)
    Allocation.objects.filter(job=cpu_only).delete()
    found = seen()
    assert found.whose.jobs == {card.pk: "west/4711"}
    assert found.places["job", "west/4711"].gpus == (card.pk,)
    assert other.pk in found.gpus


def test_a_number_that_is_used_again_is_another_job() -> None:
    """I06: the run of a year ago ended, and says nothing of the one of now."""
    card = playing()
    give(job("4711", NOW - 9000 * HOUR, ended_at=NOW - 8999 * HOUR), card, until=NOW - 8999 * HOUR)
    now = job("4711", NOW - HOUR, user="demo")
    give(now, card)
    (held,) = holders(NOW)[card.pk]
    assert (held.job, held.shared) == (now.pk, False)
    assert seen().whose.rows == {"west/4711": now.pk}


def test_what_is_read_of_a_shared_gpu_is_whole() -> None:
    """I07, I09: no job's part of it is made up by shares of cores, memory or time: it is the GPU's as if nobody had it."""
    card = playing()
    alone = features_of(seen().measured).gpu
    for number in ("1", "2", "3"):
        give(job(number, NOW - HOUR), card, shared=True)
    shared = seen()
    names = [name for name in alone.columns if name not in ("job", "job_gpus", "job_busy_p50")]
    assert_frame_equal(features_of(shared.measured).gpu.select(names), alone.select(names))
    assert shared.whose.jobs == {}
    assert alone["job"].to_list() == ["n1/demo/fp32_train"]


def test_gpus_that_are_known_by_number_alone_are_nobodys_in_particular() -> None:
    """I10: a scheduler that says how many it gave, not which: they count for the job, and no GPU is taken for one of them."""
    card = playing()
    mine = job("4711", NOW - HOUR, gpus_total=8)
    Allocation.objects.create(job=mine, node=card.node, node_name="n1", device="gpu:h200:8", from_at=mine.started_at)
    found = seen()
    assert Job.objects.get().gpus_total == 8
    assert found.whose.jobs == {card.pk: "n1/demo/fp32_train"}
    assert allocated.of_jobs(NOW, found).is_empty()


def test_ended_jobs_leave_no_trace_in_the_next_one() -> None:
    """One after the other on a GPU within one window: the newest holds it, and what went with the first is not its own."""
    card = playing()
    give(job("4711", NOW - HOUR, user="demo"), card, until=NOW - minutes(0.5))
    second = job("4712", NOW - minutes(0.5), user="demo")
    give(second, card)
    found = seen()
    assert found.whose.jobs == {card.pk: "west/4712"}
    pids = found.window.process.filter(pl.col("t") >= (NOW - minutes(0.5)).timestamp())["pid"].unique().to_list()
    assert found.whose.members == {card.pk: frozenset(pids)}
