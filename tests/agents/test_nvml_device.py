"""NVML behind its seam, on answers of an H200: devices, the driver as a whole, facts and events."""

from collections.abc import Iterator

import pynvml  # noqa: TID251 - constants of the real module
import pytest

from agents.collectors.nvml_plan import GPU_METRICS
from agents.device import DRIVER_STATES, SLOW_S, DeviceError, DriverError
from agents.nvml_device import NvmlDevice, NvmlDriver
from tests.agents.fake_nvml import FakeNvml
from wire.metrics import BY_KEY, REASONS, Gpm, Metric, Nvml, NvmlField, NvmlLinks, of

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


@pytest.fixture
def nvml() -> FakeNvml:
    """Two H200."""
    return FakeNvml()


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


def test_what_a_device_cannot_answer_outlives_its_handle_but_not_its_driver(nvml: FakeNvml) -> None:
    """A GPU that was lost and found is not asked again; under another driver it is."""
    nvml.gpus[0]["calls"]["nvmlDeviceGetBAR1MemoryInfo()"] = {"error": pynvml.NVML_ERROR_NOT_SUPPORTED}
    driver = NvmlDriver(nvml)
    for version, asked in (("580.1", 1), ("580.1", 1), ("590.2", 2)):
        nvml.recorded["driver_version"] = version
        reader = driver.open()[0].reader(SLOW_S)
        reader.collect(0.0)
        driver.close()

        assert reader.reasons[GPU_METRICS.index(of_name("bar1_used_bytes"))] == "unsupported"
        assert nvml.asked["nvmlDeviceGetBAR1MemoryInfo"] == asked
