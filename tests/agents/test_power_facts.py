"""What a card's power readings are of, and over what time (V14)."""

import pytest

from agents.nvml_device import NvmlDevice
from tests.agents.fake_nvml import FakeNvml


@pytest.mark.parametrize(
    ("board", "scope", "average_s"),
    [
        ("h200-driver-580-captured.json", "gpu", 1.0),
        ("a100-driver-525.json", "gpu", 0.0),
        ("t4-driver-525.json", "gpu", 0.0),
        ("gh200-driver-580.json", "module", 1.0),
        ("gb10-driver-580.json", "gpu", 1.0),
    ],
)
def test_scope_and_averaging_are_facts(board: str, scope: str, average_s: float | None) -> None:
    """By the link to a CPU, and by the generation."""
    facts = NvmlDevice(FakeNvml(board), 0).facts

    assert (facts.power_scope, facts.power_average_s) == (scope, average_s)


def test_a_card_that_tells_no_power_has_neither() -> None:
    """Laptops and slices."""
    nvml = FakeNvml()
    nvml.gpus[0]["calls"] |= {"nvmlDeviceGetPowerUsage()": {"error": 3}, "nvmlDeviceGetEnforcedPowerLimit()": {"error": 3}}
    facts = NvmlDevice(nvml, 0).facts

    assert (facts.power_scope, facts.power_average_s) == (None, None)
