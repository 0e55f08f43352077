"""Answers captured call by call from a real card read as the registry says."""

import pytest

from agents.collectors.nvml import GpuCollector
from agents.collectors.nvml_plan import GPU_METRICS
from agents.nvml_device import NvmlDevice
from tests.agents.fake_nvml import FakeNvml


@pytest.fixture(scope="module")
def nvml() -> FakeNvml:
    """Two H200 under driver 580.159, the first at the start of a training program, the second idle."""
    return FakeNvml("h200-driver-580-captured.json")


@pytest.mark.parametrize(("index", "power_w"), [(0, 118.529), (1, 78.144)])
def test_every_metric_of_the_registry_is_read(nvml: FakeNvml, index: int, power_w: float) -> None:
    """None is absent but what cards before Ampere tell, and the means of an idle second are true zeros."""
    collector = GpuCollector(NvmlDevice(nvml, index))
    collector.collect(0.0)
    collector.collect(1.0)
    values = dict(zip((metric.name for metric in GPU_METRICS), collector.values, strict=True))

    rows_not_pages = {"retired_pages_pending": "unsupported"}
    assert dict.fromkeys(values) | rows_not_pages == dict(zip(values, collector.reasons, strict=True))
    assert values["power_w"] == pytest.approx(power_w)
    assert values["sm_active"] == 0
    assert values["gr_engine_active"] == pytest.approx(0.00006, abs=1e-4)


def test_the_second_gpu_is_held_by_nobody(nvml: FakeNvml) -> None:
    """An empty list of processes is an answer, not an absence."""
    collectors = [GpuCollector(NvmlDevice(nvml, index)) for index in (0, 1)]
    for collector in collectors:
        collector.collect(0.0)

    assert [collector.holds for collector in collectors] == [[(564, 1082130432)], []]


def test_the_links_speed_is_asked_of_a_link_where_the_common_one_is_not_told() -> None:
    """This card refuses field 90; field 164 (an answer put together from the links' published speed) stands in, else nothing does."""
    nvml = FakeNvml("h200-driver-580-captured.json")
    assert NvmlDevice(nvml, 0).facts.nvlink_bytes_per_s_per_link is None

    nvml.gpus[0]["fields"]["164"] = {"type": 1, "value": 26562}
    assert NvmlDevice(nvml, 0).facts.nvlink_bytes_per_s_per_link == 26_562e6
