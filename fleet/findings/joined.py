"""Witnesses that join a finding of another: a node's count of devices, and what the log of a job says, open no alert of their own."""

from collections import defaultdict
from collections.abc import MutableMapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from advisor.finding import Finding as Found
from advisor.xid_catalog import FALLEN
from fleet.annotations.models import Annotation
from fleet.findings import witnesses
from fleet.findings.models import Finding
from fleet.findings.nearby import Nearby
from fleet.findings.rows import update

LATELY: Final = timedelta(minutes=15)
"""Within this time of each other what a job's log says and what was found of its cards are of one fault."""
OF_LOG: Final[dict[str, tuple[str, ...]]] = {
    "cuda_oom": ("gpu-oom-recurring",),
    "driver_insufficient": ("driver-below-minimum",),
    "no_kernel_image": ("wheel-arch-mismatch",),
    "bus_error": ("container-shm-small",),
    "nccl_timeout": ("collective-hang",),
    "amp_deprecated": ("deprecated-torch-surface",),
    "ecc_error": ("uncorrectable-ecc", "row-remap-failed"),
    "gpu_lost": (FALLEN.rule,),
    "nvlink_error": ("nvlink-fault",),
    "illegal_access": ("app-fault-xid",),
}
"""By the word of a `log_error` the rules whose trouble it is."""


def count_devices(seen: MutableMapping[str, Found], rows: Sequence[Finding], at: datetime) -> None:
    """Take the counts of devices out of what was seen whose missing cards are known to be lost: each is a witness of those."""
    lost: dict[int | None, list[Finding]] = defaultdict(list)
    still = {row.fingerprint for row in rows}
    for row in rows:
        if row.rule == FALLEN.rule and row.scope == "gpu":
            lost[row.node_id].append(row)
    for fingerprint, one in list(seen.items()):
        if one.rule != FALLEN.rule or one.scope != "node" or fingerprint in still:
            continue
        known = lost.get(int(one.target), []) if one.target.isdigit() else []
        missing = _missing(one)
        if known and missing is not None and missing <= len(known):
            del seen[fingerprint]
            _noted(known, witnesses.DEVICE_COUNT, at)


def read_job_logs(rows: Sequence[Finding], at: datetime) -> None:
    """Note on the open findings of a job, or of the cards that it held, that its log says the same."""
    told = Annotation.objects.filter(scope="job", key="log_error", at__gt=at - LATELY, at__lte=at).order_by("at")
    for target, word, when in told.values_list("target", "value", "at"):
        rules = OF_LOG.get(str(word), ())
        near = [row for row in rows if row.rule in rules]
        mine = [row for row in near if row.scope == "job" and row.target == target]
        cards = [row for row in near if row.scope == "gpu"]
        if cards:
            held = Nearby(at).read([row.pk for row in cards])
            mine += [row for row in cards if target in held[row.pk].jobs and abs(held[row.pk].opened_at - when) <= LATELY]
        iso = when.isoformat()
        _noted([row for row in mine if _last(row) < iso], witnesses.JOB_LOG, when)


def _noted(rows: Sequence[Finding], kind: str, at: datetime) -> None:
    for row in rows:
        witnesses.note(row, kind, at.isoformat(), at.isoformat())
    update(rows, ("witnesses",))


def _last(row: Finding) -> str:
    noted: Any = row.witnesses.get(witnesses.JOB_LOG)
    return str(noted["last_at"]) if noted else ""


def _missing(one: Found) -> float | None:
    """How many cards the node lacks; None where that is not among the evidence."""
    values = {line.name: line.value for line in one.evidence}
    there, all_ = values.get("node_gpus_present"), values.get("node_gpus")
    return None if there is None or all_ is None else max(all_ - there, values.get("allocated_gpus_missing") or 0.0)
