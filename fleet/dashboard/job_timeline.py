"""A report's timeline as shapes of a drawing that the page stretches: stacked shares, bin by bin, and how busy the engines were."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from advisor.bottleneck import SHARES
from fleet.dashboard import words

WIDTH: Final = 1000.0
HEIGHT: Final = 100.0
_TICKS: Final = 4


@dataclass(frozen=True, slots=True)
class Bar:
    """One cause's part of a bin, in the drawing's units."""

    slug: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """One bin: where it stands, what is said of it, and its bars; without bars it was not judged.

    `shared`: the part of its GPU time that others held too; None: none of it.
    """

    at: datetime
    seconds: int
    x: float
    width: float
    slug: str
    word: str
    confidence: str
    shares: tuple[tuple[str, float], ...]
    bars: tuple[Bar, ...]
    busy: Mapping[str, float]
    shared: float | None = None

    @property
    def named(self) -> tuple[tuple[str, float], ...]:
        """The larger shares, in words."""
        return tuple((words.word(words.BOTTLENECK, slug), share) for slug, share in self.shares)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The whole: bins, the band from p5 to p95 and the line of the medians as points of polygons, and moments along the axis."""

    stretches: tuple[Stretch, ...]
    bands: tuple[str, ...]
    medians: tuple[str, ...]
    ticks: tuple[tuple[float, datetime], ...]
    legend: tuple[tuple[str, str], ...]

    @property
    def shared(self) -> bool:
        """True where others held its GPUs too for a time."""
        return any(one.shared for one in self.stretches)

    @property
    def judged(self) -> bool:
        """True where a bin was judged."""
        return any(one.bars for one in self.stretches)


def drawn(bins: Sequence[Mapping[str, Any]], since: int, until: int) -> Drawn:
    """The drawing of the bins from `since` to `until` (UTC seconds)."""
    whole = max(until - since, 1)
    stretches = tuple(_stretch(one, since, whole) for one in bins)
    used = {slug for one in stretches for slug, _ in one.shares}
    bands, medians = _busy(stretches)
    return Drawn(
        stretches,
        bands,
        medians,
        tuple((100 * n / _TICKS, datetime.fromtimestamp(since + whole * n // _TICKS, UTC)) for n in range(_TICKS + 1)),
        tuple((slug, words.word(words.BOTTLENECK, slug)) for slug in SHARES if slug in used),
    )


def _stretch(one: Mapping[str, Any], since: int, whole: int) -> Stretch:
    x, width = WIDTH * (one["at"] - since) / whole, WIDTH * one["seconds"] / whole
    top = HEIGHT
    bars = []
    for slug in SHARES:
        height = HEIGHT * one["shares"].get(slug, 0.0)
        if height > 0:
            top -= height
            bars.append(Bar(slug, x, max(top, 0.0), width, height))
    shares = sorted(one["shares"].items(), key=lambda item: -item[1])
    return Stretch(
        datetime.fromtimestamp(one["at"], UTC),
        one["seconds"],
        x,
        width,
        one["bottleneck"],
        words.word(words.BOTTLENECK, one["bottleneck"]),
        words.word(words.CONFIDENCE, one["confidence"]) if one["confidence"] else "",
        tuple((slug, share) for slug, share in shares if share >= 0.05),
        tuple(bars),
        one["busy"],
        _shared(one),
    )


def _shared(one: Mapping[str, Any]) -> float | None:
    """Of reports of before it was kept nothing is known."""
    shared_s, own_s = one.get("shared_s", 0), max(one.get("own_s", 0), 0)
    return shared_s / (shared_s + own_s) if shared_s else None


def _busy(stretches: Sequence[Stretch]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Points of the band and of the line, broken where a bin was not judged."""
    bands: list[str] = []
    medians: list[str] = []
    group: list[Stretch] = []
    for one in (*stretches, None):
        if one is not None and {"p5", "p50", "p95"} <= one.busy.keys():
            group.append(one)
            continue
        if group:
            bands.append(" ".join([*_points(group, "p95"), *reversed(_points(group, "p5"))]))
            medians.append(" ".join(_points(group, "p50")))
        group = []
    return tuple(bands), tuple(medians)


def _points(group: Sequence[Stretch], name: str) -> list[str]:
    """Steps: a bin's value holds from its beginning to its end."""
    return [
        f"{x:.2f},{HEIGHT * (1 - min(max(one.busy[name], 0.0), 1.0)):.2f}" for one in group for x in (one.x, one.x + one.width)
    ]
