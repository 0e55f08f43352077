"""Every GPU metric of the registry, read from the answers of an H200."""

import pynvml  # noqa: TID251 - constants of the real module
import pytest

from agents.collectors.nvml import PROFILER_FIRST_S, RARE_EVERY, GpuCollector
from agents.collectors.nvml_plan import GPU_METRICS
from agents.device import SLOW_S
from agents.nvml_device import NvmlDevice
from tests.agents.fake_nvml import FakeNvml
from wire.metrics import ALL_LINKS


@pytest.fixture
def nvml() -> FakeNvml:
    """Two H200."""
    return FakeNvml()


@pytest.fixture
def collector(nvml: FakeNvml) -> GpuCollector:
    """The first H200's collector, before its first tick."""
    return GpuCollector(NvmlDevice(nvml, 0))


def reading(collector: GpuCollector, name: str) -> tuple[object, str | None]:
    """Value and reason of one metric."""
    position = next(i for i, metric in enumerate(GPU_METRICS) if metric.name == name)
    return collector.values[position], collector.reasons[position]


def test_every_metric_of_the_registry_is_read_in_its_unit(collector: GpuCollector) -> None:
    """After two ticks an H200 answers all of them but what cards before Ampere tell, converted once at the edge."""
    collector.collect(0.0)
    collector.collect(1.0)

    absent = [metric.name for metric, reason in zip(GPU_METRICS, collector.reasons, strict=True) if reason is not None]
    assert absent == ["retired_pages_pending"]  # its rows are remapped
    assert reading(collector, "power_w") == (pytest.approx(142.7), None)
    assert reading(collector, "energy_j_total") == (pytest.approx(116812.1), None)
    assert reading(collector, "mem_used_bytes") == (1870528512, None)
    assert reading(collector, "mem_reserved_bytes") == (641728512, None)
    assert reading(collector, "sm_active") == (pytest.approx(0.051), None)
    assert reading(collector, "pcie_rx_bytes_per_s") == (pytest.approx(18386.9336 * 2**20), None)
    assert reading(collector, "memory_temperature_c") == (41, None)
    assert reading(collector, "ecc_corrected_aggregate_total") == (2, None)


def test_means_are_absent_on_the_first_tick(collector: GpuCollector) -> None:
    """GPM needs two samples; the rest is there at once."""
    collector.collect(0.0)

    assert reading(collector, "sm_active") == (None, "no_previous")
    assert reading(collector, "temperature_c") == (36, None)


def test_what_the_card_cannot_answer_is_absent_and_never_asked_again(nvml: FakeNvml, collector: GpuCollector) -> None:
    """NOT_SUPPORTED of a call, a field and a GPM metric is remembered; the metrics beside them go on."""
    nvml.gpus[0]["calls"]["nvmlDeviceGetPowerUsage()"] = {"error": pynvml.NVML_ERROR_NOT_SUPPORTED}
    nvml.gpus[0]["fields"]["82"] = {"error": pynvml.NVML_ERROR_NOT_SUPPORTED, "type": 1, "value": 0}
    nvml.gpus[0]["gpm"]["13"] = {"error": pynvml.NVML_ERROR_NOT_SUPPORTED}
    nvml.asked.clear()
    for second in range(5):
        collector.collect(float(second))

    assert reading(collector, "power_w") == (None, "unsupported")
    assert reading(collector, "memory_temperature_c") == (None, "unsupported")
    assert reading(collector, "fp16_active") == (None, "unsupported")
    assert reading(collector, "fp32_active") == (pytest.approx(0.0408), None)
    assert nvml.asked["nvmlDeviceGetPowerUsage"] == 1
    assert nvml.asked["field 82"] == 1


def test_switching_mig_asks_everything_again(nvml: FakeNvml, collector: GpuCollector) -> None:
    """What a mode could not answer another one may."""
    power = nvml.gpus[0]["calls"]["nvmlDeviceGetPowerUsage()"]
    nvml.gpus[0]["calls"]["nvmlDeviceGetPowerUsage()"] = {"error": pynvml.NVML_ERROR_NOT_SUPPORTED}
    collector.collect(0.0)
    nvml.gpus[0]["calls"]["nvmlDeviceGetPowerUsage()"] = power
    nvml.gpus[0]["calls"]["nvmlDeviceGetMigMode()"] = [1, 1]
    collector.collect(SLOW_S)

    assert reading(collector, "power_w") == (pytest.approx(142.7), None)


def test_a_field_that_poisons_the_whole_request_loses_itself_alone(nvml: FakeNvml, collector: GpuCollector) -> None:
    """Some drivers refuse all fields for one bad id: then each is asked for itself."""
    nvml.gpus[0]["poison"] = 230
    del nvml.gpus[0]["fields"]["230"]
    collector.collect(0.0)

    assert reading(collector, "recovery_action") == (None, "unsupported")
    assert reading(collector, "remap_pending") == (0, None)
    nvml.gpus[0]["fields"]["142"]["value"] = 7
    collector.collect(SLOW_S)
    assert reading(collector, "remap_correctable_total") == (7, None)


