"""The spool: nothing lost that was kept, nothing kept that was settled, whatever happens to the file."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.segment import BATCH, EVENT
from agents.spool import Spool, SpoolError
from tests.agents.filled_spool import filled, hello


@pytest.mark.parametrize("on_disk", [True, False])
def test_records_come_back_until_they_are_settled(tmp_path: Path, on_disk: bool) -> None:
    """Ranges are inclusive, batches and events have seqs of their own."""
    spool = filled(tmp_path if on_disk else None, 10)
    spool.append(EVENT, 0, b"an event")
    group = spool.current

    assert spool.settle(group, BATCH, [(0, 3), (5, 5)]) == 5
    assert group.pending(BATCH) == [4, 6, 7, 8, 9]
    assert group.pending(EVENT) == [0]
    assert spool.payload(group, BATCH, 4) == b"batch 4"
    assert spool.payload(group, EVENT, 0) == b"an event"
    assert spool.payload(group, BATCH, 3) is None
    assert spool.settle(group, BATCH, [(0, 1 << 60)]) == 5
    spool.close()


def test_a_later_run_finds_what_was_not_settled_under_its_own_hello(tmp_path: Path) -> None:
    """Settled records stay settled, the old boot's hello is kept, and the files go when all is delivered."""
    first = filled(tmp_path, 5)
    first.append(EVENT, 0, b"an event")
    first.settle(first.current, BATCH, [(0, 2)])
    first.close()

    second = Spool(tmp_path)
    second.begin(hello("b1"))
    (old,) = second.earlier()
    assert old.hello == hello("b0")
    assert old.pending(BATCH) == [3, 4]
    assert old.pending(EVENT) == [0]
    second.settle(old, BATCH, [(0, 4)])
    second.settle(old, EVENT, [(0, 0)])
    assert second.earlier() == []
    second.close()
    assert list(tmp_path.glob("*.spool")) == []


def test_what_was_settled_stays_settled_over_two_restarts(tmp_path: Path) -> None:
    """The note that a record is settled may lie in a later segment: that one must not go first."""
    spool = filled(tmp_path, 200, max_bytes=1 << 15)
    spool.settle(spool.current, BATCH, [(0, 98), (100, 199)])
    spool.close()
    for _ in range(2):
        again = Spool(tmp_path, 1 << 15)
        (old,) = again.earlier()
        assert old.pending(BATCH) == [99]
        again.close()


