"""`fettle run`: the command's streams, signals and exit code are its own; the diagnosis comes after."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents import command, drivers, recorder
from agents.command import CommandError, Ran, _Watch
from agents.machine import Machine
from agents.nvml_device import NvmlDriver
from cli.__main__ import main
from tests.agents.fake_nvml import FakeNvml
from wire import recording
from wire.recording import Header, RecordedGpu, Sample

ROOT = Path(__file__).parent.parent.parent


def fettle(*words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """`fettle run` as a real process on this machine."""
    return subprocess.run(
        [sys.executable, "-m", "cli", "run", *words], cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=60
    )


def test_streams_and_exit_code_pass_through() -> None:
    """What the command reads and writes is untouched; ours goes to stderr after it."""
    done = fettle("--", "sh", "-c", "cat; echo err >&2; exit 7", stdin="in\n")

    assert done.returncode == 7
    assert done.stdout == "in\n"
    assert done.stderr.startswith("err\n")
    assert "fettle run:" in done.stderr.splitlines()[1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--", "sh", "-c", "kill -9 $$"), 137),
        (("--", "/nonexistent-command"), 127),
        (("--", "/etc/passwd"), 126),
        ((), 2),
        (("--", "true"), 0),
        (("--record", "/nowhere/x.gz", "--", "true"), 2),
    ],
)
def test_exit_codes_are_a_shells(words: tuple[str, ...], code: int) -> None:
    """128 + n for signal n; 126 and 127 when it cannot be started."""
    done = fettle(*words)

    assert done.returncode == code
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_command(number: signal.Signals) -> None:
    """It may end in its own way, and its code is what counts."""
    program = (
        f"import signal, sys, time\nsignal.signal({int(number)}, lambda *a: sys.exit(5))\nprint('up', flush=True)\ntime.sleep(30)"
    )
    started = subprocess.Popen(
        [sys.executable, "-m", "cli", "run", "--", sys.executable, "-c", program],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert started.stdout is not None
    started.stdout.readline()
    began = time.monotonic()
    started.send_signal(number)
    started.communicate(timeout=20)

    assert started.returncode == 5
    assert time.monotonic() - began < 10


def run(nvml: FakeNvml, words: list[str], file: Path | None = None) -> Ran:
    """The part behind the verb, on the fake driver."""

    async def both() -> Ran:
        machine = Machine(NvmlDriver(nvml), deadline_s=0.2, slow_s=1.0)
        try:
            return await command.run(words, machine, file, hz=10)
        finally:
            await machine.close()

    return asyncio.run(both())


def test_gpus_of_the_commands_tree_are_kept_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPU 1 is held by the command's own child, GPU 0 by a stranger: the recording has GPU 1, its file with every sample."""
    nvml = FakeNvml()
    nvml.gpus[0]["processes"] = [{"pid": 1, "usedGpuMemory": 5}]
    pidfile = tmp_path / "pid"

    class Processes(list[dict[str, int]]):
        """What GPU 1 answers: the pid that the command wrote."""

        def __iter__(self) -> Iterator[dict[str, int]]:
            text = pidfile.read_text() if pidfile.exists() else ""
            return iter([{"pid": int(text), "usedGpuMemory": 7}] if text else [])

    nvml.gpus[1]["processes"] = Processes()
    monkeypatch.setattr(command, "MAX_SAMPLES", 2)
    file = tmp_path / "run.jsonl.gz"
    result = run(nvml, ["sh", "-c", f"sleep 1.5 & echo $! > {pidfile}; wait"], file)

    assert result.code == 0
    assert result.recording is not None
    assert [gpu.index for gpu in result.recording.header.gpus] == [1]
    assert all([gpu["index"] for gpu in sample.gpus] == [1] for sample in result.recording.samples)
    kept = recording.read(file)
    assert [gpu.index for gpu in kept.header.gpus] == [1]
    assert all([gpu["index"] for gpu in sample.gpus] == [1] for sample in kept.samples)
    assert len(result.recording.samples) < 4
    assert len(kept.samples) > 8
    assert kept.samples[-1].t > 1.2
    assert list(tmp_path.glob("*.part")) == []
    assert any(sample.processes for sample in result.recording.samples)