def test_a_busy_profiler_costs_its_metrics_alone_and_is_asked_again(nvml: FakeNvml, collector: GpuCollector) -> None:
    """While another tool holds GPM, the rest is read; afterwards means begin with a fresh pair of samples."""
    collector.collect(0.0)
    nvml.gpus[0]["gpm_error"] = pynvml.NVML_ERROR_IN_USE
    collector.collect(1.0)

    assert reading(collector, "sm_active") == (None, "profiler_busy")
    assert reading(collector, "gpu_util_pct") == (43, None)
    del nvml.gpus[0]["gpm_error"]
    collector.collect(2.0)
    assert reading(collector, "sm_active") == (None, "profiler_busy")
    collector.collect(1.0 + PROFILER_FIRST_S)
    assert reading(collector, "sm_active") == (None, "no_previous")
    collector.collect(2.0 + PROFILER_FIRST_S)
    assert reading(collector, "sm_active") == (pytest.approx(0.051), None)


@pytest.mark.parametrize(
    ("call", "answer", "name", "reason"),
    [
        ("nvmlDeviceGetTemperature(0)", 644245923, "temperature_c", "out_of_range"),
        ("nvmlDeviceGetUtilizationRates()", {"gpu": 0xFFFFFFFF, "memory": 1}, "gpu_util_pct", "blank"),
        ("nvmlDeviceGetUtilizationRates()", {"gpu": 37100, "memory": 1}, "gpu_util_pct", "out_of_range"),
        ("nvmlDeviceGetPowerUsage()", 0xFFFFFFFF, "power_w", "blank"),
        ("nvmlDeviceGetPowerUsage()", 0x7FFFFFF0, "power_w", "blank"),
        ("nvmlDeviceGetTotalEnergyConsumption()", 9223372036854776000, "energy_j_total", "blank"),
        ("nvmlDeviceGetTemperature(0)", "[N/A]", "temperature_c", "not_a_number"),
        ("nvmlDeviceGetTemperature(0)", None, "temperature_c", "unsupported"),
        ("nvmlDeviceGetTemperature(0)", float("nan"), "temperature_c", "not_a_number"),
        ("nvmlDeviceGetPerformanceState()", 32, "pstate", "out_of_range"),
    ],
)
def test_impossible_answers_are_absent_with_a_reason(
    nvml: FakeNvml, collector: GpuCollector, call: str, answer: object, name: str, reason: str
) -> None:
    """Sentinels, text and impossible magnitudes never become a number, nor a scaled sentinel."""
    nvml.gpus[0]["calls"][call] = answer
    collector.collect(0.0)

    assert reading(collector, name) == (None, reason)


def test_a_ratio_a_little_over_one_is_full_and_a_larger_one_is_refused(nvml: FakeNvml, collector: GpuCollector) -> None:
    """GPM's two counters are not read at one instant; 1.2 is no such rounding."""
    nvml.gpus[0]["gpm"]["2"] = 100.3
    nvml.gpus[0]["gpm"]["10"] = 120.0
    collector.collect(0.0)
    collector.collect(1.0)

    assert reading(collector, "sm_active") == (1.0, None)
    assert reading(collector, "dram_active") == (None, "out_of_range")


def test_a_memory_temperature_of_zero_is_no_temperature(nvml: FakeNvml, collector: GpuCollector) -> None:
    """Cards without the sensor answer success with 0 (V01): the card cannot answer, which is no fault of its driver."""
    nvml.gpus[0]["fields"]["82"]["value"] = 0
    collector.collect(0.0)

    assert reading(collector, "memory_temperature_c") == (None, "unsupported")


FAST, SLOW, RARE, STATIC = (
    ("nvmlDeviceGetPowerUsage", "field 82", "nvmlGpmMetricsGet"),
    ("nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetMigMode", "nvmlDeviceGetAccountingMode", "field 144"),
    ("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetBAR1MemoryInfo", "field 161", "field 74"),
    ("nvmlDeviceGetMaxClockInfo", "field 187"),
)
"""What is asked once in a reading of each cadence, and answers for the whole of it."""


