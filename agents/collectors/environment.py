"""What a process's environment may tell: known variables with values of their kind, the Slurm job and its partition, the pod's name."""

import re
from typing import Final

from agents.collectors import variables
from agents.collectors.plain_words import names

_POD_NAMES: Final = ("POD_NAME", "K8S_POD_NAME", "MY_POD_NAME")
"""Set by hand through the downward API. HOSTNAME is not asked: a pod may have the node's, or any other."""
_POD_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,198}[a-z0-9])?")
_VALUE_MAX: Final = 512
"""More than any value that is told has."""
_JOB: Final = re.compile(r"[0-9]{1,10}")
_PARTITION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SLURM: Final = {"SLURM_JOB_ID": _JOB, "SLURM_STEP_ID": _JOB, "SLURM_JOB_PARTITION": _PARTITION}
_STEPS: Final = {"4294967290": "interactive", "4294967291": "batch", "4294967292": "extern"}
"""Slurm's numbers for the steps that have a name."""


def labels(content: bytes, user: str) -> dict[str, str]:
    """Labels of /proc/PID/environ. `user` is a word never told."""
    found: dict[str, str] = {}
    slurm: dict[str, str] = {}
    for entry in content.split(b"\0"):
        raw_name, is_set, raw_value = entry.partition(b"=")
        if not is_set or len(raw_name) > 64:
            continue
        try:
            name = raw_name.decode("ascii")
        except UnicodeDecodeError:
            continue
        value = raw_value[:_VALUE_MAX].decode("ascii", "replace")
        if name in _POD_NAMES and _POD_NAME.fullmatch(value) and not names(value, user):
            found["pod_name"] = value
        elif (form := _SLURM.get(name)) is not None:
            if form.fullmatch(value) and not names(value, user):
                slurm[name] = value
        elif (told := variables.told(name, value, user)) is not None:
            found[f"env.{name}"] = told
    if job := slurm.get("SLURM_JOB_ID"):
        found["slurm_job"] = job
        if step := slurm.get("SLURM_STEP_ID"):
            found["slurm_step"] = _STEPS.get(step, step)
        if partition := slurm.get("SLURM_JOB_PARTITION"):
            found["slurm_partition"] = partition
    return found


def of_cuda(content: bytes) -> dict[str, str]:
    """The variables of /proc/PID/environ by which CUDA chooses its devices, those that are set; not to be told as they are."""
    entries = (entry.decode(errors="replace").partition("=") for entry in content.split(b"\0") if entry.startswith(b"CUDA_"))
    return {name: value for name, is_set, value in entries if is_set and name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")}
