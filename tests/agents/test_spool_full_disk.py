"""A disk without space, or read-only after errors: the agent starts all the same, and what waited is written as soon as it can be."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agents import lock
from agents.segment import BATCH, EVENT
from agents.spool import Spool, SpoolError, SpoolHeldError
from tests.agents.filled_spool import filled, hello


@contextmanager
def full(*, may_open: bool = False, code: int = errno.ENOSPC) -> Iterator[None]:
    """No file or folder can be made, unless `may_open`, and none can grow."""

    def refuse(*words: object, **more: object) -> int:
        raise OSError(code, os.strerror(code))

    real = os.open

    def opened(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        return refuse() if flags & os.O_CREAT and not os.path.exists(path) else real(path, flags, mode, dir_fd=dir_fd)

    def made(path: str, mode: int = 0o777) -> None:
        raise FileExistsError(path) if os.path.exists(path) else OSError(code, os.strerror(code))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        patch.setattr(os, "write", refuse)
        patch.setattr(os, "mkdir", made)
        if not may_open:
            patch.setattr(os, "open", opened)
        yield


def again(directory: Path) -> Spool:
    """What a later run finds, as after a kill: the first one's lock ends with its process."""
    (directory / "lock").unlink()
    return Spool(directory)


def test_a_full_disk_costs_a_lock_its_pid_alone(tmp_path: Path) -> None:
    """The lock holds by the open file."""
    with full(may_open=True):
        descriptor = lock.hold(tmp_path / "lock", "uses it.")

    with pytest.raises(lock.HeldError, match=r"^another agent uses it\.$"):
        lock.hold(tmp_path / "lock", "uses it.")
    assert (tmp_path / "lock").read_text() == ""
    os.close(descriptor)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_spool_on_a_full_disk_is_in_memory_until_there_is_room(tmp_path: Path, is_there: bool, code: int) -> None:
    """Whether its folder is there or not; what waited is then on the disk, its events too, and the folder is locked."""
    directory = tmp_path / "spool"
    if is_there:
        directory.mkdir()
    with full(code=code):
        spool = filled(directory, 3)
        spool.append(EVENT, 0, b"an event")
        assert spool.waiting == 4
    assert not list(tmp_path.rglob("*.spool"))
    spool.append(BATCH, 3, b"batch 3")

    with pytest.raises(SpoolHeldError):
        Spool(directory)
    later = again(directory)
    (group,) = later.earlier()
    assert [later.payload(group, BATCH, seq) for seq in group.pending(BATCH)] == [b"batch 0", b"batch 1", b"batch 2", b"batch 3"]
    assert later.payload(group, EVENT, 0) == b"an event"
    assert (spool.write_errors, spool.dropped, later.damaged) == (4, 0, 0)
    later.close()
    spool.close()


def test_what_an_earlier_run_left_is_found_when_there_is_room(tmp_path: Path) -> None:
    """Its lock could not be made at the start; its records are not forgotten for that."""
    first = filled(tmp_path, 5)
    first.settle(first.current, BATCH, [(0, 2)])
    first.close()
    (tmp_path / "lock").unlink()
    with full():
        spool = filled(tmp_path, 1, boot="b1")
        assert spool.earlier() == []
    spool.append(BATCH, 1, b"batch 1")

    (old,) = spool.earlier()
    assert (old.hello, old.pending(BATCH)) == (hello("b0"), [3, 4])
    assert [spool.payload(old, BATCH, seq) for seq in (3, 4)] == [b"batch 3", b"batch 4"]
    assert spool.current.pending(BATCH) == [0, 1]
    spool.close()


def test_records_of_an_earlier_hello_are_written_under_it(tmp_path: Path) -> None:
    """They can only be delivered after their own."""
    spool = filled(tmp_path, 1)
    with full():
        spool.append(BATCH, 1, b"batch 1")
        spool.append(EVENT, 0, b"an event")
        spool.begin(hello("b1"))
        spool.append(BATCH, 0, b"other 0")
    spool.append(BATCH, 1, b"other 1")

    later = again(tmp_path)
    found = {group.hello.boot: (group.pending(BATCH), group.pending(EVENT)) for group in later.earlier()}
    assert found == {"b0": ([0, 1], [0]), "b1": ([0, 1], [])}
    later.close()
    spool.close()


def test_what_waits_at_the_end_is_written_then(tmp_path: Path) -> None:
    """An agent that is stopped loses nothing that the disk takes by now."""
    spool = filled(tmp_path, 1)
    with full():
        spool.append(EVENT, 0, b"an event")
    spool.close()

    later = Spool(tmp_path)
    assert later.earlier()[0].pending(EVENT) == [0]
    later.close()


def test_what_was_stored_meanwhile_is_not_written(tmp_path: Path) -> None:
    """It is settled: the server has it."""
    spool = filled(tmp_path, 1)
    with full():
        for seq in (1, 2):
            spool.append(BATCH, seq, b"x")
        spool.settle(spool.current, BATCH, [(1, 1)])
    spool.append(BATCH, 3, b"x")
    spool.close()

    later = Spool(tmp_path)
    assert later.earlier()[0].pending(BATCH) == [0, 2, 3]
    later.close()


def test_a_lot_that_waited_is_written_in_files_of_the_usual_size(tmp_path: Path) -> None:
    """A file is dropped as a whole: one of all that waited would take it all."""
    spool = filled(tmp_path, 1, max_bytes=1 << 16)
    with full():
        for seq in range(1, 100):
            spool.append(BATCH, seq, b"x" * 400)
    spool.append(BATCH, 100, b"x")

    assert spool.current.pending(BATCH) == list(range(101))
    assert max(path.stat().st_size for path in tmp_path.glob("*.spool")) < 10_000
    spool.close()


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM])
def test_a_folder_that_never_can_be_used_is_said_at_the_start(tmp_path: Path, code: int) -> None:
    """A wrong owner does not pass by itself."""
    with full(code=code), pytest.raises(SpoolError, match=r"cannot be used"):
        Spool(tmp_path / "spool")


@pytest.mark.parametrize("below", ["", "n"])
def test_a_file_in_place_of_the_folder_is_said_at_the_start(tmp_path: Path, below: str) -> None:
    """So is one in place of a folder above it."""
    (tmp_path / "spool").touch()
    with pytest.raises(SpoolError, match=r"cannot be used"):
        Spool(tmp_path / "spool" / below)


def test_a_disk_that_turns_read_only_costs_no_record_that_memory_can_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that are done with cannot be deleted then: what comes is kept and what is acked is forgotten all the same."""
    spool = filled(tmp_path, 60, max_bytes=1 << 15)

    def refused(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    with full(code=errno.EROFS), monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        for seq in range(60, 600):
            spool.append(BATCH, seq, b"x" * 40)
        assert spool.settle(spool.current, BATCH, [(0, 580)]) == 581
        spool.begin(hello("b1"))
        spool.append(BATCH, 0, b"other 0")
    spool.append(BATCH, 1, b"other 1")

    (old,) = spool.earlier()
    assert old.pending(BATCH) == list(range(581, 600))
    assert [spool.payload(old, BATCH, seq) for seq in (581, 599)] == [b"x" * 40] * 2
    assert (spool.current.pending(BATCH), spool.dropped) == ([0, 1], 0)
    spool.close()
