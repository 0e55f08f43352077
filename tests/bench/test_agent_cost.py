"""The agent's benchmark: what it says without a GPU, and that its arithmetic measures a real process."""

import asyncio
import ctypes.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.agent_cost import measure, measure_agent

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.skipif(ctypes.util.find_library("nvidia-ml") is not None, reason="a GPU machine measures instead")
def test_without_a_gpu_it_says_so() -> None:
    """Exit code 2 and one sentence with the remedy."""
    done = subprocess.run([sys.executable, "bench/agent_cost.py"], cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert done.returncode == 2
    assert done.stderr.startswith("agent_cost needs a GPU")
    assert "Traceback" not in done.stderr


def test_a_busy_process_and_an_idle_one_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU is per cent of one core, over all threads of the process."""
    monkeypatch.setattr("bench.agent_cost.WARM_UP_S", 0.5)
    idle = asyncio.run(measure("idle", ["sleep", "30"], 1.0))
    busy = asyncio.run(measure("busy", [sys.executable, "-c", "while True: pass"], 1.0))

    assert idle["cpu_pct_of_core"] < 2
    assert busy["cpu_pct_of_core"] > 15
    assert busy["rss_mib"] > 2


def test_a_monitor_that_dies_is_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are measured all the same."""
    monkeypatch.setattr("bench.agent_cost.WARM_UP_S", 0.5)
    dead = asyncio.run(measure("dead", [sys.executable, "-c", "raise SystemExit('no driver')"], 0.2))
    gone = asyncio.run(measure("gone", ["/nonexistent"], 0.2))

    assert dead["cpu_pct_of_core"] is None
    assert "no driver" in dead["error"]
    assert gone["cpu_pct_of_core"] is None


def test_the_agent_is_measured_with_its_outputs_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Over the fake driver: frames and OTLP requests come while it is measured."""
    monkeypatch.setattr("bench.agent_cost.WARM_UP_S", 3.0)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "agents" / "fake_driver"))
    answers = ROOT / "tests" / "device_answers" / "h200-driver-580-captured.json"
    monkeypatch.setenv(
        "FETTLE_FAKE_NVML", str(shutil.copy(answers, tmp_path / answers.name))
    )  # the fake driver notes beside it how often it is open
    result = asyncio.run(measure_agent(2.0, with_outputs=True))
    said = capsys.readouterr().out

    assert result["cpu_pct_of_core"] > 0, result
    assert "fettle agent, all outputs: 0 batches" not in said
    assert " and 0 OTLP requests" not in said
