"""This machine as a source of ticks, over the fake driver: isolation, deadlines, loss and return."""

import asyncio
import time
from pathlib import Path

import pynvml  # noqa: TID251 - constants of the real module
import pytest

from agents import gpus, kept_driver
from agents.machine import Machine
from agents.nvml_device import NvmlDriver
from agents.source import GPU, HOST, PROCESS, Tick
from tests.agents.fake_nvml import FakeNvml
from wire.metrics import Gpm, of


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait for real back-offs."""
    monkeypatch.setattr(kept_driver, "RETRY_FIRST_S", 0.01)
    monkeypatch.setattr(kept_driver, "RETRY_LAST_S", 0.02)
    monkeypatch.setattr(kept_driver, "_EVENT_WAIT_MS", 20)


def state(machine: Machine) -> str:
    """The driver's state now."""
    return machine.state


def hangs(machine: Machine) -> bool:
    """Whether a driver call is out."""
    return machine.hangs


def reasons(tick: Tick, gpu: int) -> set[str | None]:
    """Why readings of one GPU are absent, but for what cards before Ampere alone tell."""
    return {reason for name, reason in zip(GPU, tick.gpu_reasons[gpu], strict=True) if name != "retired_pages_pending"}


async def test_a_tick_has_every_gpu_the_host_and_the_processes() -> None:
    """Shapes follow the registry; a holder from another pid namespace is shown with reasons, not left out."""
    machine = Machine(NvmlDriver(FakeNvml()))
    await machine.collect()
    tick = await machine.collect()

    assert [facts.index for facts in machine.inventory.gpus] == [0, 1]
    assert machine.inventory.host.driver_version == "580.159.04"
    assert machine.inventory.host.cuda_driver_version == "13.0"
    assert len(tick.gpu) == len(GPU)
    assert all(len(column) == 2 for column in tick.gpu)
    assert reasons(tick, 0) == reasons(tick, 1) == {None}
    assert len(tick.host) == len(HOST)
    assert [(hold.gpu, hold.mem_bytes) for hold in tick.processes.holds] == [(0, 1858076672)]
    assert len(tick.processes.values) == len(PROCESS)
    await machine.close()


async def test_a_gpu_whose_driver_call_hangs_is_late_and_the_rest_goes_on() -> None:
    """Its readings are absent as `timeout`; the tick ends by its deadline; when the call returns so does the GPU."""
    nvml = FakeNvml()
    machine = Machine(NvmlDriver(nvml), deadline_s=0.1)
    await machine.collect()
    machine.events()
    release = nvml.hang(1)
    began = time.monotonic()
    tick = await machine.collect()
    took = time.monotonic() - began

    assert took < 1
    assert reasons(tick, 0) == {None}
    assert reasons(tick, 1) == {"timeout"}
    assert [event.kind for event in machine.events()] == ["driver"]
    tick = await machine.collect()
    assert reasons(tick, 1) == {"timeout"}
    assert hangs(machine)
    release.set()
    while hangs(machine):
        await asyncio.sleep(0.01)
    tick = await machine.collect()
    assert "timeout" not in reasons(tick, 1)
    assert "answers again" in machine.events()[0].text
    await machine.close()


async def test_close_does_not_wait_for_a_hanging_driver() -> None:
    """SIGTERM must end the agent in time whatever the driver does."""
    nvml = FakeNvml()
    machine = Machine(NvmlDriver(nvml), deadline_s=0.05)
    await machine.collect()
    release = nvml.hang(0)
    await machine.collect()
    began = time.monotonic()
    await machine.close()

    assert time.monotonic() - began < 1
    assert machine.hangs
    release.set()


async def test_a_lost_gpu_is_told_once_and_looked_for_until_it_is_back() -> None:
    """Its place in the columns stays; the other GPU is read all the time but for the moment of looking."""
    nvml = FakeNvml()
    machine = Machine(NvmlDriver(nvml))
    await machine.collect()
    inventory = machine.inventory
    machine.events()
    whole = dict(nvml.gpus[1])
    nvml.fail(1, pynvml.NVML_ERROR_GPU_IS_LOST)
    for _ in range(5):
        tick = await machine.collect()
        await asyncio.sleep(0.02)

    assert reasons(tick, 1) == {"gpu_lost"}
    assert "gpu_lost" not in reasons(tick, 0)
    assert [event.kind for event in machine.events()] == ["gpu_lost"]
    assert machine.inventory is inventory
    nvml.gpus[1] = whole
    for _ in range(5):
        tick = await machine.collect()
        await asyncio.sleep(0.02)
    assert reasons(tick, 1) == {None}
    assert [event.kind for event in machine.events()] == ["gpu_back"]
    await machine.close()


