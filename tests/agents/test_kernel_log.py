"""The kernel's log from a file, a pipe, or a journalctl of ours; never this machine's own."""

import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.kernel_lines import Line, Lines
from agents.kernel_log import KernelLog
from agents.kernel_records import Kmsg, Record, _Split

XID = "NVRM: Xid (PCI:0000:19:00): {code}, pid=77, name=python, Ch 00000008"


def record(code: int, seq: int = 1, facility: int = 0, us: int = 1_000_000) -> str:
    """A record as /dev/kmsg gives it, with the dictionary that may follow."""
    return f"{facility << 3 | 3},{seq},{us},-;{XID.format(code=code)}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:19:00.0\n"


class Told:
    """What a log told in all."""

    def __init__(self, log: KernelLog) -> None:
        self.log = log
        self.lines: list[Line] = []
        self.times: list[float | None] = []

    def codes(self) -> list[int | None]:
        """Codes so far."""
        for line, at in self.log.take():
            self.lines.append(line)
            self.times.append(at)
        return [line.code for line in self.lines]


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc of one boot."""
    root = tmp_path / "proc"
    (root / "sys/kernel/random").mkdir(parents=True)
    (root / "sys/kernel/random/boot_id").write_text("boot-1\n")
    return root


@pytest.fixture
def begun(proc: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Told]]:
    """Starts logs and ends them; no journalctl is found unless a test says so."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("agents.kernel_log._IDLE_S", 0.02)
    logs = []

    def start(path: Path, mark: Path | None = None) -> Told:
        log = KernelLog(path, mark, proc)
        log.start(lambda: None)
        logs.append(log)
        return Told(log)

    yield start
    for log in logs:
        log.close()


def until(condition: Callable[[], bool]) -> None:
    """Wait for the thread."""
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come")


def reading(told: Told) -> None:
    """Wait until the log is read."""
    until(lambda: told.log.is_read)
    time.sleep(0.1)  # it stands at the log's end


def write(path: Path, text: str) -> None:
    """Append to the log."""
    with path.open("a") as file:
        file.write(text)


def test_it_begins_with_what_comes_from_now_on(tmp_path: Path, begun: Callable[..., Told]) -> None:
    """An agent that never ran here must not report last month's faults."""
    log = tmp_path / "kmsg"
    write(log, record(13, 1))
    told = begun(log)
    reading(told)
    write(log, record(79, 2))
    until(lambda: told.codes() == [79])

    assert told.lines[0] == Line("xid", ("0000:19:00",), 79, pid=77, name="python")
    assert told.times == [None]


def test_what_came_while_the_agent_was_away_is_told_with_its_time(tmp_path: Path, begun: Callable[..., Told]) -> None:
    """The mark says how far it had read; a restart repeats nothing and misses nothing."""
    log, mark = tmp_path / "kmsg", tmp_path / "mark"
    write(log, record(13, 1))
    first = begun(log, mark)
    reading(first)
    write(log, record(31, 2))
    until(lambda: first.codes() == [31])
    first.log.close()
    write(log, record(48, 3, us=int((time.monotonic() - 5) * 1e6)))
    second = begun(log, mark)
    until(lambda: second.codes() == [48])

    assert second.times[0] == pytest.approx(time.time() - 5, abs=2)
    until(lambda: mark.read_text() == "boot-1 3\n")


def test_a_start_that_saw_nothing_new_is_remembered_too(tmp_path: Path, begun: Callable[..., Told]) -> None:
    """Old records are passed over for ever, and what comes after that start is not."""
    log, mark = tmp_path / "kmsg", tmp_path / "mark"
    write(log, record(13, 1))
    first = begun(log, mark)
    until(mark.exists)
    first.log.close()
    write(log, record(48, 2))
    second = begun(log, mark)

    until(lambda: second.codes() == [48])
    assert first.codes() == []


def test_after_a_reboot_all_of_the_new_boot_is_news(tmp_path: Path, proc: Path, begun: Callable[..., Told]) -> None:
    """A GPU that is missing since the boot was told of before the agent began."""
    log, mark = tmp_path / "kmsg", tmp_path / "mark"
    mark.write_text("boot-0 9000\n")
    write(log, record(79, 5))
    told = begun(log, mark)

    until(lambda: told.codes() == [79])
    until(lambda: mark.read_text() == "boot-1 5\n")


def test_records_that_a_program_wrote_do_not_count(tmp_path: Path, begun: Callable[..., Told]) -> None:
    """Who may write to /dev/kmsg could drain a fleet otherwise; the kernel marks such records with another facility."""
    log = tmp_path / "kmsg"
    log.touch()
    told = begun(log)
    reading(told)
    write(log, record(79, 1, facility=1) + "garbage\n;\n3,x,y,-;NVRM: Xid (PCI:0000:19:00): 79\n" + record(43, 2))

    until(lambda: told.codes() == [43])


