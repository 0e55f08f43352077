"""What a spool finds when it is opened: all that is whole, and what was damaged counted."""

import contextlib
import errno
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import segment, spool_recovery
from agents.segment import BATCH, HEADER_BYTES, SETTLED, Segment, pack
from agents.spool import Spool
from agents.spool_recovery import Recovered
from tests.agents.filled_spool import filled, hello


@settings(max_examples=60, deadline=None)
@given(
    payloads=st.lists(st.binary(max_size=200), min_size=1, max_size=20),
    cut=st.integers(0, 400),
    flip=st.none() | st.tuples(st.floats(0, 0.999), st.integers(1, 255)),
)
def test_damage_loses_only_what_it_touches(payloads: list[bytes], cut: int, flip: tuple[float, int] | None) -> None:
    """A torn tail and a flipped byte: every record that comes back is one that was put in, and untouched ones do come back."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        spool = Spool(directory)
        spool.begin(hello())
        ends = []
        for seq, payload in enumerate(payloads):
            spool.append(BATCH, seq, payload)
            ends.append(next(directory.glob("*.spool")).stat().st_size)
        spool.close()
        (file,) = directory.glob("*.spool")
        content = bytearray(file.read_bytes())
        first_record = ends[0] - len(payloads[0]) - 20  # the hello lies before it
        touched = len(content)
        if flip is not None:
            touched = first_record + int(flip[0] * (len(content) - first_record))
            content[min(touched, len(content) - 1)] ^= flip[1]
        keep = max(first_record, len(content) - cut)
        file.write_bytes(bytes(content[:keep]))

        again = Spool(directory)
        groups = again.earlier()
        found = {seq: again.payload(groups[0], BATCH, seq) for seq in groups[0].pending(BATCH)} if groups else {}
        again.close()
    assert all(found[seq] == payloads[seq] for seq in found)
    begins = [first_record, *ends]
    whole = {seq for seq, end in enumerate(ends) if end <= keep and not begins[seq] <= touched < end}
    assert whole <= found.keys()


@pytest.mark.parametrize("payload", [b"", b"\xc1", msgspec.msgpack.encode("x"), msgspec.msgpack.encode(("b0", 9, 0, 1))])
def test_a_whole_record_of_an_unknown_shape_is_counted_and_passed_over(tmp_path: Path, payload: bytes) -> None:
    """A good checksum proves no meaning. The agent starts and the rest is kept."""
    filled(tmp_path, 3).close()
    (path,) = tmp_path.glob("*.spool")
    path.write_bytes(path.read_bytes() + pack(SETTLED, 0, payload))

    spool = Spool(tmp_path)
    (old,) = spool.earlier()
    assert old.pending(BATCH) == [0, 1, 2]
    assert spool.damaged == 1
    spool.close()


def test_a_defect_in_reading_one_file_costs_that_file_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent starts, says where it stumbled and why, keeps what it has read, and takes new records."""
    filled(tmp_path, 4).close()
    second = Spool(tmp_path)
    second.begin(hello("b1"))
    second.append(BATCH, 0, b"of the second file")
    second.close()

    read = spool_recovery._recover_segment

    def flawed(found: Recovered, segment: Segment, content: bytes) -> None:
        if segment.path.stem.endswith("1"):
            read(found, segment, content[:-1])
            raise ZeroDivisionError("a defect at the first file's last record")
        read(found, segment, content)

    monkeypatch.setattr(spool_recovery, "_recover_segment", flawed)
    spool = Spool(tmp_path)
    spool.begin(hello("b2"))
    spool.append(BATCH, 0, b"new")
    kept = {group.hello.boot: [spool.payload(group, BATCH, seq) for seq in group.pending(BATCH)] for group in spool.earlier()}
    assert kept["b1"] == [b"of the second file"]
    assert kept["b0"] == [b"batch 0", b"batch 1", b"batch 2"]
    assert spool.payload(spool.current, BATCH, 0) == b"new"
    assert spool.damaged >= 1
    (stumbled,) = [record for record in caplog.records if record.exc_info]
    assert "000000000001.spool" in stumbled.getMessage()
    spool.close()


@pytest.mark.parametrize("name", ["000000000009", "\u00b2", "x y", "9" * 249, "9" * 16])
@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "link", "looping link", "link to nowhere", "file"])
def test_what_is_no_file_of_ours_is_left_alone_and_told_of_once(
    tmp_path: Path, name: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever lies there, opening ends, what was kept is there, and new records have files whose names are not too long."""
    filled(tmp_path, 3).close()
    stranger = tmp_path / f"{name}.spool"
    if kind == "pipe":
        os.mkfifo(stranger)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(tmp_path):
            try:
                listening.bind(stranger.name)
            except OSError:
                pytest.skip("no socket has so long a name")
    elif kind == "folder":
        stranger.mkdir()
    elif kind.startswith("link") or kind == "looping link":
        stranger.symlink_to({"link": tmp_path / "000000000001.spool", "looping link": stranger}.get(kind, tmp_path / "nowhere"))
    elif name == "000000000009":
        pytest.skip("that is a file of ours")
    else:
        stranger.write_bytes(b"")
    before = os.lstat(stranger)

    spool = Spool(tmp_path)
    spool.begin(hello("b1"))
    spool.append(BATCH, 0, b"new")
    assert spool.write_errors == 0
    assert [group.pending(BATCH) for group in spool.earlier()] == [[0, 1, 2]]
    spool.close()
    Spool(tmp_path).close()
    assert os.lstat(stranger)[:2] == before[:2]
    assert len([one for one in caplog.messages if "left alone" in one]) == 2  # once for each opening
    assert sorted(path.name for path in tmp_path.glob("00000000000[12].spool")) == ["000000000001.spool", "000000000002.spool"]


class Counted(int):
    """A number that counts how often it is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) < int(other)

    def __le__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) <= int(other)

    def __gt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) > int(other)

    def __ge__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) >= int(other)