async def test_a_driver_that_comes_later_is_found() -> None:
    """Host telemetry goes on meanwhile; the inventory then names the GPUs."""
    nvml = FakeNvml()
    nvml.init_error = pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    machine = Machine(NvmlDriver(nvml))
    tick = await machine.collect()

    assert state(machine) == "no_driver"
    assert "modprobe nvidia" in machine.state_detail
    assert tick.gpu == [[] for _ in GPU]
    assert tick.host[HOST.index("mem_used_bytes")]
    assert [event.kind for event in machine.events()] == ["driver"]
    nvml.init_error = None
    await asyncio.sleep(0.05)
    tick = await machine.collect()
    assert state(machine) == "ok"
    assert len(machine.inventory.gpus) == 2
    assert "again" in machine.events()[0].text
    await machine.close()


async def test_a_driver_that_was_reloaded_is_opened_anew() -> None:
    """Old handles answer "uninitialized" for ever: after a few dead ticks the driver is opened again."""
    nvml = FakeNvml()
    machine = Machine(NvmlDriver(nvml))
    await machine.collect()
    whole = [dict(gpu) for gpu in nvml.gpus]
    for index in (0, 1):
        nvml.fail(index, pynvml.NVML_ERROR_UNINITIALIZED)
    for _ in range(gpus.DEAD_TICKS):
        tick = await machine.collect()

    assert "driver_error" in reasons(tick, 0)
    assert state(machine) == "driver_error"
    nvml.gpus[:] = whole
    for _ in range(3):
        await asyncio.sleep(0.05)
        tick = await machine.collect()
    assert state(machine) == "ok"
    assert reasons(tick, 0) == {None}
    await machine.close()


async def test_an_xid_is_an_event_at_once_and_counts() -> None:
    """The count is a reading like any other from the next tick on."""
    nvml = FakeNvml()
    machine = Machine(NvmlDriver(nvml))
    told: list[float] = []
    machine.notify(lambda: told.append(time.monotonic()))
    await machine.collect()
    nvml.events.put((1, pynvml.nvmlEventTypeXidCriticalError, 79))
    while not told:
        await asyncio.sleep(0.01)
    tick = await machine.collect()

    assert [(event.kind, event.code, event.gpu_uuid) for event in machine.events()] == [("xid", 79, nvml.gpus[1]["uuid"])]
    assert tick.gpu[GPU.index("xid_errors_total")] == [0, 1]
    await machine.close()


async def test_who_holds_a_gpu_that_cannot_be_asked_is_unknown_not_nobody() -> None:
    """A list that is refused and a driver that hangs have a reason each; other GPUs' holders are told all the while."""
    nvml = FakeNvml()
    machine = Machine(NvmlDriver(nvml), deadline_s=0.1)
    tick = await machine.collect()
    assert tick.holds_reasons == [None, None]

    listed = nvml.gpus[0]["processes"]
    nvml.gpus[0]["processes"] = {"error": pynvml.NVML_ERROR_NO_PERMISSION}
    tick = await machine.collect()
    assert (tick.holds_reasons, tick.processes.holds) == (["not_permitted", None], [])
    nvml.gpus[0]["processes"] = listed
    release = nvml.hang(1)
    tick = await machine.collect()
    assert tick.holds_reasons == [None, "timeout"]
    assert [hold.gpu for hold in tick.processes.holds] == [0]

    release.set()
    while hangs(machine):
        await asyncio.sleep(0.01)
    tick = await machine.collect()
    assert tick.holds_reasons == [None, None]
    nvml.fail(0, pynvml.NVML_ERROR_GPU_IS_LOST)
    tick = await machine.collect()
    assert tick.holds_reasons == ["gpu_lost", None]
    await machine.close()


def gpm(tick: Tick, gpu: int) -> dict[str, str | None]:
    """Why the profiling metrics of one GPU are absent, by metric."""
    names = {metric.name for metric in of("gpu") if isinstance(metric.source, Gpm)}
    return {name: reason for name, reason in zip(GPU, tick.gpu_reasons[gpu], strict=True) if name in names}


