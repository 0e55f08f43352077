"""File names and which files count."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fleet.store.layout import DAMAGED, DAY_S, File, day_of, day_start, days, live_files, parse, read_day

T = 20_000 * DAY_S


def file(level: str, q0: int, q1: int, shard: int = 0, shards: int = 1, t0: int = T, t1: int = T + 10) -> File:
    """A file of entities 1 to 9."""
    return File(level, t0, t1, q0, q1, shard, shards, 1, 9)


def day(path: Path, *files: File | str) -> Path:
    """A directory that holds the files, empty ones."""
    for one in files:
        (path / (one if isinstance(one, str) else one.name)).touch()
    return path


def counted(path: Path) -> list[str]:
    """The names that a reader opens."""
    return [one.name for one in live_files([read_day(path)], 0, 1 << 32)]


@given(st.sampled_from("abc"), st.lists(st.integers(0, 1 << 31), min_size=8, max_size=8))
def test_a_name_says_what_the_file_holds(level: str, numbers: list[int]) -> None:
    """Writing a name and parsing it gives the same file."""
    one = File(level, *[number % 100_000 if index in (4, 5) else number for index, number in enumerate(numbers)])

    assert parse(one.name) == one


def test_other_names_are_not_ours() -> None:
    """Temporary files, editors' copies, other programs' files."""
    name = file("a", 1, 1).name

    assert parse(name) is not None
    for other in (f".{name}", f"{name}.tmp", f"{name}~", name.replace("a-", "e-", 1), "README", ""):
        assert parse(other) is None, other


def test_a_merge_takes_the_place_of_what_it_covers(tmp_path: Path) -> None:
    """By write number and hour: a flush that came after the merge counts beside it, whatever its time range."""
    merged, late = file("b", 1, 3), file("a", 4, 4)
    day(tmp_path, file("a", 1, 1), file("a", 2, 2), file("a", 3, 3), merged, late)

    assert counted(tmp_path) == [merged.name, late.name]


def test_another_hour_is_not_covered(tmp_path: Path) -> None:
    """One flush may hold rows of two hours; the merge of one hour says nothing of the other."""
    merged, other = file("b", 1, 3), file("a", 2, 2, t0=T + 3600, t1=T + 3610)
    day(tmp_path, merged, other)

    assert counted(tmp_path) == [merged.name, other.name]


def test_the_settled_hour_covers_five_minute_files_and_its_own_predecessor(tmp_path: Path) -> None:
    """An hour that was settled again after late rows: the wider range wins."""
    wide = file("c", 1, 9)
    day(tmp_path, file("c", 1, 6), file("b", 1, 3), file("b", 4, 6), file("b", 7, 9), wide)

    assert counted(tmp_path) == [wide.name]
    assert len(read_day(tmp_path).hours[T // 3600].superseded) == 4


def test_a_set_without_all_its_shards_does_not_count(tmp_path: Path) -> None:
    """Killed between two shards: its inputs still count, nothing is read twice."""
    flushed = file("a", 1, 1)
    day(tmp_path, flushed, file("b", 1, 1, 0, 2))
    before = counted(tmp_path)
    day(tmp_path, file("b", 1, 1, 1, 2))

    assert before == [flushed.name]
    assert counted(tmp_path) == [file("b", 1, 1, shard, 2).name for shard in (0, 1)]


def test_a_set_with_a_damaged_shard_still_counts(tmp_path: Path) -> None:
    """Its inputs are long deleted; the other shards must stay readable."""
    day(tmp_path, file("c", 1, 9, 0, 2), f"{file('c', 1, 9, 1, 2).name}{DAMAGED}")

    assert counted(tmp_path) == [file("c", 1, 9, 0, 2).name]


def test_strange_names_are_told_apart(tmp_path: Path) -> None:
    """What a kill left behind is not what a stranger put there."""
    ours = f".flush-{file('a', 1, 9, 1, 1).name}.tmp"
    day(tmp_path, ours, "notes.txt", "notes.tmp", ".flush-x.tmp")
    listed = read_day(tmp_path)

    assert listed.tmp == [ours]
    assert set(listed.strange) == {"notes.txt", "notes.tmp", ".flush-x.tmp"}
    assert listed.hours == {}


def test_only_days_of_the_range_are_listed(tmp_path: Path) -> None:
    """The end does not count; names that are no days are passed over."""
    for name in (day_of(T - DAY_S), day_of(T), day_of(T + DAY_S), "2026-1-1", ".trash-2026-01-01-1", "write.lock"):
        (tmp_path / name).mkdir()

    assert [path.name for path in days(tmp_path, T, T + DAY_S)] == [day_of(T)]
    assert [path.name for path in days(tmp_path, T - 1, T + DAY_S + 1)] == [day_of(T - DAY_S), day_of(T), day_of(T + DAY_S)]
    assert days(tmp_path / "none", 0, T) == []
    assert day_start(day_of(T + 5)) == T