def compared(work: Callable[[], object]) -> int:
    """How many comparisons of numbers it takes."""
    Counted.compared = 0
    work()
    return Counted.compared


def test_opening_takes_twice_as_long_for_twice_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One old record keeps all the notes of those that were settled after it; a unit's start has an end."""
    real = segment.records
    monkeypatch.setattr(
        spool_recovery, "records", lambda content: ((at, kind, Counted(seq), it) for at, kind, seq, it in real(content))
    )

    def opened(count: int) -> int:
        directory = tmp_path / str(count)
        spool = filled(directory, 1)
        for seq in range(1, count):
            spool.append(BATCH, seq, b"x")
            spool.settle(spool.current, BATCH, [(seq, seq)])
        spool.close()
        found: list[Spool] = []
        steps = compared(lambda: found.append(Spool(directory)))
        assert found[0].earlier()[0].pending(BATCH) == [0]
        found[0].close()
        return steps

    small, large = opened(300), opened(1200)
    assert large < 6 * max(small, 300)


@pytest.mark.parametrize("width", [1, 500_001])
@pytest.mark.parametrize("begin", [0, 10**9])
def test_an_ack_takes_no_more_than_its_ranges_and_the_records_together(width: int, begin: int) -> None:
    """Thousands of ranges over thousands of records, near or far, hold the agent's loop up for no second."""

    def settled(count: int) -> int:
        spool = Spool(None, 1 << 24)
        spool.begin(hello())
        for seq in range(count):
            spool.append(BATCH, Counted(seq), b"x")
        ranges = [(begin + place * 2 * width, begin + place * 2 * width + width - 1) for place in range(count)]
        found: list[int] = []
        steps = compared(lambda: found.append(spool.settle(spool.current, BATCH, ranges)))
        expected = 0 if begin else count // 2 if width == 1 else count
        assert (found[0], spool.waiting) == (expected, count - expected)
        return steps

    small, large = settled(300), settled(1200)
    assert large < 6 * max(small, 300)


@pytest.mark.parametrize("count", [3, 100])
def test_a_file_that_the_disk_does_not_give_back_at_all_is_left_where_it_is(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small or large: the next start may have it, as after a cable was put right; the others are delivered."""
    for boot in ("b0", "b1"):
        spool = Spool(tmp_path)
        spool.begin(hello(boot))
        for seq in range(count):
            spool.append(BATCH, seq, bytes([seq]) * 1000)
        spool.close()
    file, real = min(tmp_path.glob("*.spool")), os.pread
    inode = file.stat().st_ino

    def refused(fd: int, length: int, offset: int) -> bytes:
        if os.fstat(fd).st_ino == inode:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(fd, length, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", refused)
        before = len(os.listdir("/proc/self/fd"))
        spool = Spool(tmp_path)
        assert len(os.listdir("/proc/self/fd")) == before + 2  # the lock and the other file
        assert {group.hello.boot: group.pending(BATCH) for group in spool.earlier()} == {"b1": list(range(count))}
        spool.close()
    assert file.exists()
    spool = Spool(tmp_path)
    assert {group.hello.boot: group.pending(BATCH) for group in spool.earlier()} == {
        "b0": list(range(count)),
        "b1": list(range(count)),
    }
    spool.close()


@pytest.mark.parametrize("bad", [(0, 1), (9, 12)])
def test_blocks_that_the_disk_does_not_give_back_cost_what_is_in_them(
    tmp_path: Path, bad: tuple[int, int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All other records of the file are there, and those of other files; without its hello a record is nobody's."""
    spool = Spool(tmp_path)
    for boot in ("b0", "b1"):
        spool.begin(hello(boot))
        for seq in range(100):
            spool.append(BATCH, seq, bytes([seq]) * 1000)
    spool.close()
    file = min(tmp_path.glob("*.spool"))
    content, inode = file.read_bytes(), file.stat().st_ino
    real = os.pread

    def stingy(fd: int, length: int, offset: int) -> bytes:
        if os.fstat(fd).st_ino == inode and offset < bad[1] * 4096 and offset + length > bad[0] * 4096:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(fd, length, offset)

    monkeypatch.setattr(os, "pread", stingy)
    again = Spool(tmp_path)
    expected = [
        seq
        for seq in range(100)
        if (at := content.find(bytes([seq]) * 1000)) + 1000 <= bad[0] * 4096 or at - HEADER_BYTES >= bad[1] * 4096
    ]
    found = {group.hello.boot: group.pending(BATCH) for group in again.earlier()}
    if bad[0]:
        assert found["b0"] == expected
    assert found["b1"] == list(range(100))
    assert again.damaged >= 1
    again.close()
