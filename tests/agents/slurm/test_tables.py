"""Slurm's text, in which a user's names may hold anything."""

import pytest

from agents.slurm import tables
from agents.slurm.runs import gpus_in, gpus_of, only_gpus, state_of

DETAILS = """JobId=7 JobName=x
   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0
   TRES=cpu=2,node=2,billing=2,gres/gpu=3
     Nodes=gpu01 CPU_IDs=1 Mem=0 GRES=gpu:h200:1(IDX:1)
     Nodes=gpu02 CPU_IDs=0 Mem=0 GRES=gpu:h200:2(IDX:0-1)

JobId=8 JobName=evil

JobId=9 JobName=forged
     Nodes=gpu03 CPU_IDs=0 Mem=0 GRES=gpu:8(IDX:0-7)

JobId=9 JobName=honest
     Nodes=gpu04 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0)
"""


def rows(mark: str, *told: tuple[str, str, str]) -> str:
    """squeue's lines of these jobs: number, Slurm's own id, name."""
    return "".join(
        mark.join((number, number, "N/A", called, "RUNNING", "100", "900", "ada", "lab", "gpu", name)) + "\n"
        for number, called, name in told
    )


def test_squeue_and_scontrol_together_say_what_the_json_does() -> None:
    """Devices by node, count, restarts; the id of an array's task."""
    mark = tables.separator()
    first, second = tables.queue(rows(mark, ("7", "5_2", "x"), ("8", "8", "evil")), mark, DETAILS)

    assert (first.job_id, first.array_job_id, first.task, first.restarts, first.gpus_total) == ("7", "5", "5_2", 2, 3)
    assert first.devices == {"gpu01": "gpu:h200:1(IDX:1)", "gpu02": "gpu:h200:2(IDX:0-1)"}
    assert (first.started_at, first.ended_at, second.array_job_id, second.task) == (100, None, "", "")


def test_scontrol_still_tells_what_a_job_had_that_is_over() -> None:
    """Its list by node is empty then; without it, whether the job was asked for GPUs."""
    over = """JobId=7 JobName=x
   TRES=cpu=1,node=1,billing=1
   JOB_GRES=gpu:a100:1,gpu:h200:2,nic:1
     Nodes=gpu01 CPU_IDs=0 Mem=0 GRES=
   TresPerJob=gres:gpu:3

JobId=8 JobName=y
   JOB_GRES=(null)
   TresPerTask=gres/gpu:h200:1

JobId=9 JobName=z
   TresPerNode=gres:nic:1
"""
    mark = tables.separator()
    found = tables.queue(rows(mark, ("7", "7", "x"), ("8", "8", "y"), ("9", "9", "z")), mark, over)

    assert [(run.gpus_total, run.asked, run.has_gpus) for run in found] == [
        (3, True, True),
        (None, True, True),
        (None, False, False),
    ]
    assert tables.totals(over) == {"7": 3}


def test_a_name_with_line_ends_forges_no_job() -> None:
    """A row ends where the next one's number begins, and what scontrol seems to tell of twice is not believed."""
    mark = tables.separator()
    text = rows(mark, ("8", "8", "evil\n9|9|N/A|9|RUNNING|1"), ("9", "9", "honest\n"))
    found = {run.job_id: run for run in tables.queue(text, mark, DETAILS)}

    assert set(found) == {"8", "9"}
    assert (found["8"].name, found["9"].devices, found["9"].gpus_total) == ("evil\n9|9|N/A|9|RUNNING|1", {}, None)


def test_accounting_tells_each_run_and_no_time_that_is_unknown() -> None:
    """A requeued run has its end, the one that goes on has none."""
    mark = tables.separator()
    tres = "billing=1,cpu=1,gres/gpu:h200=1,gres/gpu=1,node=1"
    text = "".join(
        mark.join(("7", "5_2", state, str(start), end, code, tres, "ada", "lab", "gpu", "gpu01", "odd `name`\n7")) + "\n"
        for state, start, end, code in (
            ("REQUEUED", 100, "160", "0:0"), ("CANCELLED by 1000", 300, "400", "0:15"), ("RUNNING", 500, "Unknown", "0:0"),
        )
    )  # fmt: skip
    found = [(run.state, run.started_at, run.ended_at, run.exit_code, run.gpus_total) for run in tables.accounted(text, mark)]

    assert found == [("requeued", 100, 160, 0, 1), ("cancelled", 300, 400, 143, 1), ("running", 500, None, None, 1)]
    assert tables.accounted("", mark) == []


@pytest.mark.parametrize(
    ("tres", "total"),
    [("cpu=8,gres/gpu=2,gres/gpu:h200=2", 2), ("gres/gpu:a100=1,gres/gpu:h200=2", 3), ("cpu=8,mem=1G", None), ("gres/gpu=0", 0), ("", None)],
)  # fmt: skip
def test_gpus_are_counted_in_allocated_resources(tres: str, total: int | None) -> None:
    """Types are parts of the sum, and none told is not 0."""
    assert gpus_of(tres) == total


@pytest.mark.parametrize(
    ("gres", "total"),
    [("gpu:h200:2(IDX:0-1)", 2), ("gpu:4", 4), ("gpu:a:1(IDX:0),gpu:b:2(IDX:1-2)", 3), ("shard:h200:4(1/8,3/8)", None), ("", None)],
)  # fmt: skip
def test_gpus_are_counted_in_a_nodes_list(gres: str, total: int | None) -> None:
    """Shards of a card are no cards."""
    assert gpus_in(gres) == total


@pytest.mark.parametrize(
    ("gres", "left"),
    [
        ("gpu:h200:2(IDX:0-1)", "gpu:h200:2(IDX:0-1)"), ("gpu:a:1(IDX:0,2),nic:1(IDX:0),gpu:b:1(IDX:3)", "gpu:a:1(IDX:0,2),gpu:b:1(IDX:3)"),
        ("nic:2(IDX:0-1)", ""), ("shard:h200:4(1/8,3/8)", "shard:h200:4"), ("(null)", ""), ("gres:gpu:4", "gpu:4"),
    ],
)  # fmt: skip
def test_what_is_no_gpu_is_left_out_of_a_nodes_list(gres: str, left: str) -> None:
    """The server takes GPUs alone, and would refuse the job for a network card."""
    assert only_gpus(gres) == left


def test_a_state_that_nobody_knows_says_nothing() -> None:
    """A later Slurm may have more of them; a completing job still has its GPUs."""
    assert [state_of(text) for text in ("FLYING", "COMPLETING", "COMPLETED+COMPLETING", "")] == ["", "running", "completed", ""]