def test_a_full_spool_drops_the_oldest_and_counts(tmp_path: Path) -> None:
    """The bound holds on disk, and dropped plus pending is everything."""
    spool = Spool(tmp_path, 1 << 15)
    spool.begin(hello())
    for seq in range(3000):
        spool.append(BATCH, seq, b"x" * 100)
    pending = spool.current.pending(BATCH)

    assert spool.dropped > 0
    assert len(pending) + spool.dropped == 3000
    assert pending == list(range(spool.dropped, 3000))
    assert sum(file.stat().st_size for file in tmp_path.glob("*.spool")) <= (1 << 15) + 4096 + 200
    spool.close()


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_full_spool_gives_up_batches_before_events(tmp_path: Path, on_disk: bool) -> None:
    """An XID is not lost for some minutes of telemetry: events of this boot and an earlier one outlive all old batches."""
    spool = Spool(tmp_path if on_disk else None, 1 << 15)
    for boot in ("b0", "b1"):
        spool.begin(hello(boot))
        for seq in range(2000):
            spool.append(BATCH, seq, b"x" * 100)
            if seq % 200 == 0:
                spool.append(EVENT, seq // 200, f"{boot} event {seq}".encode())
    (old,) = spool.earlier()

    assert old.pending(BATCH) == []
    assert (spool.dropped_events, spool.dropped) == (0, 4000 - len(spool.current.pending(BATCH)))
    for group, boot in ((old, "b0"), (spool.current, "b1")):
        assert [spool.payload(group, EVENT, seq) for seq in group.pending(EVENT)] == [
            f"{boot} event {seq * 200}".encode() for seq in range(10)
        ]
    if on_disk:
        assert sum(file.stat().st_size for file in tmp_path.glob("*.spool")) <= (1 << 15) + 4096 + 200
        kept = spool.current.pending(BATCH)
        spool.close()
        again = Spool(tmp_path)
        assert {group.hello.boot: group.pending(EVENT) for group in again.earlier()} == {
            "b0": list(range(10)),
            "b1": list(range(10)),
        }
        assert [group.pending(BATCH) for group in again.earlier() if group.hello.boot == "b1"] == [kept]
        assert again.damaged == 0
        again.close()
    else:
        spool.close()


def test_events_alone_are_bounded_and_counted_too(tmp_path: Path) -> None:
    """A storm that fills the spool by itself drops the oldest of it, after the last batch."""
    spool = Spool(tmp_path, 1 << 15)
    spool.begin(hello())
    spool.append(BATCH, 0, b"x" * 100)
    for seq in range(1000):
        spool.append(EVENT, seq, b"x" * 100)

    assert spool.current.pending(BATCH) == []
    assert spool.current.pending(EVENT) == list(range(spool.dropped_events, 1000))
    assert 0 < spool.dropped_events == spool.dropped - 1
    spool.close()


def test_events_of_a_full_spool_wait_in_memory_while_the_disk_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes only half of them costs none; the bound of the file holds all the same."""
    spool = Spool(tmp_path, 1 << 16)
    spool.begin(hello())
    for seq in range(500):
        spool.append(BATCH, seq, b"x" * 100)
        spool.append(EVENT, seq, b"y" * 4) if seq < 20 else None
    real, left = os.pwrite, [15]

    def stingy(fd: int, data: bytes, offset: int) -> int:
        left[0] -= b"yyyy" in data
        return real(fd, data, offset) if left[0] > 0 else 0

    monkeypatch.setattr(os, "pwrite", stingy)
    for seq in range(500, 680):
        spool.append(BATCH, seq, b"x" * 100)
    monkeypatch.undo()

    assert spool.write_errors > 0
    assert spool.dropped > 0
    assert spool.dropped_events == 0
    assert [spool.payload(spool.current, EVENT, seq) for seq in range(20)] == [b"y" * 4] * 20
    spool.close()


def test_memory_is_bounded_too(tmp_path: Path) -> None:
    """Without a disk the oldest go as well, and are counted."""
    spool = Spool(None, 1 << 14)
    spool.begin(hello())
    for seq in range(1000):
        spool.append(BATCH, seq, b"x" * 100)

    assert spool.current.pending(BATCH) == list(range(spool.dropped, 1000))
    assert spool.dropped == 1000 - (1 << 14) // 100


def test_a_disk_that_refuses_costs_nothing_that_memory_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records wait in memory, the refusals are counted, and the file is whole afterwards."""
    spool = filled(tmp_path, 3)
    real = os.pwrite

    def half(fd: int, data: bytes, offset: int) -> int:
        return real(fd, data[: len(data) // 2], offset)

    monkeypatch.setattr(os, "pwrite", half)
    for seq in (3, 4):
        spool.append(BATCH, seq, f"batch {seq}".encode())
    monkeypatch.undo()
    spool.append(BATCH, 5, b"batch 5")

    assert spool.write_errors == 2
    assert [spool.payload(spool.current, BATCH, seq) for seq in range(6)] == [f"batch {seq}".encode() for seq in range(6)]
    spool.close()
    again = Spool(tmp_path)
    assert again.damaged == 0
    assert again.earlier()[0].pending(BATCH) == [0, 1, 2, 3, 4, 5]  # what waited was written when there was room
    again.close()


def test_a_kernel_that_refuses_to_write_is_survived_and_counted(tmp_path: Path) -> None:
    """A real refusal (a file size limit): nothing is lost, and the file takes records again when it may."""
    program = (
        "import resource, sys; from pathlib import Path; from agents.segment import *; from agents.spool import *; from wire.messages import Hello\n"
        "s = Spool(Path(sys.argv[1])); s.begin(Hello(node='n', boot='b', agent_version='1', schema='s'))\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))\n"
        "for seq in range(20): s.append(BATCH, seq, b'x' * 300)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))\n"
        "refused = s.write_errors\n"
        "for seq in range(20, 25): s.append(BATCH, seq, b'x' * 300)\n"
        "assert s.write_errors == refused\n"
        "assert all(s.payload(s.current, BATCH, seq) == b'x' * 300 for seq in range(25))\n"
        "s.close(); print(refused)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    refused = int(done.stdout)
    assert refused > 5
    again = Spool(tmp_path)
    assert again.earlier()[0].pending(BATCH) == list(range(25))
    assert again.damaged == 0
    again.close()


def test_two_agents_cannot_share_a_spool(tmp_path: Path) -> None:
    """The second one is told, before it harms the first one's."""
    spool = Spool(tmp_path)
    with pytest.raises(SpoolError, match="another agent"):
        Spool(tmp_path)
    spool.close()
    Spool(tmp_path).close()


def test_a_killed_process_leaves_all_that_it_kept(tmp_path: Path) -> None:
    """SIGKILL at any instant: every record whose append returned is there."""
    program = (
        "import sys; from pathlib import Path; from agents.segment import *; from agents.spool import *; from wire.messages import Hello\n"
        "s = Spool(Path(sys.argv[1])); s.begin(Hello(node='n', boot='b', agent_version='1', schema='s'))\n"
        "for seq in range(10**9):\n"
        "    s.append(BATCH, seq, b'x' * 300); print(seq, flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    for _ in range(500):
        line = child.stdout.readline()
    child.kill()
    rest = child.stdout.read().split()
    child.wait()
    child.stdout.close()
    last = int(rest[-1]) if rest else int(line)

    spool = Spool(tmp_path)
    pending = spool.earlier()[0].pending(BATCH)
    assert pending[: last + 1] == list(range(last + 1))
    assert len(pending) <= last + 2
    spool.close()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["append", "settle", "restart", "rehello"]), st.integers(0, 30), st.integers(0, 10)),
        max_size=40,
    )
)
def test_the_spool_is_a_set_of_records(steps: list[tuple[str, int, int]]) -> None:
    """Whatever the order of appends, acks, restarts and new hellos: pending is appended less settled."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        boot, seq = 0, 0
        expected: dict[str, dict[int, bytes]] = {"b0": {}}
        spool = Spool(directory)
        spool.begin(hello("b0"))
        for action, low, width in steps:
            if action == "append":
                payload = bytes([boot % 256, seq % 256]) * width
                spool.append(BATCH, seq, payload)
                expected[f"b{boot}"][seq] = payload
                seq += 1
            elif action == "settle":
                for group in [spool.current, *spool.earlier()]:
                    spool.settle(group, BATCH, [(low, low + width)])
                    for settled in range(low, low + width + 1):
                        expected[group.hello.boot].pop(settled, None)
            else:
                boot, seq = boot + 1, 0
                expected[f"b{boot}"] = {}
                if action == "restart":
                    spool.close()
                    spool = Spool(directory)
                spool.begin(hello(f"b{boot}"))
        found = {
            group.hello.boot: {seq: spool.payload(group, BATCH, seq) for seq in group.pending(BATCH)}
            for group in [spool.current, *spool.earlier()]
        }
        spool.close()
    assert {b: records for b, records in found.items() if records} == {b: records for b, records in expected.items() if records}
