"""AMD's GPUs, read by the agent's own machine over answers of AMD SMI put together from published outputs."""

import sys
from pathlib import Path
from typing import Any

import pytest

from agents import amd_device, drivers, kept_driver
from agents.amd_device import AmdDriver
from agents.amd_readings import PROCESSES_S
from agents.device import DRIVER_STATES, DriverError
from agents.machine import Machine
from agents.nvml_device import NvmlDriver
from agents.source import GPU
from tests.agents.fake_amdsmi import FakeAmdSmi
from tests.agents.ticking import named, until

MI300X = "0aff74a1-0000-1000-80d5-6d1b0b1c2d3e"
MI210 = "1bff740f-0000-1000-8054-7e2c1c2d3e4f"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait for real periods."""
    monkeypatch.setattr(kept_driver, "RETRY_FIRST_S", 0.01)
    monkeypatch.setattr(kept_driver, "RETRY_LAST_S", 0.02)


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """A /sys with both cards on their bus."""
    for bus in ("0000:0c:00.0", "0000:63:00.0"):
        (tmp_path / "bus/pci/devices" / bus).mkdir(parents=True)
    (tmp_path / "module/amdgpu").mkdir(parents=True)
    return tmp_path


def driver_of(smi: FakeAmdSmi, sysfs: Path) -> AmdDriver:
    """The real driver over the fake library."""
    return AmdDriver(lambda: smi, sysfs)


async def test_a_machine_reads_what_amd_smi_answers_in_units_of_the_registry(sysfs: Path) -> None:
    """Facts, versions and readings of an MI300X; processes with their bytes of device memory."""
    machine = Machine(driver_of(FakeAmdSmi(), sysfs))
    tick = await machine.collect()
    facts = machine.inventory.gpus[0]
    read = named(tick, 0)

    assert (facts.uuid, facts.name, facts.pci_bus_id) == (MI300X, "AMD Instinct MI300X", "0000:0C:00.0")
    assert (facts.mem_total_bytes, facts.power_limit_w, facts.power_limit_default_w) == (196592 << 20, 750, 750)
    assert (facts.sm_clock_max_mhz, facts.pcie_link_gen_max, facts.pcie_link_width_max) == (2100, 5, 16)
    assert machine.inventory.host.driver_version == "6.8.5"
    assert (read["gpu_util_pct"], read["mem_copy_util_pct"]) == (97, 41)
    assert read["mem_used_bytes"] == 65535 << 20
    assert (read["temperature_c"], read["memory_temperature_c"]) == (71, 58)
    assert (read["power_w"], read["power_limit_w"], read["power_limit_max_w"]) == (702, 750, 750)
    assert (read["sm_clock_mhz"], read["mem_clock_mhz"], read["mem_clock_max_mhz"]) == (2104, 1300, 1300)
    assert read["energy_j_total"] == pytest.approx(76500)
    assert (read["pcie_link_gen"], read["pcie_link_width"], read["pcie_recoveries_total"]) == (5, 16, 1)
    assert (read["ecc_corrected_volatile_total"], read["ecc_uncorrected_volatile_total"]) == (65535, 0)
    assert read["pcie_naks_received_total"] == 65535
    assert [(hold.gpu, hold.pid, hold.mem_bytes) for hold in tick.processes.holds] == [(0, 4242, 34357641216)]
    await machine.close()


async def test_what_amd_smi_does_not_answer_is_absent_with_its_reason(sysfs: Path) -> None:
    """Sentinels of every width are blanks, a refusal is a refusal, and what has no counterpart is unsupported; none is 0."""
    machine = Machine(driver_of(FakeAmdSmi(), sysfs))
    read = named(await machine.collect(), 1)

    assert read["gpu_util_pct"] == 0
    assert read["mem_copy_util_pct"] == "blank"
    assert (read["sm_clock_mhz"], read["mem_clock_mhz"]) == ("blank", "blank")
    assert read["energy_j_total"] == "blank"
    assert read["pcie_replays_total"] == "blank"
    assert read["ecc_corrected_volatile_total"] == "not_permitted"
    for name in ("memory_temperature_c", "sm_active", "clocks_event_reasons", "xid_errors_total", "nvlink_tx_bytes_per_s"):
        assert read[name] == "unsupported"
    await machine.close()


async def test_units_that_changed_between_releases_are_told_by_size(sysfs: Path) -> None:
    """Millidegrees or degrees, microwatts or watts, average or current power: the second card answers in the other way."""
    machine = Machine(driver_of(FakeAmdSmi(), sysfs))
    read = named(await machine.collect(), 1)

    assert read["temperature_c"] == 38
    assert read["power_limit_w"] == 300
    assert read["power_w"] == 41
    await machine.close()


async def test_a_sensor_that_the_card_has_not_is_asked_once(sysfs: Path) -> None:
    """The edge stands in for the hotspot; later ticks go to it at once."""
    smi = FakeAmdSmi()
    machine = Machine(driver_of(smi, sysfs))
    await machine.collect()
    await machine.collect()

    assert smi.asked.count("1 amdsmi_get_temp_metric(HOTSPOT, CURRENT)") == 1
    assert smi.asked.count("1 amdsmi_get_temp_metric(EDGE, CURRENT)") == 2
    assert smi.asked.count("1 amdsmi_get_temp_metric(VRAM, CURRENT)") == 1
    await machine.close()


def test_processes_are_looked_for_less_often_than_readings(sysfs: Path) -> None:
    """The library looks through every process of the machine; what it found stays until the next look."""
    smi = FakeAmdSmi()
    reader = driver_of(smi, sysfs).open()[0].reader(15.0)
    for second in (0.0, 1.0, PROCESSES_S - 0.1):
        reader.collect(second)

    assert smi.asked.count("0 amdsmi_get_gpu_process_list") == 1
    assert reader.holds == [(4242, 34357641216)]
    reader.collect(PROCESSES_S)
    assert smi.asked.count("0 amdsmi_get_gpu_process_list") == 2


def test_a_list_that_is_refused_is_not_an_empty_one(sysfs: Path) -> None:
    """Nobody holds the second card; who holds the first one cannot be asked."""
    smi = FakeAmdSmi()
    smi.gpus[0]["amdsmi_get_gpu_process_list"] = {"error": "AMDSMI_STATUS_NO_PERM"}
    first, second = (gpu.reader(15.0) for gpu in driver_of(smi, sysfs).open())
    first.collect(0)
    second.collect(0)

    assert (first.holds, first.holds_reason) == ([], "not_permitted")
    assert (second.holds, second.holds_reason) == ([], None)


async def test_a_gpu_that_hangs_is_late_and_the_other_goes_on(sysfs: Path) -> None:
    """Its readings are absent as `timeout` until the call comes back."""
    smi = FakeAmdSmi()
    machine = Machine(driver_of(smi, sysfs), deadline_s=0.1)
    await machine.collect()
    release = smi.hang(0)
    tick = await machine.collect()

    assert set(tick.gpu_reasons[0]) == {"timeout"}
    assert named(tick, 1)["power_w"] == 41
    release.set()
    tick = await until(machine, lambda tick: named(tick, 0)["power_w"] == 702)
    assert named(tick, 1)["power_w"] == 41
    await machine.close()


async def test_a_gpu_that_left_its_bus_is_lost_and_the_other_goes_on(sysfs: Path) -> None:
    """AMD SMI only says that files cannot be read; the kernel's list of PCI devices says why."""
    smi = FakeAmdSmi()
    machine = Machine(driver_of(smi, sysfs))
    await machine.collect()
    machine.events()
    kept = dict(smi.gpus[1])
    smi.gpus[1].update({key: {"error": "AMDSMI_STATUS_IO"} for key in kept})
    (sysfs / "bus/pci/devices/0000:63:00.0").rmdir()
    tick = await machine.collect()

    assert set(tick.gpu_reasons[1]) == {"gpu_lost"}
    assert named(tick, 0)["power_w"] == 702
    assert [event.kind for event in machine.events()] == ["gpu_lost"]
    smi.gpus[1].update(kept)
    (sysfs / "bus/pci/devices/0000:63:00.0").mkdir()
    await until(machine, lambda tick: named(tick, 1)["power_w"] == 41)
    assert "gpu_back" in [event.kind for event in machine.events()]
    await machine.close()


