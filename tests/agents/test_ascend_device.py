"""Ascend NPUs, read by the agent's own machine from a program that prints published answers of npu-smi."""

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import amd_device, ascend_device, drivers, kept_driver, npu_smi
from agents.ascend_device import DETAILS_MAX_AGE_S, AscendDriver, Board
from agents.device import DRIVER_STATES, DriverError
from agents.machine import Machine
from agents.npu_smi import NpuSmiError, Tool
from agents.source import GPU
from tests.agents.ticking import named, until

ANSWERS = Path(__file__).parent.parent / "device_answers"
DETAILS = json.loads((ANSWERS / "npu-smi-details.json").read_text())["answers"]


class NpuSmi:
    """A program that prints what lies in its folder under its arguments, and notes that it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "npu-smi"
        self.path.write_text(
            f'#!/bin/sh\ncd {folder}\necho "$*" >> asked\n'
            'trap "echo asked to end >> asked; ended=1" TERM\n'
            "while [ -e hang ]; do sleep 0.05; done\n"
            '[ -z "$ended" ] || exit 1\n'
            'if [ -e "$*" ]; then cat "$*"; else echo "Error parameter of -t"; exit 1; fi\n'
        )
        self.path.chmod(0o755)

    def prints(self, text: str, arguments: str = "info") -> None:
        """From now on it prints `text`; lines that begin with # are notes of ours."""
        lines = [line for line in text.splitlines(keepends=True) if not line.startswith("#")]
        (self.folder / "new").write_text("".join(lines))
        os.replace(self.folder / "new", self.folder / arguments)

    def serves(self, name: str) -> str:
        """From now on it prints a file of tests/device_answers, which comes back."""
        text = (ANSWERS / name).read_text()
        self.prints(text)
        return text

    def asked(self) -> list[str]:
        """What it was asked."""
        return (self.folder / "asked").read_text().splitlines()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait for real periods."""
    monkeypatch.setattr(kept_driver, "RETRY_FIRST_S", 0.01)
    monkeypatch.setattr(kept_driver, "RETRY_LAST_S", 0.02)
    monkeypatch.setattr(kept_driver, "_EVENT_WAIT_MS", 20)
    monkeypatch.setattr(ascend_device, "PERIOD_S", 0.05)


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[NpuSmi]:
    """The program, with three 910B1; its threads have ended afterwards."""
    made = NpuSmi(tmp_path)
    made.serves("npu-smi-23.0.rc2-910b.txt")
    yield made
    (tmp_path / "hang").unlink(missing_ok=True)
    for thread in threading.enumerate():
        if thread.name == "npu-smi":
            thread.join(10)


async def test_a_machine_reads_the_table_of_910b(tool: NpuSmi) -> None:
    """One chip a card, HBM in its own column; this version lists no processes, which is not nobody."""
    machine = Machine(AscendDriver(tool.path))
    tick = await machine.collect()
    read = named(tick, 2)

    assert [(gpu.index, gpu.name, gpu.pci_bus_id) for gpu in machine.inventory.gpus] == [
        (0, "Ascend 910B1", "0000:C1:00.0"),
        (1, "Ascend 910B1", "0000:01:00.0"),
        (2, "Ascend 910B1", "0000:42:00.0"),
    ]
    assert machine.inventory.gpus[0].mem_total_bytes == 65536 << 20
    assert machine.inventory.host.driver_version == "23.0.rc2"
    assert (read["power_w"], read["temperature_c"], read["gpu_util_pct"]) == (92.7, 48, 0)
    assert (read["mem_used_bytes"], read["mem_total_bytes"]) == (4174 << 20, 65536 << 20)
    assert (read["sm_active"], read["power_limit_w"], read["xid_errors_total"]) == ("unsupported",) * 3
    assert tick.holds_reasons == ["unsupported"] * 3
    await machine.close()


async def test_two_chips_of_a_card_are_two_and_share_its_power(tool: NpuSmi) -> None:
    """Wider columns, a physical number, "-" for the power that the card's first chip tells, processes with a column more."""
    tool.serves("npu-smi-25-910c.txt")
    machine = Machine(AscendDriver(tool.path))
    tick = await machine.collect()

    assert [gpu.name for gpu in machine.inventory.gpus] == ["Ascend910"] * 4
    assert [named(tick, gpu)["power_w"] for gpu in range(4)] == [178.5, "blank", 186.3, "blank"]
    assert [named(tick, gpu)["mem_used_bytes"] for gpu in range(4)] == [mib << 20 for mib in (31877, 3195, 3415, 31877)]
    assert named(tick, 0)["gpu_util_pct"] == 12
    assert [(hold.gpu, hold.pid, hold.mem_bytes) for hold in tick.processes.holds] == [(0, 632268, 197 << 20)]
    assert tick.holds_reasons == [None] * 4
    await machine.close()


