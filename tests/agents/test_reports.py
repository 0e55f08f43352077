"""Steps that training scripts report, over a real socket: who sent them, what they come to, and what is dropped."""

import array
import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents import reports
from agents.collectors.processes import PROCESS_METRICS, ProcessCollector, Reading
from agents.report_socket import MAX_BYTES, ReportSocket, ReportSocketError
from agents.reports import BURST, HOLD_MAX_S, HOLD_MIN_S, MAX_SENDERS, Reports

CLIENTS = Path(__file__).resolve().parents[2] / "clients"
ME = os.getpid()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the socket shall stand: a folder that is not there yet."""
    return tmp_path / "run" / "report.sock"


@pytest.fixture
def received(path: Path) -> Iterator[Reports]:
    """Reports that listen there."""
    found = Reports((path,))
    yield found
    found.close()


def sender(path: Path) -> socket.socket:
    """A socket to the agent that never blocks."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    link.setblocking(False)
    link.connect(str(path))
    return link


def tell(path: Path, **told: Any) -> None:
    """One datagram of this process."""
    with sender(path) as link:
        link.send(json.dumps(told).encode())


async def until(holds: Callable[[], bool]) -> None:
    """Let the event loop run until `holds`."""
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)


async def heard(received: Reports, path: Path, **told: Any) -> None:
    """Send a datagram and wait until it was taken or refused."""
    received.attach()
    before = received.received
    tell(path, **told)
    await until(lambda: received.received > before)


def values(reading: Reading) -> dict[str, object]:
    """Values or reasons of one process by metric."""
    pairs = zip(PROCESS_METRICS, reading.values, reading.reasons, strict=True)
    return {metric.name: reason if value is None else value for metric, value, reason in pairs}


