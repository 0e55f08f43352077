"""`fettle bench`: the real command, its real processes; the driver's library and torch are fakes where a run needs GPUs."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main
from cli.bench import written
from tests.agents.bench.carded import TORCH
from tests.agents.driven import Driver
from wire.bench import BenchReport, Score, decode, encode

NO_TORCH = "torch is not installed for this Python"


def idle(file: Path) -> Driver:
    """Two H200 that nobody uses."""
    driver = Driver(file, "h200-driver-580.json")
    for gpu in driver.gpus:
        gpu["processes"] = []
        gpu["calls"]["nvmlDeviceGetMemoryInfo(33554472)"]["used"] = 5 << 20
    driver.save()
    return driver


def begun(driver: Driver, *words: str, **knobs: Any) -> "subprocess.Popen[str]":
    """The command, under way."""
    env = driver.environment
    env["PYTHONPATH"] = f"{TORCH}{os.pathsep}{env['PYTHONPATH']}"
    env["FAKE_TORCH"] = json.dumps(knobs)
    return subprocess.Popen(
        [sys.executable, "-m", "cli", "bench", "--node", "n1", *words],
        env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("gpus", "says"),
    [
        ("1e30", "'1e30' is neither"),
        ("1.5", "'1.5' is neither"),
        ("-1", "'-1' is neither"),
        ("0x1", "'0x1' is neither"),
        ("", "'' is neither"),
        ("0,,1", "'' is neither"),
        ("9" * 4000, "is neither"),
        ("0,1,0", "names 0 twice"),
        ("0,GPU-01234567", "takes indices or UUIDs, not both"),
    ],
)
def test_gpus_that_are_no_list_are_refused_before_anything_is_measured(
    gpus: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and a short sentence; CUDA would read `1e30` as GPU 1."""
    code = main(["bench", "--node", "n1", f"--gpus={gpus}"])
    said = capsys.readouterr()

    assert (code, said.out) == (2, "")
    assert said.err.startswith("fettle bench: --gpus ")
    assert says in said.err
    assert len(said.err) < 300


def test_without_torch_it_says_so_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, one sentence, nothing on the standard output."""
    code = main(["bench", "--node", "n1"])
    said = capsys.readouterr()

    assert code == 2
    assert said.out == ""
    assert said.err.startswith(f"fettle bench: {NO_TORCH}")
    assert "pip install torch" in said.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--settle-s", "-1"], "--settle-s -1 is outside 0 to 3600"),
        (["--settle-s", "nan"], "outside 0 to 3600"),
        (["--only", "disk"], "--only disk needs --disk DIR"),
        (["--json", "/nowhere/at/all.json"], "there is no such folder"),
        (["--send"], "no server is set"),
        (["--from-json", "/nowhere.json"], "/nowhere.json cannot be read: No such file or directory"),
        (["--server", "http://x"], "must begin with ws:// or wss://"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 with a sentence."""
    code = main(["bench", "--node", "n1", *words])

    assert code == 2
    assert says in capsys.readouterr().err


