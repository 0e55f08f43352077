"""`squeue --json` of several versions, each with a shape of its own."""

import json
from typing import Any

import pytest

from agents.slurm.commands import SlurmError
from agents.slurm.queue_json import runs
from agents.slurm.runs import SlurmRun


def number(value: int | None) -> dict[str, Any]:
    """As versions from 23.02 on write one."""
    return {"set": value is not None, "infinite": False, "number": value or 0}


OLD: dict[str, Any] = {
    "job_id": 7, "job_state": "RUNNING", "name": "a\nJobId=77 b", "user_name": "ada", "account": "lab", "partition": "gpu",
    "array_job_id": 5, "array_task_id": 2, "het_job_id": 0, "het_job_offset": 0, "start_time": 1796067476, "end_time": 1796071076,
    "exit_code": 0, "restart_cnt": 1, "nodes": "gpu[01-02]", "tres_alloc_str": "cpu=2,node=2,billing=2,gres/gpu=3,gres/gpu:h200=3",
    "gres_detail": ["gpu:h200:1(IDX:0)", "gpu:h200:2(IDX:0-1)"],
    "job_resources": {"nodes": "gpu[01-02]", "allocated_nodes": [{"nodename": "gpu01"}, {"nodename": "gpu02"}]},
}  # fmt: skip
"""Of 22.05."""
NEW: dict[str, Any] = OLD | {
    "job_state": ["RUNNING"], "array_job_id": number(5), "array_task_id": number(2), "het_job_id": number(0), "het_job_offset": number(0),
    "start_time": number(1796067476), "end_time": number(1796071076),
    "exit_code": {"status": ["SUCCESS"], "return_code": number(0), "signal": {"id": number(None), "name": ""}},
    "job_resources": {"nodes": {"list": "gpu[01-02]", "allocation": [{"index": 0, "name": "gpu01"}, {"index": 1, "name": "gpu02"}]}},
}  # fmt: skip
"""Of 24.05."""


def read(job: dict[str, Any]) -> SlurmRun:
    """The one job of an answer."""
    (run,) = runs(json.dumps({"jobs": [job], "errors": []}))
    return run


@pytest.mark.parametrize("job", [OLD, NEW], ids=["22.05", "24.05"])
def test_a_running_task_of_an_array_is_read_whole(job: dict[str, Any]) -> None:
    """Its end is the time limit's, so it is none yet; a name with a line end is a name."""
    assert read(job) == SlurmRun(
        job_id="7", state="running", started_at=1796067476, name="a\nJobId=77 b", user="ada", account="lab", partition="gpu",
        array_job_id="5", task="5_2", restarts=1, gpus_total=3, devices={"gpu01": "gpu:h200:1(IDX:0)", "gpu02": "gpu:h200:2(IDX:0-1)"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("told", "state", "code"),
    [
        ({"job_state": "CANCELLED", "exit_code": 15}, "cancelled", 143),
        ({"job_state": "FAILED", "exit_code": 3 << 8}, "failed", 3),
        ({"job_state": ["FAILED", "COMPLETING"], "exit_code": {"return_code": number(3)}}, "failed", 3),
        ({"job_state": ["TIMEOUT"], "exit_code": {"return_code": number(0), "signal": {"signal_id": 9}}}, "timeout", 137),
        ({"job_state": "OUT_OF_MEMORY", "exit_code": number(0)}, "out_of_memory", 0),
    ],
)
def test_an_end_has_its_time_and_its_exit_code(told: dict[str, Any], state: str, code: int) -> None:
    """A signal counts as a shell counts it, in each version's own words."""
    run = read(OLD | told)

    assert (run.state, run.exit_code, run.ended_at) == (state, code, 1796071076)


def test_a_component_of_a_heterogeneous_job_names_the_whole() -> None:
    """Slurm calls it by leader and offset."""
    run = read(OLD | {"array_job_id": 0, "array_task_id": None, "het_job_id": 4, "het_job_offset": 1})

    assert (run.array_job_id, run.task) == ("4", "4+1")


def test_devices_that_cannot_be_told_apart_by_node_are_not_guessed() -> None:
    """The count stands, from the allocated resources."""
    run = read(OLD | {"job_resources": {"allocated_nodes": None}})
    alone = read(OLD | {"job_resources": None, "nodes": "gpu01", "gres_detail": ["gpu:2(IDX:0-1)"], "tres_alloc_str": "cpu=1"})

    assert (run.devices, run.gpus_total) == ({}, 3)
    assert (alone.devices, alone.gpus_total) == ({"gpu01": "gpu:2(IDX:0-1)"}, 2)


@pytest.mark.parametrize("text", ["", "squeue: error", "[]", '{"nodes": []}', "[" * 9999])
def test_what_is_no_list_of_jobs_is_left_to_the_text(text: str) -> None:
    """A Slurm without the plugin prints something else."""
    with pytest.raises(SlurmError) as caught:
        runs(text)
    assert caught.value.absent


def test_an_empty_list_with_an_error_is_no_answer() -> None:
    """So 22.05 prints when its controller is away, and ends with 0: no job is lost for that, and the text would tell no more."""
    error = {
        "description": "Failed while looking for jobs",
        "error_number": -1,
        "error": "Unspecified error",
        "source": "slurm_load_jobs",
    }
    with pytest.raises(SlurmError, match="Failed while looking for jobs") as caught:
        runs(json.dumps({"errors": [error], "jobs": []}))
    assert not caught.value.absent
