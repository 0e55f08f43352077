"""What a spool finds when it is opened: all that is whole, and what was damaged counted."""

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import spool_recovery
from agents.segment import BATCH, SETTLED, Segment, pack
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
    """A good checksum proves no meaning; a file with an odd name is no number. The agent starts and the rest is kept."""
    filled(tmp_path, 3).close()
    (path,) = tmp_path.glob("*.spool")
    path.write_bytes(path.read_bytes() + pack(SETTLED, 0, payload))
    (tmp_path / "\u00b2.spool").write_bytes(b"")

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