def test_a_disk_is_measured_without_torch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both reads have a score on a real file system, and nothing is left in the folder."""
    from agents.bench import disk

    monkeypatch.setattr(disk, "size_for", lambda folder, quick: disk.SMALLEST)
    out = tmp_path / "bench.json"
    folder = tmp_path / "data"
    folder.mkdir()
    code = main(["bench", "--node", "n1", "--quick", "--only", "disk", "--disk", str(folder), "--json", str(out)])
    report = decode(out.read_bytes())
    told = capsys.readouterr().out

    if code == 1:  # this file system takes no direct I/O, and says so
        assert {one.name for one in report.missing} == {"disk_sequential_read", "disk_random_read"}
        assert "refuses direct I/O" in told
        return
    assert code == 0
    assert {one.name for one in report.scores} == {"disk_sequential_read", "disk_random_read"}
    assert all(one.value > 1e6 for one in report.scores)
    assert "disk_sequential_read" in told
    assert list(folder.iterdir()) == []


def test_two_gpus_give_a_table_and_a_report(tmp_path: Path) -> None:
    """Each score beside the peak of its card, in per cent; a test without a published peak has none."""
    out = tmp_path / "bench.json"
    ran = begun(idle(tmp_path / "answers.json"), "--quick", "--settle-s", "0", "--only", "matmul", "memory", "--json", str(out))
    told, progress = ran.communicate(timeout=120)
    report = decode(out.read_bytes())
    rows = {line.split()[0]: line for line in told.splitlines() if line.startswith("  matmul")}

    assert ran.returncode == 0, progress
    assert "GPU 0 NVIDIA H200, power limit 700 W" in told
    assert "71% of 989 TFLOP/s" in rows["matmul_bf16_8192"]
    assert "%" not in rows["matmul_fp64_8192"]
    assert "GPU 0, 1: matmul_bf16_8192" in progress
    assert report.protocol == "quick"
    assert len({one.gpu for one in report.scores}) == 2


def test_an_interrupt_ends_it_with_what_was_measured(tmp_path: Path) -> None:
    """Exit code 130, the report is written, and no process is left behind."""
    out = tmp_path / "bench.json"
    ran = begun(
        idle(tmp_path / "answers.json"),
        "--quick",
        "--settle-s",
        "0",
        "--only",
        "matmul",
        "--json",
        str(out),
        hangs="float8_e4m3fn",
    )
    assert ran.stderr is not None
    for line in ran.stderr:
        if "fp8" in line:
            break
    time.sleep(0.2)
    workers = children(ran.pid)
    ran.send_signal(signal.SIGINT)
    told, _ = ran.communicate(timeout=60)
    report = decode(out.read_bytes())

    assert ran.returncode == 130
    assert "Interrupted" in told
    assert report.interrupted
    assert {one.name for one in report.scores} == {"matmul_bf16_8192", "matmul_fp16_8192", "matmul_tf32_8192"}
    assert len(workers) == 2
    assert not [pid for pid in workers if is_running(pid)]


def test_its_processes_end_with_it_even_when_it_is_killed(tmp_path: Path) -> None:
    """Nothing is left on the GPUs."""
    ran = begun(idle(tmp_path / "answers.json"), "--quick", "--settle-s", "0", "--only", "matmul", hangs="bfloat16")
    assert ran.stderr is not None
    for line in ran.stderr:
        if "bf16" in line:
            break
    workers = children(ran.pid)
    ran.kill()
    ran.communicate()
    until = time.monotonic() + 10
    while any(map(is_running, workers)) and time.monotonic() < until:
        time.sleep(0.05)

    assert len(workers) == 2
    assert not any(map(is_running, workers))


def children(pid: int) -> list[int]:
    """Its processes."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid: int) -> bool:
    """False for one that is gone, or dead and not waited for."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_a_report_is_shown_again_from_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is measured, and nothing of it moves the cursor."""
    out = tmp_path / "bench.json"
    score = Score(name="disk_random_read", value=2e9, p5=1e9, p95=3e9, unit="bytes_per_second", iterations=9)
    report = BenchReport(node="n1", at=1.79e9, seconds=3.0, protocol="quick", scores=(score,), versions={"torch": "\x1b[2J"})
    out.write_bytes(encode(report))
    code = main(["bench", "--from-json", str(out), "--node", "other"])
    told = capsys.readouterr().out

    assert code == 0
    assert "n1: quick run of 3 s" in told
    assert "2.00 GB/s" in told
    assert "\x1b" not in told


def test_a_file_that_is_no_report_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With where it does not fit."""
    out = tmp_path / "bench.json"
    out.write_text('{"node": "n1", "at": 1.79e9, "seconds": 1, "protocol": "quick", "scores": [{"name": "X"}]}')
    code = main(["bench", "--from-json", str(out)])

    assert code == 2
    assert "$.scores[0]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rate", "unit", "text"),
    [
        (788.4e12, "flop_per_second", "788 TFLOP/s"),
        (1_293e12, "flop_per_second", "1,293 TFLOP/s"),
        (51.34e12, "flop_per_second", "51.3 TFLOP/s"),
        (4.312e12, "bytes_per_second", "4.31 TB/s"),
        (983e6, "bytes_per_second", "983 MB/s"),
        (0.0, "bytes_per_second", "0 B/s"),
    ],
)
def test_rates_are_written_in_the_unit_that_suits(rate: float, unit: str, text: str) -> None:
    """Three digits, or whole."""
    assert written(rate, unit) == text
