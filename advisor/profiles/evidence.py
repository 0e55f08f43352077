"""What a profile says of the rules that judge the same thing from telemetry: for, against, or nothing, with the numbers.

Thresholds are shares of the devices' span: what less than a twentieth of it could gain would hardly show in the step time.
"""

from collections.abc import Sequence
from typing import Final

from advisor.profiles.summary import Device, Evidence, Verdict
from advisor.text import Text, Value, _

LAUNCHING: Final = 0.10
"""Idle while the host launched. Public traces of training have 0.00 to 0.08 where the host was ahead, 0.36 and 0.64 where it was not."""
SMALL_KERNEL_S: Final = 100e-6
"""Kernels longer than that hide the launch of the next one, however slow the host is."""
EXPOSED: Final = 0.05
PAGEABLE: Final = 0.01
"""Of the span in pageable copies to the GPU: each also holds its thread for as long, so it costs more than its own time."""
OFF_TENSOR_CORES: Final = 0.05
"""Of the kernels' time in fp32 matrix work off the tensor cores."""
LOADING: Final = 0.05


def evidence(devices: Sequence[Device], why_none: Text | None, complete: bool) -> tuple[Evidence, ...]:
    """One verdict for each rule that a profile can speak of, over all devices; "cannot tell" where the profile holds nothing of it.

    A profile that is not complete lacks kernels of any moment: what was exposed or idle may not have been, and what is not there says
    nothing. What was found in it, pageable copies and kernels off the tensor cores, stands.
    """
    if not devices:
        nothing = why_none or Text(_("The profile holds no activity of a GPU."))
        return tuple(Evidence(rule, "cannot tell", nothing, {}) for rule in _RULES)
    span_s = sum(one.span_s for one in devices)
    if not span_s:
        nothing = Text(_("All activities of the profile begin and end in one instant."))
        return tuple(Evidence(rule, "cannot tell", nothing, {}) for rule in _RULES)
    said = (
        _launches(devices, span_s),
        _communication(devices, span_s),
        _pageable(devices, span_s),
        _tensor_cores(devices),
        _loading(devices, span_s),
    )
    if complete:
        return said
    partly = Text(_("Only a part of the profile could be read: that does not tell."))
    return tuple(
        one if one.verdict == "supports" and one.rule in _RULES[2:4] else Evidence(one.rule, "cannot tell", partly, one.numbers)
        for one in said
    )


_RULES: Final = (
    "launch-bound-small-kernels",
    "comm-not-overlapped",
    "h2d-unpinned-copy",
    "fp32-without-tensor-cores",
    "dataloader-too-few-workers",
)


def _said(rule: str, verdict: Verdict, text: str, **numbers: Value | None) -> Evidence:
    told = {name: value for name, value in numbers.items() if value is not None}
    return Evidence(rule, verdict, Text(text, told), {n: v for n, v in numbers.items() if not isinstance(v, str)})


def _launches(devices: Sequence[Device], span_s: float) -> Evidence:
    told = [one.idle.launching_s for one in devices if one.idle.launching_s is not None]
    kernels = sum(one.kernels for one in devices)
    median_s = max((one.kernel_p50_s for one in devices if one.kernel_p50_s is not None), default=0.0)
    if not told or not kernels:
        return _said(_RULES[0], "cannot tell", _("The profile does not tell what the host did while the GPU was idle."))
    share = sum(told) / span_s
    unqueued = [one.launches.unqueued for one in devices if one.launches.unqueued is not None]
    numbers = {
        "share": share,
        "kernels": kernels,
        "median_us": median_s * 1e6,
        "unqueued": sum(unqueued) if unqueued else None,
        "latency_us": max(
            (one.launches.latency_p50_s * 1e6 for one in devices if one.launches.latency_p50_s is not None), default=None
        ),
    }
    if share < LAUNCHING:
        text = _(
            "The GPU was idle for {share:.1%} of the time while its host launched the next kernel: launches do not hold it up."
        )
        return _said(_RULES[0], "speaks against", text, **numbers)
    if median_s >= SMALL_KERNEL_S:
        text = _(
            "The GPU was idle for {share:.1%} of the time while its host worked in operators, but its {kernels:,} kernels are not small"
            " (median {median_us:,.0f} us): look for one slow operator of the host rather than at launches."
        )
        return _said(_RULES[0], "cannot tell", text, **numbers)
    text = _(
        "The GPU was idle for {share:.1%} of the time while its host launched the next kernel: of {kernels:,} kernels (median"
        " {median_us:,.1f} us), {unqueued:,} were launched when nothing was queued any more."
    )
    return _said(_RULES[0], "supports", text, **numbers)


