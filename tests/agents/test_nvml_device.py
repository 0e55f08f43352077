"""NVML behind its seam and the collector over it, on answers of an H200."""

from collections.abc import Iterator

import pynvml  # noqa: TID251 - constants of the real module
import pytest

from agents.collectors.nvml import PROFILER_FIRST_S, GpuCollector
from agents.collectors.nvml_plan import GPU_METRICS
from agents.device import DRIVER_STATES, SLOW_S, DeviceError, DriverError
from agents.nvml_device import NvmlDevice, NvmlDriver
from tests.agents.fake_nvml import FakeNvml
from wire.metrics import ALL_LINKS, BY_KEY, REASONS, Gpm, Metric, Nvml, NvmlField, NvmlLinks, of


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
    """After two ticks an H200 answers all of them, converted once at the edge."""
    collector.collect(0.0)
    collector.collect(1.0)

    assert collector.reasons == [None] * len(GPU_METRICS)
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


def test_slow_metrics_keep_their_value_between_two_readings(nvml: FakeNvml, collector: GpuCollector) -> None:
    """The energy counter costs 3 ms: it is read every SLOW_S, and is no hole in between."""
    for second in range(int(SLOW_S) + 1):
        nvml.gpus[0]["calls"]["nvmlDeviceGetTotalEnergyConsumption()"] = 1000 * (second + 1)
        collector.collect(float(second))

    assert nvml.asked["nvmlDeviceGetTotalEnergyConsumption"] == 2
    assert reading(collector, "energy_j_total") == (pytest.approx(SLOW_S + 1), None)


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


def test_one_gpu_that_does_not_answer_leaves_the_others(nvml: FakeNvml) -> None:
    """A card that fell off before the agent began is told of; the machine's other cards are read."""
    nvml.fail(0, pynvml.NVML_ERROR_GPU_IS_LOST)
    driver = NvmlDriver(nvml)
    devices = driver.open()

    assert [device.facts.index for device in devices] == [1]
    assert "GPU 0 of 2" in driver.unreachable()[0]
    driver.close()


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "no_library"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "no_driver"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "version_mismatch"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "not_permitted"),
        (pynvml.NVML_ERROR_UNKNOWN, "driver_error"),
    ],
)
def test_a_driver_that_cannot_be_used_has_a_name_and_a_remedy(nvml: FakeNvml, code: int, state: str) -> None:
    """The state says which, the text says what to do."""
    nvml.init_error = code
    with pytest.raises(DriverError) as caught:
        NvmlDriver(nvml).open()

    assert caught.value.state == state
    assert DRIVER_STATES[state] in str(caught.value)


def test_a_driver_without_gpus_says_so(nvml: FakeNvml) -> None:
    """No GPU is a state of its own."""
    nvml.gpus.clear()
    with pytest.raises(DriverError) as caught:
        NvmlDriver(nvml).open()

    assert caught.value.state == "no_gpu"


def test_facts_are_the_cards_constants(nvml: FakeNvml) -> None:
    """As the recordings' headers have them for the same card."""
    facts = NvmlDevice(nvml, 1).facts

    assert (facts.name, facts.compute_capability, facts.power_limit_w) == ("NVIDIA H200", "9.0", 700.0)
    assert (facts.sm_clock_max_mhz, facts.mem_clock_max_mhz) == (1980, 3201)
    assert (facts.nvlink_links, facts.nvlink_bytes_per_s_per_link) == (18, 26_562_000_000)
    assert (facts.pci_bus_id, facts.mig_mode) == ("00000000:3B:00.0", False)


def test_events_carry_the_gpu_and_the_code(nvml: FakeNvml) -> None:
    """XIDs with their number, ECC errors with 1 or 2; nothing within the timeout is None."""
    driver = NvmlDriver(nvml)
    driver.open()
    nvml.events.put((1, pynvml.nvmlEventTypeXidCriticalError, 79))
    nvml.events.put((0, pynvml.nvmlEventTypeDoubleBitEccError, 0))
    first, second = driver.event(1000), driver.event(1000)

    assert first is not None
    assert (first.kind, first.code, first.gpu_uuid) == ("xid", 79, nvml.gpus[1]["uuid"])
    assert second is not None
    assert (second.kind, second.code) == ("ecc", 2)
    assert driver.event(1) is None
    driver.close()
    with pytest.raises(DeviceError):
        driver.event(1)


