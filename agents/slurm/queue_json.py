"""Jobs that the controller knows, read from `squeue --json` of Slurm 21.08 and later, whose shape differs from version to version."""

import json
from collections.abc import Mapping
from typing import Any, Final

from agents.slurm.commands import SlurmError
from agents.slurm.runs import SlurmRun, asks_gpus, exit_code_of, gpus_in, gpus_of, only_gpus, state_of

_WISHES: Final = ("tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task")


def runs(text: str) -> list[SlurmRun]:
    """One run for each job that is listed; SlurmError where it is no such list. What a version leaves out stays unknown."""
    try:
        told = json.loads(text)
        jobs = told["jobs"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SlurmError("squeue --json prints no list of jobs.", absent=True) from None
    if told.get("errors"):  # 22.05 ends with 0 and an empty list where its controller does not answer
        raise SlurmError(f"squeue --json: {_error(told['errors'])}.")
    return [_run(job) for job in jobs if isinstance(job, dict) and job.get("job_id")]


def _error(errors: Any) -> str:
    first = errors[0] if isinstance(errors, list) else errors
    return str(first.get("description") or first.get("error") if isinstance(first, dict) else first)[:200]


def _run(job: Mapping[str, Any]) -> SlurmRun:
    state = state_of(job.get("job_state") or "")
    devices = _devices(job)
    array, component = _number(job.get("array_job_id")), _number(job.get("het_job_id"))
    task = _number(job.get("array_task_id"))
    started_at = _number(job.get("start_time")) or None
    begun = started_at if state != "pending" else None
    ended_at = _number(job.get("end_time")) or None
    total = gpus_of(str(job.get("tres_alloc_str") or ""))
    if total is None and devices:  # a cluster that accounts no GPUs
        total = sum(gpus_in(listed) or 0 for listed in devices.values()) or None
    return SlurmRun(
        job_id=str(_number(job["job_id"])),
        state=state,
        started_at=begun,
        ended_at=ended_at if _is_end(state) else None,
        exit_code=_exit_code(job.get("exit_code")) if _is_end(state) else None,
        name=str(job.get("name") or ""),
        user=str(job.get("user_name") or ""),
        account=str(job.get("account") or ""),
        partition=str(job.get("partition") or ""),
        array_job_id=str(array or component or ""),
        task=f"{array}_{task}" if array and task is not None
        else f"{component}+{_number(job.get('het_job_offset')) or 0}" if component else "",
        restarts=_number(job.get("restart_cnt")),
        gpus_total=total,
        devices=devices,
        asked=any(asks_gpus(str(job.get(name) or "")) for name in _WISHES),
    )  # fmt: skip


def _is_end(state: str) -> bool:
    return state not in ("", "pending", "running", "suspended")


def _number(value: object) -> int | None:
    """The number of `7`, or of `{"set": true, "infinite": false, "number": 7}`; None where it is not set."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _exit_code(value: object) -> int | None:
    """Of a wait status, or of an object with code and signal; None where none is told."""
    if isinstance(value, dict) and "return_code" in value:
        signal = value.get("signal")
        number = _number(signal.get("id", signal.get("signal_id"))) if isinstance(signal, dict) else None
        code = _number(value["return_code"])
        return None if code is None and not number else exit_code_of(code or 0, number or 0)
    status = _number(value)
    return None if status is None else exit_code_of(status >> 8 & 0xFF, status & 0x7F)


def _devices(job: Mapping[str, Any]) -> dict[str, str]:
    """By node its list of devices; empty where the lists cannot be told apart by node."""
    listed = job.get("gres_detail") or []
    if not isinstance(listed, list):
        return {}
    names = _nodes(job)
    if len(names) != len(listed):
        return {}
    found = {name: only_gpus(str(gres)) for name, gres in zip(names, listed, strict=True)}
    return {name: gres for name, gres in found.items() if gres}


def _nodes(job: Mapping[str, Any]) -> list[str]:
    """The job's nodes in Slurm's order: three versions, three places."""
    resources = job.get("job_resources")
    inner = resources.get("nodes") if isinstance(resources, dict) else None
    if isinstance(inner, dict):
        rows, key = inner.get("allocation"), "name"
    else:
        rows, key = (resources.get("allocated_nodes") if isinstance(resources, dict) else None), "nodename"
    if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
        return [str(row.get(key) or "") for row in rows]
    nodes = str(job.get("nodes") or "")
    return [nodes] if nodes and "[" not in nodes and "," not in nodes else []