async def test_profiling_calls_of_two_gpus_take_turns() -> None:
    """Two threads in NVML's profiling calls at once end the process; the GPUs are read in parallel all the same."""
    nvml = FakeNvml()
    nvml.gpm_takes_s = 0.005
    machine = Machine(NvmlDriver(nvml))
    for _ in range(10):
        tick = await machine.collect()

    assert nvml.asked["nvmlGpmMetricsGet"] == 18
    assert nvml.gpm_overlaps == 0
    assert reasons(tick, 0) == reasons(tick, 1) == {None}
    await machine.close()


async def test_a_profiling_call_that_hangs_costs_the_other_gpus_their_profiling_alone() -> None:
    """They wait a moment for their turn, then go on without; afterwards their means begin with a fresh pair of samples."""
    nvml = FakeNvml()
    machine = Machine(NvmlDriver(nvml))
    await machine.collect()
    await machine.collect()
    release = nvml.hang(0, "nvmlGpmSampleGet")
    for _ in range(2):
        tick = await machine.collect()

    assert reasons(tick, 0) == {"timeout"}
    assert set(gpm(tick, 1).values()) == {"timeout"}
    assert reasons(tick, 1) == {None, "timeout"}
    assert tick.gpu_reasons[1].count("timeout") == len(gpm(tick, 1))
    release.set()
    while hangs(machine):
        await asyncio.sleep(0.01)
    tick = await machine.collect()
    assert set(gpm(tick, 1).values()) == {"no_previous"}
    tick = await machine.collect()
    assert reasons(tick, 0) == reasons(tick, 1) == {None}
    await machine.close()


async def test_without_a_driver_the_host_alone_is_read(tmp_path: Path) -> None:
    """An empty /proc is absence with reasons, never a crash."""
    machine = Machine(None, proc=tmp_path, sys=tmp_path)
    tick = await machine.collect()

    found = {name: reason for name, reason in zip(HOST, tick.host_reasons, strict=True) if not name.startswith("shm_")}
    assert set(found.values()) == {"unsupported"}
    assert {tick.host[HOST.index(name)] for name in found} == {None}
    await machine.close()


async def test_a_gpu_keeps_its_number_when_another_falls_off_the_bus() -> None:
    """NVML counts anew; two GPUs with one number would make the hello contradict itself."""
    nvml = FakeNvml()
    machine = Machine(NvmlDriver(nvml))
    await machine.collect()
    lost = dict(nvml.gpus[0])
    nvml.fail(0, pynvml.NVML_ERROR_GPU_IS_LOST)
    await machine.collect()
    del nvml.gpus[0]
    for _ in range(4):
        await asyncio.sleep(0.03)
        tick = await machine.collect()

    assert [(facts.index, facts.uuid) for facts in machine.inventory.gpus] == [(0, lost["uuid"]), (1, nvml.gpus[0]["uuid"])]
    assert reasons(tick, 0) == {"gpu_lost"}
    assert reasons(tick, 1) <= {None, "no_previous"}
    await machine.close()


async def test_a_reloaded_driver_is_a_new_epoch() -> None:
    """Counters begin anew with it, so a new hello must follow though no card changed."""
    nvml = FakeNvml()
    machine = Machine(NvmlDriver(nvml))
    await machine.collect()
    before, whole = machine.inventory, [dict(gpu) for gpu in nvml.gpus]
    for index in (0, 1):
        nvml.fail(index, pynvml.NVML_ERROR_UNINITIALIZED)
    for _ in range(gpus.DEAD_TICKS):
        await machine.collect()
    nvml.gpus[:] = whole
    for _ in range(3):
        await asyncio.sleep(0.05)
        await machine.collect()

    assert machine.inventory == before
    assert machine.inventory is not before
    await machine.close()


async def test_switching_mig_is_told_and_makes_a_new_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server sees another card; an event says when."""
    nvml = FakeNvml()
    machine = Machine(NvmlDriver(nvml), slow_s=0.0)
    await machine.collect()
    nvml.gpus[1]["calls"]["nvmlDeviceGetMigMode()"] = [1, 1]
    await machine.collect()

    assert [facts.mig_mode for facts in machine.inventory.gpus] == [False, True]
    assert [event.text for event in machine.events()] == ["MIG was switched on on GPU 1."]
    await machine.close()