def times(nvml: FakeNvml, names: tuple[str, ...]) -> set[int]:
    """How often these were asked since the last `clear`."""
    return {nvml.asked[name] // (2 if name == "nvmlDeviceGetMaxClockInfo" else 1) for name in names}


def test_each_cadence_is_asked_when_it_is_due(nvml: FakeNvml, collector: GpuCollector) -> None:
    """All at once at the start; then each second, every SLOW_S, every RARE_EVERY of those, and never again."""
    minute = int(SLOW_S) * RARE_EVERY
    nvml.asked.clear()
    collector.collect(0.0)
    nvml.asked["nvmlGpmMetricsGet"] += 1  # which needs two samples
    assert [times(nvml, names) for names in (FAST, SLOW, RARE, STATIC)] == [{1}, {1}, {1}, {1}]

    nvml.asked.clear()
    for second in range(1, minute):
        collector.collect(float(second))
    assert [times(nvml, names) for names in (FAST, SLOW, RARE, STATIC)] == [{minute - 1}, {RARE_EVERY - 1}, {0}, {0}]
    collector.collect(float(minute))
    assert [times(nvml, names) for names in (FAST, SLOW, RARE, STATIC)] == [{minute}, {RARE_EVERY}, {1}, {0}]


def test_after_a_failure_everything_is_asked_at_once(nvml: FakeNvml, collector: GpuCollector) -> None:
    """A GPU that comes back may be another: its limits, too, are read anew."""
    for second in range(5):
        collector.collect(float(second))
    collector.fail("gpu_lost")
    nvml.asked.clear()
    collector.collect(5.0)

    assert [times(nvml, names) for names in (FAST, SLOW, RARE, STATIC)] == [{1}, {1}, {1}, {1}]


def test_after_a_reset_counters_are_asked_at_once(nvml: FakeNvml, collector: GpuCollector) -> None:
    """They may have begun anew, and nobody waits a minute for what the driver recommends now."""
    collector.collect(0.0)
    calls = nvml.gpus[0]["calls"]
    power, calls["nvmlDeviceGetPowerUsage()"] = calls["nvmlDeviceGetPowerUsage()"], {"error": pynvml.NVML_ERROR_RESET_REQUIRED}
    collector.collect(1.0)
    assert reading(collector, "recovery_action") == (1, None)
    calls["nvmlDeviceGetPowerUsage()"] = power
    collector.collect(2.0)
    nvml.asked.clear()
    collector.collect(3.0)

    assert [times(nvml, names) for names in (SLOW, RARE)] == [{1}, {1}]
    assert reading(collector, "recovery_action") == (0, None)


def test_a_rare_reading_that_failed_for_now_is_asked_again_with_the_slow_ones(nvml: FakeNvml, collector: GpuCollector) -> None:
    """A minute without it is long; what it lacks for good is not asked so often."""
    calls = nvml.gpus[0]["calls"]
    energy, calls["nvmlDeviceGetTotalEnergyConsumption()"] = calls["nvmlDeviceGetTotalEnergyConsumption()"], {"error": 999}
    calls["nvmlDeviceGetBAR1MemoryInfo()"] = {"error": pynvml.NVML_ERROR_NO_PERMISSION}
    collector.collect(0.0)
    assert reading(collector, "energy_j_total") == (None, "driver_error")
    calls["nvmlDeviceGetTotalEnergyConsumption()"] = energy
    collector.collect(SLOW_S)
    assert reading(collector, "energy_j_total")[1] is None
    nvml.asked.clear()
    collector.collect(2 * SLOW_S)

    assert times(nvml, RARE) == {0}
    assert reading(collector, "bar1_used_bytes") == (None, "not_permitted")


def test_what_is_not_asked_keeps_its_value(nvml: FakeNvml, collector: GpuCollector) -> None:
    """The energy counter costs 3 ms: it is read once a minute, and is no hole in between."""
    for second in range(int(SLOW_S) * RARE_EVERY + 1):
        nvml.gpus[0]["calls"]["nvmlDeviceGetTotalEnergyConsumption()"] = 1000 * (second + 1)
        collector.collect(float(second))
        assert reading(collector, "energy_j_total") == (pytest.approx(1 if second < SLOW_S * RARE_EVERY else second + 1), None)


def test_a_lost_gpu_is_absent_as_lost_and_not_asked_on(nvml: FakeNvml, collector: GpuCollector) -> None:
    """Each further call would only wait for the bus."""
    collector.collect(0.0)
    nvml.fail(0, pynvml.NVML_ERROR_GPU_IS_LOST)
    nvml.asked.clear()
    collector.collect(1.0)

    assert set(collector.reasons) == {"gpu_lost"}
    assert collector.values == [None] * len(GPU_METRICS)
    assert nvml.asked.total() == 1


def test_processes_that_may_not_be_listed_are_not_none(nvml: FakeNvml, collector: GpuCollector) -> None:
    """Unknown is not empty; memory of all ones is "not available"."""
    nvml.gpus[0]["processes"] = [{"pid": 7, "usedGpuMemory": 0xFFFFFFFFFFFFFFFF}]
    collector.collect(0.0)
    assert (collector.holds, collector.holds_reason) == ([(7, None)], None)

    nvml.gpus[0]["processes"] = {"error": pynvml.NVML_ERROR_NO_PERMISSION}
    collector.collect(1.0)

    assert (collector.holds, collector.holds_reason) == ([], "not_permitted")


def test_a_request_that_is_refused_whole_is_halved_until_the_bad_id_stands_alone(nvml: FakeNvml, collector: GpuCollector) -> None:
    """Once: afterwards one request a tick, without the bad one."""
    nvml.gpus[0]["poison"] = 186
    del nvml.gpus[0]["fields"]["186"]
    collector.collect(0.0)
    asked = nvml.asked["nvmlDeviceGetFieldValues"]

    assert reading(collector, "power_instant_w") == (None, "unsupported")
    assert reading(collector, "pcie_replays_total")[1] is None
    assert asked < 16  # halving takes a handful of requests, one by one it would be one for each of the 30 fields
    collector.collect(1.0)
    collector.collect(2.0)
    assert nvml.asked["nvmlDeviceGetFieldValues"] == asked + 2
    assert nvml.asked["field 186"] < 8


def test_an_id_that_blanks_all_others_loses_itself_alone(nvml: FakeNvml, collector: GpuCollector) -> None:
    """Some drivers take the request and answer "not supported" to everything in it."""
    nvml.gpus[0]["blanks"] = 230
    collector.collect(0.0)

    assert reading(collector, "recovery_action") == (None, "unsupported")
    assert reading(collector, "memory_temperature_c") == (41, None)
    assert reading(collector, "remap_pending") == (0, None)


def test_older_fields_stand_in_where_the_newer_are_not_known(nvml: FakeNvml, collector: GpuCollector) -> None:
    """An A100 counts NVLink errors under other ids; where neither is known the metric is absent and not asked on."""
    for number in (161, 162, 163):
        del nvml.gpus[0]["fields"][f"{number}/{ALL_LINKS}"]
    nvml.gpus[0]["fields"]["52"] = {"type": 3, "value": 7}
    for tick in range(4):
        collector.collect(tick * SLOW_S * RARE_EVERY)

    assert reading(collector, "nvlink_replay_errors_total") == (7, None)
    assert reading(collector, "nvlink_crc_errors_total") == (None, "unsupported")
    assert nvml.asked["field 163"] == 1
    assert nvml.asked["field 38"] == 1
    assert nvml.asked["field 52"] == 4


def test_links_are_counted_by_their_state(nvml: FakeNvml, collector: GpuCollector) -> None:
    """One that is down is not up, and one that the board does not wire neither."""
    nvml.gpus[0]["calls"]["nvmlDeviceGetNvLinkState(3)"] = 0
    nvml.gpus[0]["calls"]["nvmlDeviceGetNvLinkState(17)"] = {"error": pynvml.NVML_ERROR_NOT_SUPPORTED}
    collector.collect(0.0)

    assert reading(collector, "nvlink_links_active") == (16, None)


def test_a_busy_profiler_is_left_alone_for_longer_and_longer(nvml: FakeNvml, collector: GpuCollector) -> None:
    """Each attempt may disturb whoever holds it."""
    nvml.gpus[0]["gpm_error"] = pynvml.NVML_ERROR_IN_USE
    for second in range(100):
        collector.collect(float(second))

    assert nvml.asked["nvmlGpmSampleGet"] == 5  # at 0, 5, 15, 35 and 75 s
    assert reading(collector, "sm_active") == (None, "profiler_busy")


def test_paused_profiling_lets_the_counters_go_and_comes_back(nvml: FakeNvml, collector: GpuCollector) -> None:
    """Its samples are freed, the rest is read, and means begin anew."""
    collector.collect(0.0)
    collector.collect(1.0)
    collector.pause_profiling(4.0)
    collector.collect(2.0)
    asked = nvml.asked["nvmlGpmSampleGet"]
    collector.collect(3.0)

    assert reading(collector, "sm_active") == (None, "paused")
    assert reading(collector, "power_w")[1] is None
    assert (nvml.asked["nvmlGpmSampleFree"], nvml.asked["nvmlGpmSampleGet"]) == (2, asked)
    collector.collect(4.0)
    assert reading(collector, "sm_active") == (None, "no_previous")
    collector.collect(5.0)
    assert reading(collector, "sm_active")[1] is None


def test_after_a_failed_tick_what_is_never_asked_is_absent_for_its_own_reason(nvml: FakeNvml, collector: GpuCollector) -> None:
    """A driver that failed for a moment does not make an unsupported metric a failed one for ever."""
    nvml.gpus[0]["calls"]["nvmlDeviceGetPowerUsage()"] = {"error": pynvml.NVML_ERROR_NOT_SUPPORTED}
    collector.collect(0.0)
    collector.fail("driver_error")
    collector.collect(1.0)

    assert reading(collector, "power_w") == (None, "unsupported")
    assert reading(collector, "temperature_c") == (36, None)