async def test_a_module_without_hbm_and_bus_tells_its_ddr(tool: NpuSmi) -> None:
    """Atlas 200I A2: no HBM column, "NA" for the bus."""
    tool.serves("npu-smi-25.2.0-310b.txt")
    machine = Machine(AscendDriver(tool.path))
    read = named(await machine.collect(), 0)

    assert machine.inventory.gpus[0].pci_bus_id is None
    assert (read["mem_used_bytes"], read["mem_total_bytes"]) == (957 << 20, 10810 << 20)
    assert (read["power_w"], read["temperature_c"]) == (10.4, 66)
    await machine.close()


async def test_clocks_memory_and_ecc_come_in_turn(tool: NpuSmi) -> None:
    """One question more with each table; what has not come round is absent, what a card does not tell is unsupported."""
    for kind in ("common", "memory", "ecc"):
        tool.prints(DETAILS[kind], f"info -t {kind} -i 0 -c 0")
        tool.prints("\tNPU ID : 1\n", f"info -t {kind} -i 1 -c 0")
    machine = Machine(AscendDriver(tool.path))
    first = named(await machine.collect(), 0)
    read = named(
        await until(
            machine,
            lambda tick: (
                all(isinstance(named(tick, 0)[name], int | float) for name in ("sm_clock_mhz", "mem_clock_mhz"))
                and named(tick, 0)["ecc_corrected_aggregate_total"] == 3
                and named(tick, 1)["sm_clock_mhz"] == "unsupported"
            ),
        ),
        0,
    )

    assert first["sm_clock_mhz"] == "no_previous"
    assert (read["sm_clock_mhz"], read["sm_clock_max_mhz"], read["mem_clock_mhz"]) == (800, 1800, 1600)
    assert (read["temperature_c"], read["memory_temperature_c"]) == (46, 52)
    assert (read["ecc_corrected_volatile_total"], read["ecc_uncorrected_aggregate_total"]) == (0, 0)
    await machine.close()


