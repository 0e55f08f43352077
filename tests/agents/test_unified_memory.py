"""GPUs whose memory is one with the CPU's: known as such, and read although they tell of no memory."""

from typing import Any

import pytest

from agents.collectors.nvml import GpuCollector
from agents.collectors.nvml_plan import GPU_METRICS
from agents.nvml_device import NvmlDevice
from tests.agents.driven import Driver, once
from tests.agents.fake_nvml import FakeNvml


@pytest.mark.parametrize(
    ("board", "kind"),
    [
        ("gb10-driver-580.json", "unified"),
        ("gh200-driver-580.json", "unified"),
        ("h200-driver-580-captured.json", "own"),
        ("a100-driver-525.json", "own"),
        ("t4-driver-525.json", "own"),
    ],
)
def test_the_kind_of_memory_is_a_fact(board: str, kind: str) -> None:
    """By the link to the CPU or the addressing mode; a GB10 by its name and by telling of no memory."""
    assert NvmlDevice(FakeNvml(board), 0).facts.memory_kind == kind


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"nvmlDeviceGetMemoryInfo(33554472)": {"error": 3}}, None),
        ({"nvmlDeviceGetAddressingMode()": 1}, "own"),  # HMM: the kernel moves pages, the card has its own memory
        ({"nvmlDeviceGetAddressingMode()": 2}, "unified"),
        ({"nvmlDeviceGetNumaNodeId()": 1}, "unified"),
        ({"nvmlDeviceGetNumaNodeId()": -1}, "own"),
        ({"nvmlDeviceGetC2cModeInfoV()": {"isC2cEnabled": 0}}, "own"),
    ],
)
def test_other_cards_are_what_the_driver_says(change: dict[str, Any], kind: str | None) -> None:
    """Nothing is guessed of a card that tells neither its memory nor where it is."""
    nvml = FakeNvml()
    nvml.gpus[0]["calls"] |= change

    assert NvmlDevice(nvml, 0).facts.memory_kind == kind


def test_without_memory_information_everything_else_is_read() -> None:
    """And a process tells what it holds."""
    collector = GpuCollector(NvmlDevice(FakeNvml("gb10-driver-580.json"), 0))
    collector.collect(0.0)
    told = dict(zip((metric.name for metric in GPU_METRICS), zip(collector.values, collector.reasons, strict=True), strict=True))

    assert told["mem_used_bytes"] == told["mem_total_bytes"] == told["bar1_total_bytes"] == (None, "unsupported")
    assert told["temperature_c"] == (35, None)
    assert told["power_w"][0] == pytest.approx(11.17)
    assert (collector.holds, collector.holds_reason) == ([(4711, 63931 << 20)], None)


@pytest.mark.parametrize("board", ["gb10-driver-580.json", "gh200-driver-580.json"])
async def test_a_real_agent_tells_it_through_the_driver_library(board: str, tmp_path: Any) -> None:
    """As the library fills ctypes' structs."""
    (card,) = (await once(Driver(tmp_path / "answers.json", board)))["gpus"]

    assert (card["memory_kind"], card["accounting_mode"]) == ("unified", False)
    assert card["power_scope"] == ("module" if board.startswith("gh200") else "gpu")
    assert ("mem_total_bytes" in card) == board.startswith("gh200")