def _communication(devices: Sequence[Device], span_s: float) -> Evidence:
    ran_s = sum(one.communication_s for one in devices)
    exposed_s = sum(one.communication_exposed_s for one in devices)
    numbers = {"share": exposed_s / span_s, "exposed_s": exposed_s, "communication_s": ran_s}
    if not ran_s:
        return _said(_RULES[1], "speaks against", _("No communication kernel is in the profile."), **numbers)
    numbers["hidden"] = 1 - exposed_s / ran_s
    if exposed_s / span_s < EXPOSED:
        text = _(
            "Communication ran for {communication_s:.3g} s, {hidden:.0%} of it under compute: it cost {share:.1%} of the time."
        )
        return _said(_RULES[1], "speaks against", text, **numbers)
    text = _(
        "Communication ran for {communication_s:.3g} s, of which {exposed_s:.3g} s with no compute beside it: {share:.1%} of the time."
        " Waiting for a slower rank is in it."
    )
    return _said(_RULES[1], "supports", text, **numbers)


def _pageable(devices: Sequence[Device], span_s: float) -> Evidence:
    copies = [copy for one in devices for copy in one.copies if copy.direction == "HtoD"]
    pageable = [copy for copy in copies if copy.pageable]
    spent_s = sum(copy.total_s for copy in pageable)
    sizes = [copy.size_bytes for copy in pageable]
    numbers = {
        "share": spent_s / span_s,
        "count": sum(copy.count for copy in pageable),
        "size_bytes": None if None in sizes else sum(size for size in sizes if size is not None),
        "pageable_s": spent_s,
        "copies": sum(copy.count for copy in copies),
    }
    if not copies:
        return _said(_RULES[2], "speaks against", _("No copy to the GPU is in the profile."), **numbers)
    if not pageable and any(copy.pageable is None for copy in copies):
        text = _("The profile does not tell whether the memory that was copied to the GPU is pinned.")
        return _said(_RULES[2], "cannot tell", text, **numbers)
    if spent_s / span_s < PAGEABLE:
        text = _("{count:,} of {copies:,} copies to the GPU came from pageable memory; they took {share:.1%} of the time.")
        return _said(_RULES[2], "speaks against", text, **numbers)
    text = _(
        "{count:,} of {copies:,} copies to the GPU came from pageable memory and took {pageable_s:.3g} s, {share:.1%} of the time:"
        " the driver copies each through a buffer of its own, and the host waits."
    )
    return _said(_RULES[2], "supports", text, **numbers)


def _tensor_cores(devices: Sequence[Device]) -> Evidence:
    kernels_s = sum(one.kernel_total_s for one in devices)
    matrix_s, on_s, untold_s = (sum(getattr(one.matrix, name) for one in devices) for name in ("total_s", "on_s", "untold_s"))
    fp32_s = sum(one.matrix.off_by_dtype_s.get("fp32", 0.0) for one in devices)
    off_untyped_s = sum(one.matrix.off_by_dtype_s.get("unknown", 0.0) for one in devices)
    numbers = {
        "share": fp32_s / kernels_s if kernels_s else 0.0,
        "fp32_s": fp32_s,
        "matrix_s": matrix_s,
        "on_tensor_cores_s": on_s,
        "untold_s": untold_s,
    }
    if not matrix_s:
        return _said(_RULES[3], "speaks against", _("No matrix kernel is in the profile."), **numbers)
    if kernels_s and fp32_s / kernels_s >= OFF_TENSOR_CORES:
        text = _("Matrix kernels in fp32 ran {fp32_s:.3g} s without tensor cores: {share:.1%} of all kernel time.")
        return _said(_RULES[3], "supports", text, **numbers)
    if kernels_s and (untold_s + off_untyped_s) / kernels_s >= OFF_TENSOR_CORES:
        text = _(
            "Of {matrix_s:.3g} s of matrix kernels, {untold_s:.3g} s have names that do not tell whether they used tensor cores."
        )
        return _said(_RULES[3], "cannot tell", text, **numbers)
    text = _(
        "Of {matrix_s:.3g} s of matrix kernels, {fp32_s:.3g} s ran in fp32 without tensor cores: {share:.1%} of all kernel time."
    )
    return _said(_RULES[3], "speaks against", text, **numbers)


def _loading(devices: Sequence[Device], span_s: float) -> Evidence:
    told = [one.idle.loading_s for one in devices if one.idle.loading_s is not None]
    if not told:
        return _said(_RULES[4], "cannot tell", _("No DataLoader is marked in the profile."))
    share = sum(told) / span_s
    if share < LOADING:
        text = _("The GPU was idle for {share:.1%} of the time while the program waited for its DataLoader.")
        return _said(_RULES[4], "speaks against", text, share=share, loading_s=sum(told))
    text = _(
        "The GPU was idle for {share:.1%} of the time, {loading_s:.3g} s, while the program waited for its DataLoader's next batch."
    )
    return _said(_RULES[4], "supports", text, share=share, loading_s=sum(told))