def test_a_pipe_is_read_like_the_device(tmp_path: Path, begun: Callable[..., Told]) -> None:
    """It blocks nobody while nobody writes, and an escaped newline is one."""
    fifo = tmp_path / "kmsg"
    os.mkfifo(fifo)
    told = begun(fifo)
    until(lambda: told.log.is_read)
    lost = r"3,7,9,-;NVRM: The NVIDIA GPU 0000:b3:00.0\x0aNVRM: (PCI ID: 10de:26b5) has\x0aNVRM: fallen off the bus and is"
    with fifo.open("w") as pipe:
        pipe.write(lost + "\n")
    until(lambda: told.codes() == [None])

    assert told.lines == [Line("lost", ("0000:b3:00",))]


def journalctl(folder: Path, body: str) -> None:
    """An executable of that name."""
    folder.mkdir()
    file = folder / "journalctl"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)


def test_where_the_device_may_not_be_read_the_journal_is(
    tmp_path: Path, begun: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entries are JSON, texts that are no UTF-8 are lists of bytes; the program is asked to follow the kernel from now on."""
    entries = [
        '{"MESSAGE":"NVRM: Xid (PCI:0000:19:00): 31, pid=77, name=python","SYSLOG_FACILITY":"0","__CURSOR":"s=1"}',
        '{"MESSAGE":"NVRM: Xid (PCI:0000:19:00): 32, pid=77, name=x","SYSLOG_FACILITY":"1"}',
        "no json",
        f'{{"MESSAGE":{list(b"NVRM: Xid (PCI:0000:19:00): 43, pid=5, name=" + bytes([255]))}}}',
    ]
    said = "\n".join(f"echo '{entry}'" for entry in entries)
    journalctl(tmp_path / "bin", f'echo "$@" > {tmp_path}/words\n{said}\nexec /bin/sleep 60')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    told = begun(tmp_path / "absent")
    until(lambda: told.codes() == [31, 43])

    assert (tmp_path / "words").read_text() == "-k -f -n 0 -o json\n"
    assert told.log.trouble == ""


def test_a_log_that_nobody_can_read_says_what_to_do(tmp_path: Path, begun: Callable[..., Told]) -> None:
    """Both ways are named; nothing is told, and nothing ends."""
    told = begun(tmp_path / "absent")
    until(lambda: "journalctl" in told.log.trouble)

    assert "CAP_SYSLOG" in told.log.trouble
    assert not told.log.is_read


def test_closing_ends_a_journalctl_that_would_go_on(
    tmp_path: Path, begun: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process of ours outlives the agent."""
    journalctl(tmp_path / "bin", f"echo $$ > {tmp_path}/pid\nexec /bin/sleep 60")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    told = begun(tmp_path / "absent")
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip() != "")
    told.log.close()
    pid = int((tmp_path / "pid").read_text())

    until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_line_that_cannot_be_read_costs_itself_alone(
    tmp_path: Path, begun: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were read with it are told, and the log is read on."""
    read = Lines.read

    def stumbles(lines: Lines, message: str) -> Line | None:
        return read(lines, message) if ": 48," not in message else 1 / 0  # type: ignore[return-value]

    monkeypatch.setattr(Lines, "read", stumbles)
    log = tmp_path / "kmsg"
    write(log, "")
    told = begun(log)
    reading(told)
    write(log, record(31, 1) + record(48, 2) + record(79, 3))
    until(lambda: told.codes() == [31, 79])
    write(log, record(13, 4))
    until(lambda: told.codes() == [31, 79, 13])


@pytest.mark.parametrize(
    "odd",
    [
        "3,5," + "9" * 400 + f",-;{XID.format(code=48)}",
        "3," + "9" * 400 + f",7,-;{XID.format(code=48)}",
        "9" * 5000 + f",5,7,-;{XID.format(code=48)}",
        f"3,-5,7,-;{XID.format(code=48)}",
    ],
)
def test_a_record_with_a_number_that_no_kernel_has_costs_itself_alone(
    tmp_path: Path, begun: Callable[..., Told], odd: str
) -> None:
    """While what was missed is read, where the time counts, and later; it is no mark that all that follows would lie before."""
    log, mark = tmp_path / "kmsg", tmp_path / "mark"
    mark.write_text("boot-0 1\n")
    write(log, record(31, 1) + odd + "\n" + record(79, 2))
    told = begun(log, mark)
    until(lambda: told.codes() == [31, 79])
    write(log, odd + "\n" + record(13, 3))
    until(lambda: told.codes() == [31, 79, 13])
    until(lambda: mark.read_text() == "boot-1 3\n")
    told.log.close()
    write(log, record(43, 4))
    later = begun(log, mark)
    until(lambda: later.codes() == [43])

    assert told.log.trouble == ""


def test_a_mark_that_no_kernel_made_hides_nothing_that_comes(tmp_path: Path, begun: Callable[..., Told]) -> None:
    """It is as if there were none."""
    log, mark = tmp_path / "kmsg", tmp_path / "mark"
    mark.write_text("boot-1 " + "9" * 400)
    write(log, record(31, 1))
    told = begun(log, mark)
    until(lambda: mark.read_text() == "boot-1 1\n")
    write(log, record(79, 2))

    until(lambda: told.codes() == [79])


def test_a_pipe_in_place_of_the_mark_holds_nobody_up(tmp_path: Path, begun: Callable[..., Told]) -> None:
    """Its writer never comes; the log is read from now on, and the mark is made in its place."""
    log, mark = tmp_path / "kmsg", tmp_path / "mark"
    os.mkfifo(mark)
    write(log, record(31, 1))
    told = begun(log, mark)
    until(mark.is_file)
    write(log, record(79, 2))

    until(lambda: told.codes() == [79])


def test_an_entry_of_the_journal_that_nests_without_end_costs_itself_alone(
    tmp_path: Path, begun: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs may put what they like into the journal; those after it are read."""
    (tmp_path / "deep").write_text('{"MESSAGE":' + "[" * 100_000 + "\n")
    entry = '{"MESSAGE":"NVRM: Xid (PCI:0000:19:00): %d, pid=77, name=python","SYSLOG_FACILITY":"0"}'
    said = f"echo '{entry % 31}'\n/bin/cat {tmp_path}/deep\necho '{entry % 79}'"
    journalctl(tmp_path / "bin", f"{said}\nexec /bin/sleep 60")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    told = begun(tmp_path / "absent")
    until(lambda: told.codes() == [31, 79])

    assert told.log.trouble == ""


@pytest.mark.parametrize("defect", [ZeroDivisionError("a defect"), SystemExit("an end")])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reader_that_ends_for_whatever_reason_shows_and_is_begun_anew(
    tmp_path: Path, begun: Callable[..., Told], monkeypatch: pytest.MonkeyPatch, defect: BaseException
) -> None:
    """A log that nobody reads must not be told as read; what came meanwhile is told where it is known how far it was read."""
    monkeypatch.setattr("agents.kernel_log.RETRY_S", 0.3)
    troubles: list[object] = []

    def keep(of: KernelLog, name: str, value: object) -> None:
        if name == "trouble":
            troubles.append(value)
        object.__setattr__(of, name, value)

    monkeypatch.setattr(KernelLog, "__setattr__", keep)
    log, mark, real = tmp_path / "kmsg", tmp_path / "mark", Kmsg.read
    write(log, record(13, 1))
    defects: list[BaseException] = []

    def read(kmsg: Kmsg) -> list[Record] | None:
        if defects:
            raise defects.pop()
        return real(kmsg)

    monkeypatch.setattr(Kmsg, "read", read)
    told = begun(log, mark)
    until(mark.exists)
    defects.append(defect)
    until(lambda: not defects)
    until(lambda: told.codes() == [] and any("ended with a defect" in str(one) for one in troubles))
    write(log, record(79, 2))
    until(lambda: told.codes() == [79])

    assert told.log.trouble == ""
    assert told.log.is_read


@pytest.mark.parametrize("piece", [1000, 100_000])
def test_a_line_without_an_end_is_left_out_and_takes_no_memory(piece: int) -> None:
    """A pipe that somebody feeds without a newline; the next line is read again."""
    split = _Split()
    for _ in range(5_000_000 // piece):
        assert split.lines(b"x" * piece) == []
        assert len(split._rest) <= 256 * 1024
    assert split.lines(b"the end of it\n") == []

    assert split.lines(b"one\ntwo\nth") == [b"one", b"two"]
    assert split.lines(b"ree\n") == [b"three"]


def test_an_endless_line_in_the_log_costs_itself_alone(tmp_path: Path, begun: Callable[..., Told]) -> None:
    """What stands behind it is read."""
    log = tmp_path / "kmsg"
    write(log, "")
    told = begun(log)
    reading(told)
    write(log, record(31, 1) + "x" * 600_000 + "\n" + record(79, 2))

    until(lambda: told.codes() == [31, 79])