async def test_a_real_script_reports_its_steps_and_they_become_readings_of_its_process(received: Reports, path: Path) -> None:
    """A second process with the real client; the kernel says which, and its figures follow from what it told."""
    script = (
        "import sys, time, fettle_report\n"
        "for line in sys.stdin:\n"
        "    fettle_report.SEND_S = 0\n"
        "    time.sleep(0.05)\n"
        "    fettle_report.step(samples=10, loss=float(line), data_wait_s=0.01, loss_scale=1024)\n"
        "    print('stepped', flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(CLIENTS), "FETTLE_REPORT_SOCKET": str(path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        received.attach()
        collector = ProcessCollector(reports=received)
        readings = []
        for count, losses in enumerate((["5"], ["4", "2.5"]), 1):
            for loss in losses:
                child.stdin.write(f"{loss}\n")
                child.stdin.flush()
                await asyncio.to_thread(child.stdout.readline)
            steps = [1, 3][count - 1]
            await until(lambda steps=steps: received.received >= steps)  # type: ignore[misc]
            (reading,) = collector.collect([child.pid], asyncio.get_running_loop().time())
            readings.append(values(reading))
    finally:
        child.stdin.close() if child.stdin else None
        child.wait()
        child.stdout.close() if child.stdout else None

    first, second = readings
    assert (first["steps_total"], first["step_time_s"], first["loss"]) == (1, "no_previous", 5.0)
    assert (second["steps_total"], second["loss"], second["loss_scale"]) == (3, 2.5, 1024.0)
    assert second["step_time_s"] >= 0.05  # type: ignore[operator]
    assert second["data_wait_s"] == pytest.approx(0.01)
    assert second["samples_per_s"] == pytest.approx(10 / second["step_time_s"])  # type: ignore[operator]
    assert (second["alloc_peak_bytes"], second["alloc_retries_total"]) == ("not_found", "not_found")


async def test_means_are_over_the_steps_between_two_ticks_whatever_was_lost_between(received: Reports, path: Path) -> None:
    """Sums since the start: a datagram that never came takes nothing along."""
    await heard(received, path, steps=1)
    received.of(ME, 5, 0.0)
    await heard(received, path, steps=11, timed=10, step_s=2.0, waits=10, wait_s=0.5, samples=640, sampled_s=2.0, loss=1.5)
    found = received.of(ME, 5, 0.0)

    assert (found["steps_total"], found["step_time_s"], found["data_wait_s"], found["loss"]) == (11, 0.2, 0.05, 1.5)
    assert found["samples_per_s"] == 320
    await heard(received, path, steps=12, timed=11, step_s=6.0, waits=11, wait_s=3.5, samples=704, sampled_s=6.0)
    found = received.of(ME, 5, 0.0)
    assert (found["step_time_s"], found["data_wait_s"], found["samples_per_s"]) == (4.0, 3.0, 16.0)


async def test_a_step_that_takes_long_keeps_the_last_ones_figures_and_a_stuck_one_does_not(received: Reports, path: Path) -> None:
    """Counters stay; means and the loss are unknown once three steps' time has gone by."""
    await heard(received, path, steps=1)
    received.of(ME, 5, 0.0)
    await heard(received, path, steps=2, timed=1, step_s=20.0, loss=1.0)
    now = asyncio.get_running_loop().time()
    assert received.of(ME, 5, now)["step_time_s"] == 20.0

    assert received.of(ME, 5, now + 50)["step_time_s"] == 20.0
    late = received.of(ME, 5, now + 70)
    assert late["steps_total"] == 2
    assert "step_time_s" not in late
    assert "loss" not in late
    assert HOLD_MIN_S < 50 < HOLD_MAX_S


async def test_the_longest_step_is_that_of_every_datagram_since_the_tick_before(received: Reports, path: Path) -> None:
    """Two of them may come within a second; what no tick has asked for yet is not forgotten."""
    await heard(received, path, steps=1, step_max_s=0.0)
    assert received.of(ME, 5, 0.0)["step_time_max_s"] == "not_found"
    await heard(received, path, steps=5, timed=4, step_s=9.0, step_max_s=7.0)
    await heard(received, path, steps=6, timed=5, step_s=10.0, step_max_s=1.0)

    assert received.of(ME, 5, 0.0)["step_time_max_s"] == 7.0
    assert received.of(ME, 5, 0.0)["step_time_max_s"] == 7.0
    await heard(received, path, steps=7, timed=6, step_s=11.5, step_max_s=1.5)
    assert received.of(ME, 5, 0.0)["step_time_max_s"] == 1.5


async def test_a_checkpoint_is_no_step(received: Reports, path: Path) -> None:
    """The time since the last step goes on, and a program that only saves has none."""
    await heard(received, path, steps=0, checkpoints=1, checkpoint_s=2.0, since_checkpoint_s=0.0)
    found = received.of(ME, 5, asyncio.get_running_loop().time())
    assert (found["checkpoints_total"], "since_step_s" in found) == (1, False)

    await heard(received, path, steps=1, loss=1.0)
    stepped = asyncio.get_running_loop().time()
    await heard(received, path, steps=1, loss=1.0, checkpoints=2, since_checkpoint_s=0.0)
    late = received.of(ME, 5, stepped + 1000)
    assert late["since_step_s"] == pytest.approx(1000, abs=1)
    assert late["since_checkpoint_s"] == pytest.approx(1000, abs=1)
    assert "loss" not in late


async def test_what_a_program_says_of_its_run_becomes_labels_of_its_process(received: Reports, path: Path) -> None:
    """They stand until others are told; another process under the pid has none."""
    await heard(received, path, steps=1, described={"layers": 32, "user": "ann"})
    await heard(received, path, steps=2)
    received.of(ME, 5, 0.0)
    assert received.labels(ME, "ann") == {"told.layers": "32"}
    await heard(received, path, steps=2, described={"layers": 40})
    assert received.labels(ME, "ann") == {"told.layers": "40"}

    assert received.of(ME, 6, 0.0) == {}
    assert received.labels(ME, "ann") == {}


async def test_a_loss_that_is_no_number_is_told_as_such(received: Reports, path: Path) -> None:
    """It is absent with its reason, and counted."""
    await heard(received, path, steps=1, loss=None, loss_not_finite=1)
    found = received.of(ME, 5, 0.0)

    assert (found["loss"], found["loss_not_finite_total"]) == ("not_a_number", 1)


async def test_a_program_that_begins_anew_has_no_means_over_the_change(received: Reports, path: Path) -> None:
    """Whether the pid is another process's or the module was loaded again."""
    await heard(received, path, steps=100, timed=99, step_s=99.0)
    received.of(ME, 5, 0.0)
    await heard(received, path, steps=2, timed=1, step_s=1.0)

    assert received.of(ME, 5, 0.0)["step_time_s"] == "no_previous"
    assert received.of(ME, 6, 0.0) == {}


async def test_a_process_that_reports_but_holds_no_gpu_is_not_shown(received: Reports, path: Path) -> None:
    """Readings are of the processes that are asked for."""
    await heard(received, path, steps=1)

    assert ProcessCollector(reports=received).collect([], 0.0) == []
    (reading,) = ProcessCollector(reports=received).collect([os.getppid()], 0.0)
    assert values(reading)["steps_total"] == "not_found"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\x00garbage",
        b"{}",
        b"[1,2,3]",
        b'{"steps": -1}',
        b'{"steps": 1, "step_s": NaN}',
        b'{"steps": 1e400}',
        b'{"steps": 99999999999999999999}',
        b'{"steps": 1, "step_s": "1"}',
        b'{"steps": 1, "loss": [1]}',
        b'{"steps": 1, "described": {"layers": [1]}}',
        b'{"steps": 1, "described": {"quant": "' + b"a" * 41 + b'"}}',
        json.dumps({"steps": 1, "described": {str(number): 1 for number in range(65)}}).encode(),
        b"[" * MAX_BYTES,
        b'{"steps": 1, "x": "' + b"a" * MAX_BYTES + b'"}',
    ],
)
async def test_a_hostile_datagram_is_dropped_and_counted(received: Reports, path: Path, data: bytes) -> None:
    """And the next good one is taken."""
    received.attach()
    with sender(path) as link:
        link.send(data)
    await until(lambda: received.refused == 1)
    assert received.of(ME, 5, 0.0) == {}
    await heard(received, path, steps=1)

    assert received.of(ME, 5, 0.0)["steps_total"] == 1


