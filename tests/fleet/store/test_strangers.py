"""Links in the store's folders: nothing stops over them, each is said once, and what they lead to is left alone."""

import logging
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from fleet.store.compact import compact
from fleet.store.damage import damaged_files
from fleet.store.layout import DAMAGED, RESOLUTIONS, day_of, parse
from fleet.store.parquet import ParquetSeries

HOUR, DAY = 3600, 86_400
T = 20_000 * DAY + 12 * HOUR
EVERYTHING = {of.step_s: T + 90 * DAY for of in RESOLUTIONS}


class Site:
    """A store with a row a minute for two hours of one day, under a clock that the test moves."""

    def __init__(self, path: Path) -> None:
        self.now = float(T)
        self.root = path / "store"
        self.outside = path / "outside"
        self.outside.mkdir()
        self.store = ParquetSeries(self.root, clock=lambda: self.now, grace_s=0)
        self.write(T, T + 2 * HOUR)
        self.day = self.root / "raw" / "gpu" / day_of(T)

    def write(self, start: int, end: int) -> None:
        """A row a minute of GPU 1."""
        times = list(range(start, end, 60))
        self.now = max(self.now, end)
        self.store.write("gpu", pl.DataFrame({"entity": [1] * len(times), "ts": times, "power_w": [300.0] * len(times)}))

    def settle(self) -> int:
        """Merge what is due two hours later; how many merges there were."""
        self.now += 2 * HOUR
        return sum(compact(self.store, self.now).merges for _ in range(2))

    def rows(self, start: int = T - DAY) -> int:
        """How many rows are read from then on."""
        return len(self.store.window("gpu", start, T + 3 * DAY))

    def buckets(self) -> int:
        """How many hours a series tells of, from roll-ups where they are there."""
        return self.store.series("gpu", 1, ["power_w"], T - DAY, T + 3 * DAY, HOUR).height


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A new one."""
    return Site(tmp_path)


def stranger(site: Site, kind: str) -> Path:
    """A link of a kind in the day's folder."""
    ours = parse(next(site.day.glob("*.parquet")).name)
    assert ours
    named = replace(ours, q0=ours.q1 + 1, q1=ours.q1 + 1).name
    name = {"loop": "x", "loop with a name of ours": named, "damaged loop": named + DAMAGED}.get(kind, named)
    link = site.day / name
    if "loop" in kind:
        link.symlink_to(name)
    elif kind == "file outside":
        (site.outside / "kept").write_bytes(b"not ours")
        link.symlink_to(site.outside / "kept")
    else:
        link.symlink_to(site.outside / "none")
    return link


@pytest.mark.parametrize("kind", ["loop", "loop with a name of ours", "damaged loop", "file outside", "nowhere"])
def test_a_link_in_a_day_stops_nothing_and_is_said_once(site: Site, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Reads, merges, the limit of bytes and retention go on; it stays, with what it leads to."""
    link = stranger(site, kind)
    with caplog.at_level(logging.WARNING):
        reads = [site.rows() for _ in range(3)]

    assert reads == [120] * 3
    assert [link.name in record.getMessage() for record in caplog.records] == [True]
    assert site.settle() > 0
    assert site.rows() == 120
    assert site.store.prune({}, 1 << 40) == 0
    assert site.store.prune(EVERYTHING) > 0
    assert site.rows() == 0
    assert [path.name for path in site.day.iterdir()] == [link.name]
    assert link.is_symlink()
    assert kind != "file outside" or (site.outside / "kept").read_bytes() == b"not ours"


@pytest.mark.parametrize("folder", [of.name for of in RESOLUTIONS])
def test_a_day_that_is_a_link_is_read_and_nothing_is_removed_in_it(
    site: Site, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An old day that somebody moved to another disk: it answers, and retention takes the other days alone."""
    site.settle()
    site.write(T + DAY, T + DAY + HOUR)
    of = next(one for one in RESOLUTIONS if one.name == folder)
    day = site.root / folder / "gpu" / day_of(T, of)
    moved = site.outside / day.name
    day.rename(moved)
    day.symlink_to(moved)
    there = sorted(path.name for path in moved.iterdir())
    with caplog.at_level(logging.WARNING):
        reads = [(site.rows(), site.buckets()) for _ in range(3)]
    told = [record.getMessage() for record in caplog.records if "is a link" in record.getMessage()]
    site.settle()
    site.store.prune({}, 1)
    site.store.prune(EVERYTHING)

    assert reads == [(180, 3)] * 3
    assert len(told) <= 1
    assert told or folder in ("10s", "1m")  # which nobody asked for
    assert day.is_symlink()
    assert set(there) <= {path.name for path in moved.iterdir()}
    assert site.rows(T + DAY) == 0


def test_a_day_that_is_a_link_to_itself_keeps_no_other(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Days beside it are read, merged and dropped."""
    loop = site.day.with_name(day_of(T - DAY))
    loop.symlink_to(loop.name)
    monkeypatch.setattr("fleet.store.damage.store", lambda: site.store)

    assert site.rows() == 120
    assert damaged_files() == 0
    assert site.settle() > 0
    assert site.buckets() == 2
    assert ParquetSeries(site.root, clock=lambda: site.now)._floor("gpu", RESOLUTIONS[0]) > 0
    assert site.store.prune(EVERYTHING) > 0
    assert site.rows() == 0
    assert loop.is_symlink()