def test_a_disk_that_fills_costs_the_file_and_nothing_else(tmp_path: Path) -> None:
    """The command's exit code stands, its run is judged to its end, and the file's end is said."""
    full = tmp_path / "full.jsonl.gz"
    full.symlink_to("/dev/full")
    result = run(FakeNvml(), ["sh", "-c", "sleep 2.5; exit 3"], full)

    assert result.code == 3
    assert result.trouble == f"{full} is not whole: No space left on device"
    assert result.recording is not None
    assert result.recording.samples[-1].t > 0.5


def test_sampling_that_ends_over_a_defect_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's exit code stands, and nobody takes half of its run for all of it."""
    real, calls = recorder.sample, iter(range(2))

    def sample(*words: Any) -> recording.Sample:
        if next(calls, None) is None:
            raise KeyError("a defect")
        return real(*words)

    monkeypatch.setattr(recorder, "sample", sample)
    result = run(FakeNvml(), ["sh", "-c", "sleep 1.5; exit 3"])

    assert result.code == 3
    assert result.trouble == "sampling ended before the command did, over a defect: KeyError: 'a defect'"


def test_a_command_that_uses_no_gpu_is_judged_by_all_of_them() -> None:
    """Better too much than nothing."""
    result = run(FakeNvml(), ["sleep", "1"])

    assert result.recording is not None
    assert [gpu.index for gpu in result.recording.header.gpus] == [0, 1]


def test_a_command_shorter_than_a_sample_has_nothing_to_judge() -> None:
    """The state says that there were GPUs."""
    result = run(FakeNvml(), ["true"])

    assert (result.code, result.gpus_state) == (0, "ok") or result.recording is None


def test_a_command_that_is_not_there_is_told_apart() -> None:
    """As a shell does."""
    with pytest.raises(CommandError) as caught:
        run(FakeNvml(), ["/nonexistent-command"])

    assert caught.value.code == 127


def test_the_diagnosis_follows_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With GPUs there: the command's output first, then the bottleneck; the kept file is judged the same way."""
    nvml = FakeNvml()
    monkeypatch.setattr(drivers, "of_this_machine", lambda: NvmlDriver(nvml))
    file = tmp_path / "run.jsonl.gz"
    code = main(["run", "--record", str(file), "--", "sh", "-c", "sleep 8; echo done; exit 4"])
    out, err = capfd.readouterr()

    assert code == 4
    assert out == "done\n"
    assert err.startswith("sh: bottleneck ")
    assert main(["advise", str(file)]) == 0
    assert capfd.readouterr().out.split("(")[0] == err.split("(")[0].replace("sh:", "run:")


def sample(t: float, *pids: dict[str, int | None], used: int = 0) -> Sample:
    """A sample with these holders for each GPU."""
    return Sample(t=t, gpus=tuple({"index": i, "pids": p, "mem_used_bytes": used if i else 0} for i, p in enumerate(pids)))


HEADER = Header(recording=1, gpus=(RecordedGpu(index=0), RecordedGpu(index=1)))


def test_a_gpu_whose_memory_grew_counts_when_no_holder_can_be_seen() -> None:
    """A container's processes have pids of another namespace."""
    watch = _Watch(os.getpid())
    watch.take(HEADER, sample(0, {}, {"999999": None}))
    watch.take(HEADER, sample(1, {}, {"999999": None}, used=1 << 30))

    assert watch.chosen() == {1}


def test_a_long_run_is_thinned_and_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, and the samples still cover the whole run."""
    monkeypatch.setattr(command, "MAX_SAMPLES", 10)
    watch = _Watch(os.getpid())
    for t in range(1000):
        watch.take(HEADER, sample(t, {}, {}))
    kept = watch.recording("x")

    assert kept is not None
    assert 10 <= len(kept.samples) <= 20
    assert kept.samples[0].t < 200
    assert kept.samples[-1].t > 900
