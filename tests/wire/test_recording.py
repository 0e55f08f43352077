"""Recordings are read whole or refused in one sentence that names the line."""

import gzip
import json
from pathlib import Path

import pytest

from wire.recording import Header, RecordedGpu, Recording, RecordingError, Sample, Writer, read, readings

RECORDINGS = sorted((Path(__file__).resolve().parent.parent.parent / "recordings").glob("*.jsonl.gz"))
LEAK = next(path for path in RECORDINGS if path.name == "leak.jsonl.gz")
HEADER = json.dumps({"recording": 1, "gpus": [{"index": 0, "name": "NVIDIA H200", "a_new_field": 1}]})
SAMPLE = json.dumps({"t": 0.25, "gpus": [{"index": 0, "power_w": 77.5, "another": []}]})


def plain(path: Path, *lines: str) -> Path:
    """An unzipped recording of these lines."""
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_it_reads_each_recording_in_the_repository(path: Path) -> None:
    """Every one has GPUs, samples in time order and power readings."""
    recording = read(path)

    assert recording.header.gpus
    assert all(readings("gpu", gpu)[0]["power_w"] > 0 for sample in recording.samples for gpu in sample.gpus)


def test_there_are_eighteen_of_them() -> None:
    """None was lost on the way."""
    assert len(RECORDINGS) == 18


def test_it_ignores_fields_it_does_not_know_and_reads_unzipped_files(tmp_path: Path) -> None:
    """Newer writers may add fields."""
    recording = read(plain(tmp_path / "a.jsonl", HEADER, SAMPLE, ""))

    assert recording.samples[0].gpus[0]["power_w"] == 77.5


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((), "line 1: the file is empty"),
        ((HEADER,), "line 2: the file ends after its header"),
        (("not json", SAMPLE), "line 1: not a recording's header"),
        (('{"recording": 1, "gpus": 3}', SAMPLE), "line 1: not a recording's header"),
        (('{"recording": 2}', SAMPLE), "line 1: format version 2"),
        (('{"recording": 1, "gpus": [{"index": 9223372036854775808}]}', SAMPLE), "line 1: "),
        (('{"recording": 1, "gpus": [{"index": -1}]}', SAMPLE), "line 1: a GPU's index is outside 0 to 4095"),
        (("[]", SAMPLE), "line 1: not a recording's header"),
        ((HEADER, SAMPLE, "{broken", ""), "line 3: not a recording's sample"),
        ((HEADER, SAMPLE, '{"gpus": []}'), "line 3: not a recording's sample"),
        ((HEADER, SAMPLE, '{"t": 0.1}'), "line 3: time goes back from 0.25 s to 0.1 s"),
        ((HEADER, "[" * 200_000), "line 2: not a recording's sample"),
        ((HEADER, '{"t": null}'), "line 2: not a recording's sample"),
        ((HEADER, '{"t": -1}'), "line 2: the time -1 s is outside 0 to 1e+11 s"),
        ((HEADER, '{"t": 1e300}'), "line 2: the time 1e+300 s is outside 0 to 1e+11 s"),
        ((HEADER, '{"t": 1' + "0" * 400 + "}"), "line 2: not a recording's sample"),
        ((HEADER, '{"t": 0}', '{"t": 4e7}'), "line 3: the recording is longer than 366 days"),
        ((HEADER, '{"t": 0, "gpus": [null]}'), "line 2: not a recording's sample"),
        (('{"recording": null}', SAMPLE), "line 1: not a recording's header"),
    ],
)
def test_it_names_the_line_that_is_wrong(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    """One sentence, with the file and the line."""
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(lines))

    with pytest.raises(RecordingError) as caught:
        read(path)

    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_it_takes_null_as_absent_wherever_something_may_be_absent(tmp_path: Path) -> None:
    """Lists, objects and single values alike; the sample's other readings stand."""
    header = '{"recording": 1, "gpus": [{"index": 0, "name": null, "uuid": null}], "host": null, "sampling_hz": null}'
    recording = read(
        plain(
            tmp_path / "a.jsonl", header, '{"t": 0, "gpus": null, "processes": null, "host": null}', '{"recording": null, "t": 1}'
        )
    )
    bare = read(plain(tmp_path / "b.jsonl", '{"recording": 1, "gpus": null, "host": {"cores": null}}', SAMPLE))

    assert recording.header.gpus == (RecordedGpu(index=0),)
    assert recording.samples == (Sample(t=0.0), Sample(t=1.0))
    assert (bare.header.gpus, bare.header.host.cores) == ((), None)


def test_it_reads_a_file_that_an_editor_put_a_mark_before(tmp_path: Path) -> None:
    """The UTF-8 byte order mark is no part of the first line."""
    path = tmp_path / "a.jsonl"
    path.write_text(f"{HEADER}\n{SAMPLE}\n", encoding="utf-8-sig")

    assert read(path).samples[0].t == 0.25


def test_it_knows_where_each_sample_stood(tmp_path: Path) -> None:
    """Empty lines count; a recording without a file goes by its name."""
    recording = read(plain(tmp_path / "a.b.jsonl", HEADER, "", SAMPLE))

    assert recording.place(0) == f"{tmp_path / 'a.b.jsonl'}: line 3"
    assert Recording(name="made", header=recording.header, samples=recording.samples).place(0) == "made: line 2"


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.99])
def test_a_gzip_file_that_breaks_off_gives_what_it_has(tmp_path: Path, keep: float) -> None:
    """Any length short of the whole is told apart from a good file; the samples before the cut are those of the whole."""
    whole = RECORDINGS[0].read_bytes()
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(whole[: int(len(whole) * keep)])

    known, cut = read(RECORDINGS[0]), read(path)
    assert known.cut_line is None
    assert cut.cut_line is not None
    assert 0 < len(cut.samples) < len(known.samples)
    assert cut.samples == known.samples[: len(cut.samples)]
    assert cut.cut_line > len(cut.samples)


