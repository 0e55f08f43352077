"""A profile beside telemetry: `summed` makes the bounded summary of one, `features` what rules read of it.

`FEATURES` are of the job's scope. A profile is of seconds, and of one or several ranks: its shares are of all its GPUs together.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from advisor.profiles.evidence import OFF_TENSOR_CORES, PAGEABLE
from advisor.profiles.summary import Device, Profile
from wire.profile import MAX_KERNELS, NAME_CHARS, ProfileReport, Said, TopKernel

FEATURES: Final[Mapping[str, type[float] | type[str]]] = {
    "profile_idle_share": float,
    "profile_data_wait_share": float,
    "profile_launch_gap_share": float,
    "profile_sync_wait_share": float,
    "profile_exposed_comm_share": float,
    "profile_pageable_share": float,
    "profile_tensor_missed_share": float,
    "profile_fp32_missed_share": float,
    "profile_half_missed_share": float,
    "profile_kernel_p50_s": float,
    "profile_top_kernel": str,
    "profile_top_kernel_share": float,
}
"""Of the span: idle, data_wait (inside the DataLoader), launch_gap (the host launched), sync_wait (the host waited for the GPU),
exposed_comm, pageable. Of all kernels' time: tensor_missed (matrix kernels off the tensor cores; fp32_ and half_ are parts), top_kernel."""

_SHORT: Final = 80
_HALF: Final = ("bf16", "fp16", "fp8")


def summed(profile: Profile, node: str, at: float, job: str = "", pid: int | None = None) -> ProfileReport | None:
    """The summary of a profile that was written at `at` (epoch seconds) on `node`; None where it has no time on a GPU."""
    gpus = profile.devices
    span_s = sum(one.span_s for one in gpus)
    if not span_s:
        return None
    kernels_s = sum(one.kernel_total_s for one in gpus)
    off = _by_dtype(gpus)
    idle = {
        name: _known(getattr(one.idle, f"{name}_s") for one in gpus) for name in ("queued", "loading", "waiting", "launching")
    }
    return ProfileReport(
        node=node,
        at=at,
        job=job,
        pid=pid,
        kind=profile.source.kind,
        complete=profile.source.complete,
        events=profile.source.events,
        rank=profile.source.rank,
        world_size=profile.source.world_size,
        gpus=len(gpus),
        gpu_names=tuple(sorted({_plain(one.name, 100) for one in gpus if one.name}))[:16],
        steps=profile.steps.count if profile.steps else 0,
        step_p50_s=profile.steps.p50_s if profile.steps else None,
        span_s=span_s,
        compute_s=sum(one.compute_s for one in gpus),
        communication_s=sum(one.communication_s for one in gpus),
        communication_exposed_s=sum(one.communication_exposed_s for one in gpus),
        copies_exposed_s=sum(one.copies_exposed_s for one in gpus),
        idle_s=sum(one.idle.total_s for one in gpus),
        idle_queued_s=idle["queued"],
        idle_loading_s=idle["loading"],
        idle_waiting_s=idle["waiting"],
        idle_launching_s=idle["launching"],
        idle_unknown_s=sum(one.idle.unknown_s for one in gpus),
        kernels=sum(one.kernels for one in gpus),
        kernel_total_s=kernels_s,
        kernel_p50_s=max((one.kernel_p50_s for one in gpus if one.kernel_p50_s is not None), default=None),
        unqueued=_count(one.launches.unqueued for one in gpus),
        pageable_s=_pageable(gpus),
        pageable_copies=sum(copy.count for one in gpus for copy in one.copies if copy.direction == "HtoD" and copy.pageable),
        matrix_s=sum(one.matrix.total_s for one in gpus),
        missed_s=sum(one.matrix.off_s for one in gpus),
        missed_fp32_s=off.get("fp32", 0.0),
        missed_half_s=sum(off.get(name, 0.0) for name in _HALF),
        untold_s=sum(one.matrix.untold_s for one in gpus),
        top=_top(gpus, kernels_s),
        said=tuple(Said(rule=one.rule, verdict=one.verdict) for one in profile.evidence),
    )


