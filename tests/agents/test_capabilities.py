"""What an upgrade of the driver or of the agent takes away."""

import asyncio
import os
from pathlib import Path

import pynvml  # noqa: TID251 - constants of the real module
import pytest

from agents import gpus, kept_driver
from agents.capabilities import Capabilities
from agents.gpus import Gpus
from agents.nvml_device import NvmlDriver
from tests.agents.fake_nvml import FakeNvml
from tests.agents.nvml_gpus import DEADLINE_S, texts, tick
from wire.messages import GpuFacts


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait for real back-offs."""
    monkeypatch.setattr(kept_driver, "RETRY_FIRST_S", 0.0)
    monkeypatch.setattr(kept_driver, "RETRY_LAST_S", 0.0)
    monkeypatch.setattr(kept_driver, "_EVENT_WAIT_MS", 20)


async def test_metrics_that_another_driver_takes_away_are_told_of(tmp_path: Path) -> None:
    """Once for a model, across restarts of the agent; the same driver again is no news."""
    file = tmp_path / "capabilities.json"
    for version, said in (("580.159.04", []), ("590.10", ["power_w"]), ("590.10", [])):
        nvml = FakeNvml()
        nvml.recorded["driver_version"] = version
        if version == "590.10":
            for gpu in nvml.gpus:
                gpu["calls"]["nvmlDeviceGetPowerUsage()"] = {"error": pynvml.NVML_ERROR_NOT_SUPPORTED}
        one = Gpus(NvmlDriver(nvml), DEADLINE_S, capabilities=Capabilities(file))
        for _ in range(gpus.KNOWN_AFTER + 1):
            await tick(one)
        told = [text for text in texts(one) if "does not answer" in text]
        await one.close()
        while not file.exists() or version not in file.read_text():
            await asyncio.sleep(0.01)

        assert [text.split(": ")[1] for text in told] == [f"{', '.join(said)}."] * bool(said)


async def test_metrics_that_another_agent_no_longer_reads_are_told_of(tmp_path: Path) -> None:
    """An upgrade of the agent may lose them as silently as one of the driver; metrics that were given up are no loss."""
    file = tmp_path / "capabilities.json"
    file.write_text(
        '{"NVIDIA H200, whole":{"driver":"580.159.04","answers":["gone_by_intent","power_w","sm_active"],"agent":"0.1"}}'
    )
    nvml = FakeNvml()
    for gpu in nvml.gpus:
        gpu["calls"]["nvmlDeviceGetPowerUsage()"] = {"error": pynvml.NVML_ERROR_NOT_SUPPORTED}
    one = Gpus(NvmlDriver(nvml), DEADLINE_S, capabilities=Capabilities(file, "0.2"))
    for _ in range(gpus.KNOWN_AFTER + 1):
        await tick(one)
    told = [text for text in texts(one) if "does not" in text]
    await one.close()

    assert told == ["This version of the agent does not read what 0.1 did for NVIDIA H200: power_w."]


async def test_a_damaged_memory_is_begun_anew(tmp_path: Path) -> None:
    """It is no reason not to start."""
    file = tmp_path / "capabilities.json"
    file.write_text('{"NVIDIA H200, whole": 7')
    one = Gpus(NvmlDriver(FakeNvml()), DEADLINE_S, capabilities=Capabilities(file))
    await tick(one)

    assert one.state == "ok"
    await one.close()


@pytest.mark.parametrize("is_pipe", [True, False])
def test_what_is_no_file_of_its_own_does_not_keep_the_agent_from_starting(
    tmp_path: Path, is_pipe: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A pipe whose writer never comes, or a file that nests without end: what GPUs answered before is not known, and that is said."""
    file = tmp_path / "capabilities.json"
    if is_pipe:
        os.mkfifo(file)
    else:
        file.write_text('{"NVIDIA H200, whole":{"driver":"580","odd":' + "[" * 100_000)
    known = Capabilities(file, "0.2")

    assert known.compare(GpuFacts(index=0, uuid="GPU-0", name="NVIDIA H200"), None, {"power_w"}) is None
    assert any("is not read" in message for message in caplog.messages)