async def test_a_gpu_that_does_not_answer_at_the_start_does_not_drop_the_others(sysfs: Path) -> None:
    """One card without a UUID: the other is read, and the first is told of."""
    smi = FakeAmdSmi()
    smi.gpus[0]["amdsmi_get_gpu_device_uuid"] = {"error": "AMDSMI_STATUS_IO"}
    machine = Machine(driver_of(smi, sysfs))
    await machine.collect()

    assert [gpu.uuid for gpu in machine.inventory.gpus] == [MI210]
    assert [event.text for event in machine.events() if event.kind == "gpu_lost"] == [
        "GPU 0 of 2 does not answer: Error code: 12 | AMDSMI_STATUS_IO"
    ]
    await machine.close()


def test_partitions_that_share_a_uuid_are_told_apart_by_their_place(sysfs: Path) -> None:
    """Two partitions of one card must not be taken for one GPU; their names stay the same from start to start."""
    smi = FakeAmdSmi()
    smi.gpus[1]["amdsmi_get_gpu_device_uuid"] = MI300X

    assert [gpu.facts.uuid for gpu in driver_of(smi, sysfs).open()] == [MI300X, f"{MI300X}@0000:63:00.0"]


def test_every_start_of_the_library_is_shut_down(sysfs: Path) -> None:
    """Opened and closed twice, or opened in vain: nothing stays open, and a second close is none."""
    smi = FakeAmdSmi()
    driver = driver_of(smi, sysfs)
    for _ in range(2):
        driver.open()
        assert smi.running == 1
        driver.close()
        driver.close()
    smi.gpus.clear()
    with pytest.raises(DriverError) as caught:
        driver.open()

    assert caught.value.state == "no_gpu"
    assert smi.running == 0


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("AMDSMI_STATUS_DRIVER_NOT_LOADED", "no_amd_driver"),
        ("AMDSMI_STATUS_NO_PERM", "amd_not_permitted"),
        ("AMDSMI_STATUS_INIT_ERROR", "driver_error"),
    ],
)
def test_a_library_that_does_not_start_is_a_named_state(sysfs: Path, status: str, state: str) -> None:
    """Each with a remedy of AMD's own."""
    smi = FakeAmdSmi()
    smi.init_error = status
    with pytest.raises(DriverError) as caught:
        driver_of(smi, sysfs).open()

    assert caught.value.state == state
    assert DRIVER_STATES[state] in str(caught.value)