def test_an_answer_about_one_chip_that_cannot_be_read_does_not_end_the_asking(
    tool: NpuSmi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The table of all chips goes on being asked for."""
    monkeypatch.setattr(Board, "detail", lambda *words: 1 / 0)
    board = Board(Tool(tool.path))
    board.look()
    board.start()
    try:
        for _ in range(500):
            if tool.asked().count("info") >= 4:
                break
            time.sleep(0.01)
    finally:
        board.stop()

    assert tool.asked().count("info") >= 4
    assert any("printed of one chip" in record.message for record in caplog.records)


def test_details_that_have_grown_old_are_no_readings(tool: NpuSmi) -> None:
    """A question that is no longer answered leaves an absence, not its last answer for ever."""
    tool.prints(DETAILS["common"], "info -t common -i 0 -c 0")
    board = Board(Tool(tool.path))
    board.look()
    board.detail((0, 0), "common")
    reader = ascend_device.AscendReader((0, 0), board)
    clock = GPU.index("sm_clock_mhz")
    reader.collect(time.monotonic())
    assert reader.values[clock] == 800
    board.at += DETAILS_MAX_AGE_S + 60
    reader.collect(board.at)

    assert (reader.values[clock], reader.reasons[clock]) == (None, "timeout")


def test_a_chip_is_known_by_its_die_then_by_its_card_then_by_its_place(tool: NpuSmi) -> None:
    """Names that stay; the tool is asked for them once, not with every opening of the driver."""
    tool.prints(DETAILS["board of a chip"], "info -t board -i 0 -c 0")
    tool.prints(DETAILS["board of a card"], "info -t board -i 1")
    driver = AscendDriver(tool.path)
    names = [npu.facts.uuid for npu in driver.open()]
    driver.close()
    asked = len([line for line in tool.asked() if "board" in line])

    assert names == [
        "NPU-42C711D4-20B03704-4A10C8D4-14CC040A-D2102003",
        "NPU-1023C0000001-0",
        f"NPU-{os.uname().nodename}-7-0",
    ]
    assert [npu.facts.uuid for npu in driver.open()] == names
    assert len([line for line in tool.asked() if "board" in line]) == asked
    driver.close()


async def test_an_npu_that_is_no_longer_listed_is_lost_and_its_health_is_told(tool: NpuSmi) -> None:
    """The others go on; a change of health is an event."""
    machine = Machine(AscendDriver(tool.path))
    await machine.collect()
    text = (ANSWERS / "npu-smi-23.0.rc2-910b.txt").read_text().splitlines(keepends=True)
    tool.prints(
        "".join(text[:-4] + text[-1:]).replace("| 0     910B1               | OK   ", "| 0     910B1               | Alarm")
    )
    tick = await until(machine, lambda tick: set(tick.gpu_reasons[2]) == {"gpu_lost"})
    events = machine.events()

    assert named(tick, 0)["power_w"] == 88.4
    assert "gpu_lost" in [event.kind for event in events]
    assert [event.text for event in events if "health" in event.text] == [
        "NPU 0 chip 0 says that its health is Alarm; it was OK."
    ]
    await machine.close()


def test_one_that_hangs_is_asked_to_end_and_no_other_is_started_until_it_has(tool: NpuSmi) -> None:
    """SIGTERM once, never SIGKILL; the next question waits for the old one's end."""
    (tool.folder / "hang").touch()
    asker = Tool(tool.path, deadline_s=0.5)
    with pytest.raises(NpuSmiError) as caught:
        asker.ask()
    assert caught.value.state == "timeout"
    with pytest.raises(NpuSmiError, match="still not ended"):
        asker.ask()
    (tool.folder / "hang").unlink()
    text, began = "", time.monotonic()
    while not text and time.monotonic() - began < 30:
        with contextlib.suppress(NpuSmiError):
            text = asker.ask()

    assert "910B1" in text
    assert tool.asked() == ["info", "asked to end", "info"]


@pytest.mark.parametrize(
    ("printed", "state"),
    [
        ("dcmi module initialize failed. ret is -8005\n", "no_npu_driver"),
        ("a table of some other day\n", "unknown_layout"),
        ("", "unknown_layout"),
    ],
)
def test_what_is_no_table_is_a_named_state(tool: NpuSmi, printed: str, state: str) -> None:
    """A driver that does not run, and a layout that nobody knows: a sentence with a remedy, not a crash."""
    tool.prints(printed)
    with pytest.raises(DriverError) as caught:
        AscendDriver(tool.path).open()

    assert caught.value.state == state
    assert DRIVER_STATES[state] in str(caught.value)


def test_a_row_that_does_not_fit_its_head_is_an_unknown_layout(tool: NpuSmi) -> None:
    """A column more in the rows than in the head: numbers must not land in their neighbours' places."""
    text = (ANSWERS / "npu-smi-23.0.rc2-910b.txt").read_text()
    with pytest.raises(NpuSmiError) as caught:
        npu_smi.table(text.replace("| 88.4        46 ", "| 88.4   3    46 "))

    assert caught.value.state == "unknown_layout"


def test_the_table_of_ascend_950_has_other_names_and_no_chips() -> None:
    """One chip a card, its second row begins with empty cells; put together from how the driver's source prints it."""
    chip = npu_smi.table(
        "| npu-smi 25.7.rc1 Version: 25.7.rc1 |\n"
        "| NPU ID | Name             | Health        | Power(W)    Temp(C)           Hugepages-Usage(page) |\n"
        "|        |                  | Bus-Id        | NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)         |\n"
        "+========+==================+===============+=====================================================+\n"
        "| 1      | Ascend950PR      | OK            | 195.7       56                0     / 0             |\n"
        "|        |                  | 0000:61:00.0  | 3           0     / 0         3431  / 131072        |\n"
    ).chips[0]

    assert (chip.npu, chip.chip, chip.name, chip.bus) == (1, 0, "Ascend950PR", "0000:61:00.0")
    assert (chip.power_w, chip.temperature_c, chip.core_pct, chip.used_mib, chip.total_mib) == (195.7, 56, 3, 3431, 131072)


def test_columns_may_change_their_order() -> None:
    """They are known by their names."""
    text = (ANSWERS / "npu-smi-23.0.rc2-910b.txt").read_text()
    moved = text.replace("Power(W)    Temp(C) ", "Temp(C)    Power(W) ").replace("| 88.4        46 ", "| 46        88.4 ")
    chip = npu_smi.table(moved).chips[0]

    assert (chip.power_w, chip.temperature_c) == (88.4, 46)


def test_a_tool_that_is_not_there_any_more_is_a_named_state(tmp_path: Path) -> None:
    """The driver was removed while the agent ran."""
    with pytest.raises(DriverError) as caught:
        AscendDriver(tmp_path / "npu-smi").open()

    assert caught.value.state == "no_npu_tool"


def test_ascend_speaks_for_the_node_where_only_its_tool_is(tool: NpuSmi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without NVIDIA's and AMD's libraries; AMD comes before it."""
    monkeypatch.setattr(drivers, "has_nvml", lambda: False)
    monkeypatch.setattr(amd_device, "ROCM_PYTHON", tool.folder)
    monkeypatch.setenv("PATH", str(tool.folder))
    assert type(drivers.of_this_machine()) is AscendDriver
    (tool.folder / "amdsmi").mkdir()

    assert type(drivers.of_this_machine()) is amd_device.AmdDriver
