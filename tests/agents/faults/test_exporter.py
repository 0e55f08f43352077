"""A real agent on a stub dcgm-exporter (V03 to V08, V12, V15, V19, V20): blanks, spikes and text never become numbers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.driven import Driver, absent, agent, latest, texts, ticks
from tests.agents.exporter import Exporter, answer, exporter
from tests.agents.server import Server, running, until

WAS = answer("dcgm-exporter-4.5.prom")
PROFILED = ("gr_engine_active", "tensor_active", "dram_active")


@pytest.fixture
def stub() -> Iterator[Exporter]:
    """A running exporter of two GPUs."""
    with exporter() as one:
        one.body = WAS.encode()
        yield one


def changed(values: dict[str, str], gpu: int = 0) -> bytes:
    """The exporter's answer with other values of one GPU, by the beginning of their names."""
    lines = []
    for line in WAS.splitlines():
        for name, value in values.items():
            if line.startswith(name) and f'gpu="{gpu}"' in line:
                line = f"{line.rpartition(' ')[0]} {value}"
        lines.append(line)
    return ("\n".join(lines) + "\n").encode()


def words(stub: Exporter) -> tuple[str, ...]:
    """The flags that make an agent read it."""
    return ("--source", "dcgm", "--dcgm", stub.url)


def driver(directory: Path) -> Driver:
    """The library is there too, and is not asked: an exporter speaks for the GPUs."""
    return Driver(directory / "answers.json", "h200-driver-580.json")


def reason(server: Server, name: str) -> str | None:
    """Why GPU 0 has no such reading now."""
    return absent(server).get((0, name))


async def test_blanks_spikes_and_text_are_reasons_and_the_batch_survives(stub: Exporter, tmp_path: Path) -> None:
    """V03, V04, V05, V06, V07: each sentinel before any unit is applied; the other GPU and other readings are not touched."""
    async with running() as server, agent(driver(tmp_path), server, tmp_path, *words(stub)):
        await ticks(server)
        assert latest(server, "power_w")[0] == pytest.approx(612.345)
        stub.body = changed(
            {
                "DCGM_FI_DEV_POWER_USAGE": "140737488355330.0",  # not supported
                "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "9223372036854775794",
                "DCGM_FI_DEV_GPU_UTIL": "2147483632",
                "DCGM_FI_DEV_GPU_TEMP": "644245923",
                "DCGM_FI_DEV_SM_CLOCK": "[N/A]",
                "DCGM_FI_PROF_DRAM_ACTIVE": "1.2",
            }
        )
        await until(lambda: latest(server, "power_w")[0] is None, 20)
        await ticks(server, 1)

        assert reason(server, "power_w") == "unsupported"
        assert reason(server, "energy_j_total") == reason(server, "gpu_util_pct") == "blank"
        assert reason(server, "temperature_c") == reason(server, "dram_active") == "out_of_range"
        assert reason(server, "sm_clock_mhz") is not None
        assert latest(server, "mem_used_bytes")[0] is not None
        assert latest(server, "power_w")[1] == pytest.approx(76.21)


async def test_profiling_that_went_blank_is_told_with_what_brings_it_back(stub: Exporter, tmp_path: Path) -> None:
    """V15, V20: noughts on a busy GPU, or blanks, until somebody resumes DCGM's profiling: an event names the remedy, once."""
    async with running() as server, agent(driver(tmp_path), server, tmp_path, *words(stub)):
        await ticks(server)
        assert not any("profiling" in text for text in texts(server))
        stub.body = changed({"DCGM_FI_PROF_": "140737488355328.0", "DCGM_FI_DEV_GPU_TEMP": "61"})
        await until(lambda: any("dcgmi profile --resume" in text for text in texts(server)), 20)
        assert {reason(server, name) for name in PROFILED} == {"blank"}
        assert latest(server, "power_w")[0] is not None

        stub.body = changed({"DCGM_FI_DEV_GPU_TEMP": "62"})
        await until(lambda: any("profiling metrics of this GPU again" in text for text in texts(server)), 20)
        assert latest(server, "dram_active")[0] is not None
        assert sum("dcgmi profile --resume" in text for text in texts(server)) == 1


async def test_the_units_of_old_and_new_names_come_from_the_registry_and_a_last_code_is_no_counter(
    stub: Exporter, tmp_path: Path
) -> None:
    """V08, V12: mJ, MiB and percent become J, bytes and shares; the gauge of the last XID is an event when it changes."""
    async with running() as server, agent(driver(tmp_path), server, tmp_path, *words(stub)):
        await ticks(server)
        assert latest(server, "mem_used_bytes")[0] == 68124 << 20
        stub.body = changed({"DCGM_FI_DEV_XID_ERRORS": "94"})
        await until(lambda: [event.code for event in server.events if event.kind == "xid"] == [94], 20)
        await until(lambda: latest(server, "xid_errors_total")[0] == 1, 20)
        await ticks(server)

        assert [event.code for event in server.events if event.kind == "xid"] == [94]
        assert latest(server, "xid_errors_total") == [1, 0]


@pytest.mark.slow
async def test_an_exporter_that_hangs_or_ends_costs_its_readings_and_no_tick(stub: Exporter, tmp_path: Path) -> None:
    """D03: every second goes on with the host; the readings are late, and after a while the exporter is no driver any more."""
    async with running() as server, agent(driver(tmp_path), server, tmp_path, *words(stub)):
        await ticks(server)
        stub.hold.clear()
        await until(lambda: latest(server, "power_w") == [None, None], 40)
        before = server.batches[-1].t
        await ticks(server, 4)
        assert server.batches[-1].t - before <= 5
        assert reason(server, "power_w") in ("timeout", "driver_error")

        stub.hold.set()
        await until(lambda: latest(server, "power_w")[0] is not None, 40)