def test_a_start_that_fails_without_the_kernel_module_says_so(tmp_path: Path) -> None:
    """AMD SMI then says INIT_ERROR, which alone could be anything."""
    smi = FakeAmdSmi()
    smi.init_error = "AMDSMI_STATUS_INIT_ERROR"
    with pytest.raises(DriverError) as caught:
        driver_of(smi, tmp_path).open()

    assert caught.value.state == "no_amd_driver"


def test_a_library_that_does_not_load_is_a_named_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python library without its libamd_smi.so, where ROCm puts it: a sentence, not a crash; the search path stays as it was."""
    (tmp_path / "amdsmi").mkdir()
    (tmp_path / "amdsmi/__init__.py").write_text("raise KeyError('libamd_smi.so')\n")
    monkeypatch.setattr(amd_device, "ROCM_PYTHON", tmp_path)
    with pytest.raises(DriverError) as caught:
        AmdDriver().open()

    assert caught.value.state == "no_amd_library"
    assert str(tmp_path) not in sys.path


def test_amd_speaks_for_the_node_where_its_library_is_and_nvidias_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA comes first; without any vendor's library NVML says what is missing."""

    def chosen(nvml: bool) -> Any:
        monkeypatch.setattr(drivers, "has_nvml", lambda: nvml)
        return type(drivers.of_this_machine())

    monkeypatch.setattr(amd_device, "ROCM_PYTHON", tmp_path)
    assert chosen(nvml=False) is NvmlDriver
    (tmp_path / "amdsmi").mkdir()
    assert chosen(nvml=False) is AmdDriver
    assert chosen(nvml=True) is NvmlDriver


def test_errors_are_known_by_their_class_and_by_their_number(sysfs: Path) -> None:
    """A busy device may answer later; an argument that a release does not know, or a function that it lacks, never will."""
    smi = FakeAmdSmi()
    gpu = driver_of(smi, sysfs).open()[0]
    reader = gpu.reader(15.0)
    smi.gpus[0]["amdsmi_get_gpu_activity"] = {"error": "AMDSMI_STATUS_RETRY"}
    smi.gpus[0]["amdsmi_get_power_info"] = {"error": "AMDSMI_STATUS_NO_DATA"}
    smi.gpus[0]["amdsmi_get_gpu_vram_usage"] = {"error": "AmdSmiParameterException"}
    for one in smi.gpus:
        del one["amdsmi_get_energy_count"]
    reader.collect(0)
    reasons = dict(zip(GPU, reader.reasons, strict=True))

    assert reasons["gpu_util_pct"] == "timeout"
    assert reasons["power_w"] == "not_found"
    assert reasons["mem_used_bytes"] == "unsupported"
    assert reasons["energy_j_total"] == "unsupported"
    asked = len(smi.asked)
    reader.collect(1)
    assert "0 amdsmi_get_gpu_activity" in smi.asked[asked:]
    assert "0 amdsmi_get_gpu_vram_usage" not in smi.asked[asked:]


def test_a_gpu_that_was_marked_absent_is_read_as_before_once_it_answers(sysfs: Path) -> None:
    """What it cannot answer is `unsupported` again, not what the GPU as a whole was absent for."""
    reader = driver_of(FakeAmdSmi(), sysfs).open()[0].reader(15.0)
    reader.collect(0)
    before = (list(reader.values), list(reader.reasons))
    reader.fail("driver_error")
    assert set(reader.reasons) == {"driver_error"}
    reader.collect(1)

    assert (reader.values, reader.reasons) == before
