"""Segments in their directory: which one takes the next record, and which one goes."""

from pathlib import Path

import pytest

from agents.segment import BATCH, EVENT, Group, records
from agents.segment_files import SegmentFiles
from tests.agents.filled_spool import hello

GROUP = Group(hello())


def test_a_segment_begins_with_the_hello_and_ends_at_its_size(tmp_path: Path) -> None:
    """Whoever reads one of them alone knows under which hello its records were made."""
    files = SegmentFiles(tmp_path, 100)
    first = files.open_under(b"a hello")
    files.put(first, BATCH, 0, b"x" * 100)
    first.records.add((GROUP, BATCH, 0))
    second = files.open_under(b"a hello")

    assert first is not second
    assert files.open_under(b"another") is second
    assert [[payload[:7] for *_, payload in records(path.read_bytes())] for path in sorted(tmp_path.iterdir())] == [
        [b"a hello", b"x" * 7],
        [b"a hello"],
    ]
    files.close()


def test_the_oldest_goes_when_nothing_is_left_in_it_and_not_one_that_is_open(tmp_path: Path) -> None:
    """A later one waits for it: it notes what was settled there."""
    files = SegmentFiles(tmp_path, 1 << 20)
    made = []
    for seq in range(3):
        made.append(files.open_under(b"a hello"))
        made[-1].records.add((GROUP, BATCH, seq))
        files.give_up_open()
    made[1].records.clear()
    files.trim()
    assert files.count == 3
    made[0].records.clear()
    files.trim()

    assert sorted(tmp_path.iterdir()) == [made[2].path]
    files.close()


def test_of_a_full_disk_the_oldest_segment_with_a_batch_goes_before_one_of_events(tmp_path: Path) -> None:
    """Events go only when no batch is left to go in their place."""
    files = SegmentFiles(tmp_path, 1 << 20)
    for kind in (EVENT, BATCH, BATCH):
        files.open_under(b"a hello").records.add((GROUP, kind, 0))
        files.give_up_open()

    assert files.to_drop().path.stem.endswith("2")
    files.close()


def test_without_a_directory_or_a_hello_there_is_no_segment(tmp_path: Path) -> None:
    """What cannot be kept on disk is refused as a disk refuses."""
    for files, words in ((SegmentFiles(None, 100), b"a hello"), (SegmentFiles(tmp_path, 100), b"")):
        with pytest.raises(OSError, match="no directory, or no hello"):
            files.open_under(words)
