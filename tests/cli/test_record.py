"""`fettle record` from live GPUs into the recordings' format."""

import os
import signal
import threading
from pathlib import Path

import pytest

from advisor.recorded import judge
from agents import drivers
from agents.nvml_device import NvmlDriver
from cli.__main__ import main
from tests.agents.fake_nvml import FakeNvml
from wire import recording


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """Two H200 behind `fettle record`."""
    fake = FakeNvml()
    monkeypatch.setattr(drivers, "of_this_machine", lambda: NvmlDriver(fake))
    return fake


def test_the_file_is_a_recording_that_the_advisor_reads(nvml: FakeNvml, tmp_path: Path) -> None:
    """Header with the cards' constants and UUIDs, four samples a second, the registry's names."""
    file = tmp_path / "run.jsonl.gz"
    code = main(["record", "-o", str(file), "--seconds", "2"])
    written = recording.read(file)

    assert code == 0
    assert written.header.gpus[1].uuid == nvml.gpus[1]["uuid"]
    assert written.header.gpus[0].sm_clock_max_mhz == 1980
    assert 6 <= len(written.samples) <= 9
    assert written.samples[0].t < 0.2
    gpu = written.samples[-1].gpus[0]
    assert (gpu["power_w"], gpu["sm_active"], gpu["pids"]) == (142.7, 0.051, {"2033": 1858076672})
    assert gpu["energy_j_total"] == 116812.1
    assert recording.readings("gpu", gpu)[1] == {"retired_pages_pending": "not_recorded"}  # of cards before Ampere alone
    assert "cpu_user_pct" in written.samples[-1].host
    assert judge(written).recording == "run"


def test_a_signal_ends_it_with_a_whole_file(nvml: FakeNvml, tmp_path: Path) -> None:
    """Ctrl-C is how most recordings end."""
    file = tmp_path / "run.jsonl.gz"
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    code = main(["record", "-o", str(file)])
    timer.join()

    assert code == 0
    assert recording.read(file).samples


def test_without_a_gpu_it_says_so(nvml: FakeNvml, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, the reason, and no file."""
    nvml.init_error = 12
    code = main(["record", "-o", str(tmp_path / "x.gz")])

    assert code == 2
    assert "no GPU was found" in capsys.readouterr().err
    assert not (tmp_path / "x.gz").exists()


def test_a_file_that_cannot_be_written_is_named(nvml: FakeNvml, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one sentence."""
    code = main(["record", "-o", "/nowhere/x.gz"])

    assert code == 2
    assert "/nowhere/x.gz: cannot be written" in capsys.readouterr().err


def test_a_rate_that_makes_no_sense_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The limits are said."""
    assert main(["record", "-o", str(tmp_path / "x"), "--hz", "0"]) == 2
    assert "0.1 to 20" in capsys.readouterr().err
