"""The table of a GPU's bench scores beside those of its peers."""

import re
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from fleet.benches.models import BenchScore
from fleet.benches.peers import SLOW_RATIO, is_judged, of_gpu
from fleet.dashboard.templatetags.units import ABSENT, flop_rate, rate
from fleet.inventory.models import Gpu

PROTOCOL = {"full": _("full run"), "quick": _("quick run")}

_MATMUL = re.compile(r"matmul_([a-z0-9]+)_([0-9x]+)")
_SIZED = re.compile(r"(h2d|d2h|peer|all_reduce)_(?:(pinned|pageable|copy)_)?(\d+)(mib|gib)(?:_(\d+)gpus)?")
_UNITS = {"mib": "MiB", "gib": "GiB"}
_MEMORY = {"memory_copy": _("memory, copy"), "memory_triad": _("memory, triad")}


@dataclass(frozen=True, slots=True)
class Row:
    """One test. `share`: of the peers' median; `is_slow`: so far below it that the GPU may be to blame."""

    score: BenchScore
    label: str
    value: str
    median: str
    share: float | None
    peers: int
    is_slow: bool
    protocol: str


def rows(gpu: Gpu, at: datetime) -> list[Row]:
    """The newest score of each test, in the order of their measurement; empty where the GPU was never measured."""
    found = []
    for one in of_gpu(gpu, at):
        write = flop_rate if one.score.unit == "flop_per_second" else rate
        protocol = one.score.run.protocol
        found.append(
            Row(
                score=one.score,
                label=label(one.score.name),
                value=write(one.score.value),
                median=ABSENT if one.median is None else write(one.median),
                share=one.share,
                peers=one.peers,
                is_slow=one.share is not None and one.share <= SLOW_RATIO and is_judged(one.score.name),
                protocol=str(PROTOCOL.get(protocol, protocol)),
            )
        )
    return found


def label(name: str) -> str:
    """A test's name in words; as it is where it is none of ours."""
    if name in _MEMORY:
        return str(_MEMORY[name])
    if found := _MATMUL.fullmatch(name):
        return gettext("matrix product, {dtype}, {shape}").format(dtype=found[1], shape=found[2].replace("x", " × "))
    found = _SIZED.fullmatch(name)
    if found is None:
        return name
    size = f"{found[3]} {_UNITS[found[4]]}"
    words = {
        ("h2d", "pinned"): _("host to GPU, pinned, {size}"),
        ("h2d", "pageable"): _("host to GPU, pageable, {size}"),
        ("d2h", "pinned"): _("GPU to host, pinned, {size}"),
        ("d2h", "pageable"): _("GPU to host, pageable, {size}"),
        ("peer", "copy"): _("to the next GPU, {size}"),
        ("all_reduce", None): _("all-reduce of {size} over {gpus} GPUs"),
    }.get((found[1], found[2]))
    return name if words is None else str(words).format(size=size, gpus=found[5])