def features(report: ProfileReport) -> dict[str, float | str | None]:
    """The values of FEATURES; None for what the profile does not tell.

    One that is not complete lacks kernels of any moment, so it says nothing of idle and exposed time. Of pageable copies and
    kernels off the tensor cores it says what was found, and where little was found nothing.
    """
    span_s, kernels_s = report.span_s, report.kernel_total_s

    def of_span(seconds: float | None) -> float | None:
        return None if seconds is None or not report.complete else min(1.0, seconds / span_s)

    def missed(seconds: float) -> float | None:
        if not kernels_s:
            return None
        share = seconds / kernels_s
        tells = report.complete and report.untold_s / kernels_s < OFF_TENSOR_CORES
        return min(1.0, share) if tells or share >= OFF_TENSOR_CORES else None

    pageable = None if report.pageable_s is None else min(1.0, report.pageable_s / span_s)
    heaviest = max(report.top, key=lambda kernel: kernel.share, default=None) if report.complete else None
    return {
        "profile_idle_share": of_span(report.idle_s),
        "profile_data_wait_share": of_span(report.idle_loading_s),
        "profile_launch_gap_share": of_span(report.idle_launching_s),
        "profile_sync_wait_share": of_span(report.idle_waiting_s),
        "profile_exposed_comm_share": of_span(report.communication_exposed_s),
        "profile_pageable_share": pageable if report.complete or (pageable or 0.0) >= PAGEABLE else None,
        "profile_tensor_missed_share": missed(report.missed_s),
        "profile_fp32_missed_share": missed(report.missed_fp32_s),
        "profile_half_missed_share": missed(report.missed_half_s),
        "profile_kernel_p50_s": report.kernel_p50_s,
        "profile_top_kernel": None if heaviest is None else _shortened(heaviest.name),
        "profile_top_kernel_share": None if heaviest is None else heaviest.share,
    }


def _known(values: Iterable[float | None]) -> float | None:
    """Their sum; None where not one is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _count(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _pageable(gpus: tuple[Device, ...]) -> float | None:
    """Seconds of copies to the GPUs from pageable memory; None where some kinds are not told and none of the others is pageable."""
    copies = [copy for one in gpus for copy in one.copies if copy.direction == "HtoD"]
    found = [copy.total_s for copy in copies if copy.pageable]
    return None if not found and any(copy.pageable is None for copy in copies) else sum(found)


def _by_dtype(gpus: tuple[Device, ...]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for one in gpus:
        for name, spent_s in one.matrix.off_by_dtype_s.items():
            sums[name] = sums.get(name, 0.0) + spent_s
    return sums


def _top(gpus: tuple[Device, ...], kernels_s: float) -> tuple[TopKernel, ...]:
    """The heaviest kernels over all GPUs."""
    rows: dict[str, TopKernel] = {}
    for kernel in (kernel for one in gpus for kernel in one.top):
        name = _plain(kernel.name, NAME_CHARS) or "?"
        before = rows.get(name)
        total_s = kernel.total_s + (before.total_s if before else 0.0)
        told = {"yes": "yes", "no": "no"}.get(kernel.tensor_cores, "unknown")
        rows[name] = TopKernel(
            name=name,
            count=kernel.count + (before.count if before else 0),
            total_s=total_s,
            share=min(1.0, total_s / kernels_s) if kernels_s else 0.0,
            tensor_cores=told,  # type: ignore[arg-type] # one of the three
            dtype=kernel.dtype or "",
        )
    return tuple(sorted(rows.values(), key=lambda row: (-row.total_s, row.name))[:MAX_KERNELS])


def _plain(text: str, most: int) -> str:
    """A name without what steers a terminal or a page: a program may call a kernel anything."""
    return "".join(one if one.isprintable() else "?" for one in text)[:most]


def _shortened(name: str) -> str:
    return name if len(name) <= _SHORT else f"{name[: _SHORT - 1]}…"