@pytest.mark.parametrize("end", ['{"t": 0.5, "gpus": [{"ind', '{"t"', "{", '{"t": 0.5, "gpus": ["\u4e2d'.encode()[:-1]])
def test_a_last_line_that_is_cut_off_is_left_out(tmp_path: Path, end: str | bytes) -> None:
    """Of a recorder that was killed; the same line with more behind it is an error, and so is one that is whole and no sample."""
    path = tmp_path / "x.jsonl"
    last = end.encode() if isinstance(end, str) else end
    path.write_bytes(f"{HEADER}\n{SAMPLE}\n".encode() + last)
    recording = read(path)

    assert (len(recording.samples), recording.cut_line) == (1, 3)
    path.write_bytes(f"{HEADER}\n{SAMPLE}\n".encode() + last + b"\n")
    with pytest.raises(RecordingError, match="line 3: not a recording's sample"):
        read(path)


def test_a_file_that_breaks_off_before_its_first_sample_is_refused(tmp_path: Path) -> None:
    """There is nothing to judge."""
    path = tmp_path / "x.jsonl"
    path.write_text(f'{HEADER}\n{{"t": 0.')
    with pytest.raises(RecordingError, match="line 2: not a recording's sample"):
        read(path)
    packed = tmp_path / "y.jsonl.gz"
    writer = Writer(packed, Header(recording=1))
    with pytest.raises(RecordingError, match="line 2: the file is cut short before its first sample"):
        read(packed)
    writer.close()


def test_it_says_that_a_gzip_file_is_damaged(tmp_path: Path) -> None:
    """A flipped byte in the middle is no sample."""
    damaged = bytearray(RECORDINGS[0].read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    path = tmp_path / "bad.jsonl.gz"
    path.write_bytes(damaged)

    with pytest.raises(RecordingError, match=r"line \d+"):
        read(path)


def test_it_says_what_else_is_wrong_with_a_path(tmp_path: Path) -> None:
    """A missing file, a folder and random bytes each get a sentence."""
    (tmp_path / "junk").write_bytes(bytes(range(256)) * 10)
    with pytest.raises(RecordingError, match="no such file"):
        read(tmp_path / "none")
    with pytest.raises(RecordingError, match="cannot be read"):
        read(tmp_path)
    with pytest.raises(RecordingError, match="line 1: not a recording's header"):
        read(tmp_path / "junk")


def test_what_the_writer_wrote_is_read_back(tmp_path: Path) -> None:
    """Header and samples survive; the file is gzip."""
    path = tmp_path / "new.jsonl.gz"
    header = Header(recording=1, sampling_hz=4, gpus=(RecordedGpu(index=0, name="NVIDIA H200", mem_total_bytes=150754820096),))
    samples = (Sample(t=0.0, gpus=({"index": 0, "power_w": 70.0},)), Sample(t=0.25, host={"cpu_user_pct": 1.5}))
    writer = Writer(path, header)
    for sample in samples:
        writer.sample(sample)
    writer.close()

    back = read(path)
    assert (back.header, back.samples) == (header, samples)
    assert gzip.decompress(path.read_bytes()).startswith(b'{"recording":1')


def test_a_writer_that_was_killed_leaves_its_samples_readable_line_by_line(tmp_path: Path) -> None:
    """Without close() the file has what was written, and says that it breaks off behind that."""
    path = tmp_path / "killed.jsonl.gz"
    writer = Writer(path, Header(recording=1))
    writer.sample(Sample(t=0.0))
    path.with_suffix(".copy").write_bytes(path.read_bytes())
    writer.close()

    killed = read(path.with_suffix(".copy"))
    assert (killed.samples, killed.cut_line) == ((Sample(t=0.0),), 3)


def test_readings_tells_values_from_reasons() -> None:
    """What is missing is not recorded, text is not a number, impossible values are out of range; zero is a value."""
    values, reasons = readings("gpu", {"power_w": 0, "sm_active": "N/A", "gpu_util_pct": 4000, "unknown": 1})

    assert values == {"power_w": 0}
    assert reasons["sm_active"] == "not_a_number"
    assert reasons["gpu_util_pct"] == "out_of_range"
    assert reasons["temperature_c"] == "not_recorded"


def test_a_line_that_unpacks_without_end_is_stopped(tmp_path: Path) -> None:
    """A small file may hold gigabytes: a line is read up to a bound, and named."""
    path = tmp_path / "bomb.jsonl.gz"
    header = LEAK.open("rb")
    with header, gzip.open(header) as lines, gzip.open(path, "wb") as bomb:
        bomb.write(next(lines))
        for _ in range(20):
            bomb.write(b" " * 1_000_000)

    with pytest.raises(RecordingError, match=r"bomb\.jsonl\.gz: line 2: the line is longer than 16,000,000 bytes"):
        read(path)


def test_a_file_that_unpacks_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many short lines are no better."""
    monkeypatch.setattr("wire.recording.MAX_BYTES", 10_000)

    with pytest.raises(RecordingError, match=r"the file is longer than 10,000 bytes"):
        read(LEAK)