FIELD_WORDS = {
    "memory_temperature_c": "MEMORY_TEMP",
    "power_instant_w": "POWER_INSTANT",
    "power_limit_min_w": "POWER_MIN_LIMIT",
    "power_limit_max_w": "POWER_MAX_LIMIT",
    "power_cap_s_total": "SW_POWER_CAP",
    "thermal_s_total": "PERF_POLICY_THERMAL",
    "sw_thermal_s_total": "SW_THERM_SLOWDOWN",
    "hw_thermal_s_total": "HW_THERM_SLOWDOWN",
    "power_brake_s_total": "HW_POWER_BRAKE",
    "nvlink_replay_errors_total": "NVLINK_ERROR_DL_REPLAY",
    "nvlink_recovery_errors_total": "NVLINK_ERROR_DL_RECOVERY",
    "nvlink_crc_errors_total": "NVLINK_ERROR_DL_CRC",
    "pcie_replays_total": "PCIE_REPLAY_COUNTER",
    "pcie_recoveries_total": "L0_TO_RECOVERY",
    "pcie_correctable_errors_total": "COUNT_CORRECTABLE_ERRORS",
    "pcie_non_fatal_errors_total": "COUNT_NON_FATAL_ERROR",
    "pcie_fatal_errors_total": "COUNT_FATAL_ERROR",
    "pcie_receiver_errors_total": "COUNT_RECEIVER_ERROR",
    "pcie_bad_tlp_total": "COUNT_BAD_TLP",
    "pcie_bad_dllp_total": "COUNT_BAD_DLLP",
    "pcie_naks_received_total": "COUNT_NAKS_RECEIVED",
    "pcie_naks_sent_total": "COUNT_NAKS_SENT",
    "pcie_lcrc_errors_total": "COUNT_LCRC_ERROR",
    "remap_correctable_total": "REMAPPED_COR",
    "remap_uncorrectable_total": "REMAPPED_UNC",
    "remap_pending": "REMAPPED_PENDING",
    "remap_failed": "REMAPPED_FAILURE",
    "recovery_action": "RECOVERY_ACTION",
}
"""What NVML's name of each field says."""


def of_name(name: str) -> Metric:
    """The GPU metric of that name."""
    return BY_KEY[f"gpu.{name}"]


def sources() -> Iterator[tuple[str, object]]:
    """Every NVML source of the registry."""
    return ((metric.name, metric.source) for metric in of("gpu"))


@pytest.mark.parametrize(("name", "source"), list(sources()))
def test_the_registry_names_what_nvidia_ml_py_knows(name: str, source: object) -> None:
    """Calls, arguments, field ids and GPM ids of the table exist in the binding, under a fitting name."""
    if isinstance(source, Nvml):
        assert callable(getattr(pynvml, source.call))
        assert all(hasattr(pynvml, word) for word in source.args if isinstance(word, str))
        if source.struct is not None:
            assert source.member in dict(getattr(pynvml, source.struct)._fields_)
    elif isinstance(source, NvmlField):
        fields = {value: key for key, value in vars(pynvml).items() if key.startswith("NVML_FI_DEV")}
        assert FIELD_WORDS[name] in fields[source.field_id]
        other = of_name(name).otherwise
        assert other is None or name.split("_")[1].upper() in fields[other.field_id]
    elif isinstance(source, NvmlLinks):
        assert callable(getattr(pynvml, source.call))
    elif isinstance(source, Gpm):
        metrics = {value: key for key, value in vars(pynvml).items() if key.startswith("NVML_GPM_METRIC_")}
        traffic = name.endswith("bytes_per_s")
        assert metrics[source.metric_id].endswith("_PER_SEC") == traffic
        assert source.scale == (1 << 20 if traffic else 0.01)
        assert not traffic or ("_RX_" if "_rx_" in name else "_TX_") in metrics[source.metric_id]


def test_reasons_are_those_of_the_registry() -> None:
    """An unknown reason is a defect, not data."""
    with pytest.raises(ValueError, match="nonsense"):
        DeviceError("nonsense")
    assert DeviceError(REASONS[0]).reason == REASONS[0]


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
        collector.collect(tick * SLOW_S)

    assert reading(collector, "nvlink_replay_errors_total") == (7, None)
    assert reading(collector, "nvlink_crc_errors_total") == (None, "unsupported")
    assert nvml.asked["field 163"] == 1
    assert nvml.asked["field 38"] == 1
    assert nvml.asked["field 52"] == 4


def test_what_a_device_cannot_answer_outlives_its_handle_but_not_its_driver(nvml: FakeNvml) -> None:
    """A GPU that was lost and found is not asked again; under another driver it is."""
    nvml.gpus[0]["calls"]["nvmlDeviceGetPowerUsage()"] = {"error": pynvml.NVML_ERROR_NOT_SUPPORTED}
    driver = NvmlDriver(nvml)
    for version, asked in (("580.1", 1), ("580.1", 1), ("590.2", 2)):
        nvml.recorded["driver_version"] = version
        reader = driver.open()[0].reader(SLOW_S)
        reader.collect(0.0)
        driver.close()

        assert reader.reasons[GPU_METRICS.index(of_name("power_w"))] == "unsupported"
        assert nvml.asked["nvmlDeviceGetPowerUsage"] == asked


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
