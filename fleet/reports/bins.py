"""The bins of a job's timeline: how long they are, and how several become one."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict

import polars as pl

from advisor import bottleneck
from advisor.bottleneck import SHARES
from fleet.reports.spans import Held

BIN_S: Final = 30
MOST_BINS: Final = 60
UNKNOWN: Final = -1
_RANKS: Final = ("high", "medium", "low")


class Bin(TypedDict):
    """One stretch: `at` (UTC seconds) and `seconds` long, of which `judged_s` were judged on `gpus` GPUs. Empty label: not judged.

    `own_s` and `shared_s`: GPU seconds that were its own, and that others held too; `own_s` is UNKNOWN in reports of before it was kept.
    """

    at: int
    seconds: int
    own_s: int
    shared_s: int
    judged_s: float
    gpus: int
    bottleneck: str
    confidence: str
    shares: dict[str, float]
    busy: dict[str, float]


def bin_s(held: Held) -> int:
    """Seconds of a bin: the shortest that make MOST_BINS at most."""
    length = BIN_S
    while length * MOST_BINS < held.end - held.start:
        length *= 2
    return length


def joined(bins: Sequence[Bin], start: int, length: int) -> list[Bin]:
    """The bins as bins of `length`, which theirs divides."""
    groups: dict[int, list[Bin]] = defaultdict(list)
    for one in bins:
        groups[start + (one["at"] - start) // length * length].append(one)
    return [together(group, at, sum(one["seconds"] for one in group)) for at, group in sorted(groups.items())]


def together(bins: Sequence[Bin], at: int, seconds: int) -> Bin:
    """The bins as one: shares by the time judged, the label that the advisor gives them."""
    known = [one for one in bins if one["judged_s"] > 0 and one["shares"]]
    total = sum(one["judged_s"] for one in known)
    is_known = all(one["own_s"] != UNKNOWN for one in bins)
    own_s = sum(one["own_s"] for one in bins) if is_known else UNKNOWN
    shared_s = sum(one["shared_s"] for one in bins)
    if not known:
        return Bin(
            at=at, seconds=seconds, own_s=own_s, shared_s=shared_s, judged_s=0.0, gpus=0, bottleneck="", confidence="", shares={}, busy={},
        )  # fmt: skip
    shares = {name: sum(one["shares"].get(name, 0.0) * one["judged_s"] for one in known) / total for name in SHARES}
    busy = {
        key: round(sum(one["busy"][key] * one["judged_s"] for one in known) / total, 4) for key in known[0]["busy"]
        if all(key in one["busy"] for one in known)
    }  # fmt: skip
    frame = pl.DataFrame({f"share_{name}": [share] for name, share in shares.items()})
    return Bin(
        at=at,
        seconds=seconds,
        own_s=own_s,
        shared_s=shared_s,
        judged_s=round(total, 1),
        gpus=max(one["gpus"] for one in known),
        bottleneck=str(frame.select(bottleneck.label()).item()),
        confidence=max((one["confidence"] for one in known), key=_rank),
        shares={name: round(share, 4) for name, share in shares.items() if share >= 0.0005},
        busy=busy,
    )


def _rank(confidence: str) -> int:
    return _RANKS.index(confidence) if confidence in _RANKS else len(_RANKS) - 1


def summed(bins: Sequence[Bin]) -> Mapping[str, Any]:
    """`bottleneck`, `confidence` and `shares` of all the bins, by the GPU time in each that was the job's own; empty where none was judged."""
    is_known = all(one["own_s"] > 0 for one in bins if one["bottleneck"])
    weighted = [
        Bin(**{**one, "judged_s": float(one["own_s"] if is_known else one["seconds"])}) for one in bins if one["bottleneck"]
    ]
    whole = together(weighted, 0, 0)
    return {"bottleneck": whole["bottleneck"], "confidence": whole["confidence"], "shares": whole["shares"]}