async def test_files_that_a_sender_attaches_are_not_taken(received: Reports, path: Path) -> None:
    """They would fill the agent's table of open files."""
    received.attach()
    with open("/dev/null") as file, sender(path) as link:
        before = len(os.listdir("/proc/self/fd"))
        for number in range(20):
            fds = array.array("i", [file.fileno()] * 10)
            link.sendmsg([json.dumps({"steps": number + 1}).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            await until(lambda number=number: received.received == number + 1)  # type: ignore[misc]
        after = len(os.listdir("/proc/self/fd"))

    assert after == before
    assert received.of(ME, 5, 0.0)["steps_total"] == 20


async def test_a_flood_is_left_to_the_kernel_until_the_second_is_over(
    received: Reports, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent goes on with its own work, says so once, and hears everybody again afterwards."""
    monkeypatch.setattr(reports, "RATE", 5)
    caplog.set_level(logging.WARNING)
    received.attach()
    sent = 0
    with sender(path) as link:
        for number in range(200):
            try:
                link.send(json.dumps({"steps": number + 1}).encode())
                sent += 1
            except BlockingIOError:
                await asyncio.sleep(0)
    first = received.received
    assert first <= reports.RATE + BURST
    assert first < 200
    before = received.received
    async with asyncio.timeout(5):
        while received.received == before:
            with sender(path) as link:
                try:
                    link.send(b'{"steps": 999}')
                except BlockingIOError:
                    await asyncio.sleep(0.05)
            await asyncio.sleep(0.01)

    assert len(caplog.records) == 1


async def test_more_senders_than_a_node_has_do_not_push_out_those_that_hold_a_gpu(received: Reports) -> None:
    """Memory is bounded; who was never asked for goes first."""
    for pid in range(1, MAX_SENDERS + 1):
        received._take(pid, b'{"steps": 1}', 0.0)
    received.of(1, 5, 0.0)
    for pid in range(MAX_SENDERS + 1, 2 * MAX_SENDERS):
        received._take(pid, b'{"steps": 1}', 0.0)

    assert received.of(1, 5, 0.0)["steps_total"] == 1
    assert received.of(2, 5, 0.0) == {}
    assert received.refused == 0
    assert len(received._senders) == MAX_SENDERS
    for pid in list(received._senders):
        received.of(pid, 5, 0.0)
    received._take(9999, b'{"steps": 1}', 1.0)
    assert received.of(9999, 5, 0.0) == {}
    assert received.refused == 1


async def test_a_sender_that_the_agent_cannot_place_is_dropped(received: Reports) -> None:
    """The kernel gives 0 for a process of a pid namespace beside the agent's own."""
    received._take(0, b'{"steps": 1}', 0.0)

    assert received.refused == 1


def test_everybody_may_write_to_the_socket_and_nobody_may_replace_it(path: Path) -> None:
    """0666 in a folder of 0755, whatever the umask; it goes when the agent does."""
    before = os.umask(0o077)
    try:
        link = ReportSocket(path)
    finally:
        os.umask(before)

    assert path.stat().st_mode & 0o777 == 0o666
    assert path.parent.stat().st_mode & 0o777 == 0o755
    link.close()
    assert not path.exists()


def test_a_socket_that_a_dead_agent_left_is_replaced_and_a_living_ones_is_not(path: Path) -> None:
    """kill -9 leaves it behind."""
    first = ReportSocket(path)
    with pytest.raises(ReportSocketError, match="another agent listens"):
        ReportSocket(path)
    first._socket.close()
    second = ReportSocket(path)
    first.close()

    assert path.exists()
    second.close()


def test_what_is_no_socket_is_not_touched(path: Path) -> None:
    """A file of somebody's, or a link to one."""
    path.parent.mkdir()
    path.write_text("mine")
    with pytest.raises(ReportSocketError, match="is no socket"):
        ReportSocket(path)

    assert path.read_text() == "mine"
    with pytest.raises(ReportSocketError, match="the folder above it is not there"):
        ReportSocket(path.parent / "a" / "b" / "report.sock")


async def test_without_a_place_to_listen_the_agent_goes_on_and_tries_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It runs without root and without a session too; the first place that can be had is taken, and trouble is said once."""
    monkeypatch.setattr(reports, "_TRY_S", 0.0)
    received = Reports((path.parent / "a" / "report.sock", path.parent / "b" / "report.sock"))
    received.attach()
    received.attach()
    assert "a: the folder above it is not there" in received.trouble
    assert len(caplog.records) == 1

    path.parent.mkdir()
    (path.parent / "a").write_text("in the way")
    await heard(received, path.parent / "b" / "report.sock", steps=1)
    assert received.trouble == ""
    received.close()
    received.attach()
    assert not (path.parent / "b" / "report.sock").exists()


async def test_a_command_that_fettle_starts_reports_to_fettle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment names the socket, which is gone afterwards; one that reports to an agent already is left alone."""
    monkeypatch.delenv(reports.PLACE, raising=False)
    with reports.private() as received:
        assert received is not None
        place = Path(os.environ[reports.PLACE])
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "import fettle_report as f; f.step()", env={**os.environ, "PYTHONPATH": str(CLIENTS)}
        )
        await child.wait()
        await until(lambda: received.received == 1)
        assert received.of(child.pid, 1, 0.0)["steps_total"] == 1

    assert reports.PLACE not in os.environ
    assert not place.parent.exists()
    monkeypatch.setenv(reports.PLACE, "/run/fettle/report.sock")
    with reports.private() as received:
        assert received is None
    assert os.environ[reports.PLACE] == "/run/fettle/report.sock"
