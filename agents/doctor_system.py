"""The doctor's look at the system: permissions, the spool, the agent that runs, and what each collector costs.

A finding is (name, level, text, remedy), as `agents.doctor.Check`.
"""

import errno
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from agents import ask, report_socket
from agents.collectors.host import HostCollector
from agents.collectors.processes import ProcessCollector
from agents.config import AgentConfig
from agents.worker import Worker
from wire.sentence import Sentence, _, of

Found = tuple[str, Literal["ok", "note", "wrong"], str, str]

DEVICES: Final = Path("/dev")
ROOM_BYTES: Final = 100_000_000
"""Less free space than this is told of."""
OPEN_S: Final = 2.0
TROUBLES: Final = {
    "engines": (
        _("serving engines"),
        _(
            "End the programs that only look like engines, or say `find_engines = false` and name the engines in the setting `engines`."
        ),
    ),
    "kernel_log": (
        _("kernel log"),
        _(
            "Run it as root or with CAP_SYSLOG, and give a container /dev/kmsg; until then XIDs come from the driver alone, and errors of the CPU, the host's memory and PCIe are not told."
        ),
    ),
    "pods": (
        _("pods of the GPUs"),
        _(
            "Mount /var/lib/kubelet/pod-resources into the agent's container, run it as root, and name the socket in the setting `pod_resources`; until then pods are known by their processes' cgroups alone."
        ),
    ),
    "step_reports": (
        _("training steps"),
        _(
            "See to the socket, or name another one in the agent's report_socket and in the programs' FETTLE_REPORT_SOCKET; it is tried again every minute."
        ),
    ),
}
"""By the name in the agent's status: what has a trouble, and what to do about it."""


def permissions(config: AgentConfig, pids: Sequence[int], devices: Path = DEVICES) -> Iterator[Found]:
    """What this user may open: the driver's devices, other processes' environment, the kernel log."""
    yield from _devices(devices, config.source)
    yield from _environment(config.proc, pids)
    kmsg = config.kernel_log
    code = _opened(kmsg, os.O_RDONLY | os.O_NONBLOCK)
    if code is None:
        yield (_("kernel log"), "ok", Sentence(_("{kmsg} can be read"), kmsg=kmsg), "")
    elif code in (errno.EACCES, errno.EPERM):
        remedy = _("Run the agent as root, or give it CAP_SYSLOG; until then XIDs come from the driver's own events alone.")
        yield (_("kernel log"), "note", Sentence(_("{kmsg} may not be read by this user"), kmsg=kmsg), remedy)
    else:
        remedy = _("In a container, pass the device in; until then XIDs come from the driver's own events alone.")
        yield (_("kernel log"), "note", f"{kmsg}: {os.strerror(code)}", remedy)


def _devices(devices: Path, source: str) -> Iterator[Found]:
    found = sorted(path for path in devices.glob("nvidia*") if stat.S_ISCHR(path.stat().st_mode))
    if not found:
        if source == "nvml":
            remedy = _("Load the driver (modprobe nvidia), or give the container the GPUs (docker run --gpus all).")
            yield (_("devices"), "note", Sentence(_("{devices} has no nvidia*"), devices=devices), remedy)
        return
    shut = [path.name for path in found if not os.access(path, os.R_OK | os.W_OK)]
    if shut:
        remedy = _("Add the user to the group that owns them (ls -l /dev/nvidia*), or run the agent as root.")
        yield (_("devices"), "wrong", Sentence(_("this user may not open {names}"), names=", ".join(shut)), remedy)
    else:
        yield (_("devices"), "ok", Sentence(_("{total} of /dev/nvidia* can be opened"), total=len(found)), "")


def _environment(proc: Path, pids: Sequence[int]) -> Iterator[Found]:
    asked = list(pids) or [1]
    shut = [pid for pid in asked if _opened(proc / str(pid) / "environ", os.O_RDONLY) in (errno.EACCES, errno.EPERM)]
    whose = Sentence(_("the processes on the GPUs") if pids else _("process 1"))
    if shut:
        remedy = _(
            "Run the agent as root or with CAP_SYS_PTRACE; until then jobs and settings of other users' processes are not told."
        )
        yield (
            _("environments"),
            "note",
            Sentence(_("those of {total} of {of} ({whose}) may not be read"), total=len(shut), of=len(asked), whose=whose),
            remedy,
        )
    else:
        yield (_("environments"), "ok", Sentence(_("those of {whose} can be read"), whose=whose), "")


def _opened(path: Path, flags: int) -> int | None:
    """None when it could be opened and read, else the error's number."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC)
    except OSError as error:
        return error.errno or errno.EIO
    try:
        os.read(descriptor, 8192)  # the kernel log gives whole records or an error
    except BlockingIOError:
        return None
    except OSError as error:
        return None if error.errno == errno.EPIPE else error.errno  # kmsg: records were overwritten
    finally:
        os.close(descriptor)
    return None


def spool(config: AgentConfig) -> Iterator[Found]:
    """The spool's folder: there, writable, with room, and how much waits in it. A disk that hangs is told of."""
    if config.spool is None:
        remedy = _("Give --spool DIR, so that an agent's or a node's restart loses nothing.")
        yield (_("spool"), "note", _("none: what the server has not stored is lost when the agent ends"), remedy)
        return
    folder = config.spool / config.node
    found: list[Found] = []
    worker = Worker("doctor-spool")
    worker.start(lambda: found.append(_spool(config, folder)), lambda: None)
    ends = time.monotonic() + OPEN_S
    while worker.busy and time.monotonic() < ends:
        time.sleep(0.01)
    worker.close()
    yield (
        found[0]
        if found
        else (
            _("spool"),
            "wrong",
            Sentence(_("{folder} does not answer"), folder=folder),
            _("Its file system hangs: move the spool to a local disk."),
        )
    )


def _spool(config: AgentConfig, folder: Path) -> Found:
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        if not there.is_dir():
            return (_("spool"), "wrong", Sentence(_("{there} is no folder"), there=there), _("Name another one with --spool."))
        if os.statvfs(there).f_flag & os.ST_RDONLY:
            remedy = _(
                "The kernel does so after errors of the disk: see its log, then mount it anew. Until then records wait in memory."
            )
            return (_("spool"), "wrong", Sentence(_("{there} is on a file system that is read-only"), there=there), remedy)
        if not os.access(there, os.W_OK | os.X_OK):
            return (
                _("spool"),
                "wrong",
                Sentence(_("{there} may not be written by this user"), there=there),
                _("Change its owner to the agent's user."),
            )
        size = sum(path.lstat().st_size for path in folder.glob("*.spool"))
        free = shutil.disk_usage(there).free
    except OSError as error:
        return (
            _("spool"),
            "wrong",
            f"{folder}: {error.strerror or error}",
            _("Check the disk, and who may look into the folders above."),
        )
    about = Sentence(
        _("{folder}: {used:.1f} of {most} MB in use, {free:.1f} GB free on the disk"),
        folder=folder,
        used=size / 1000000.0,
        most=config.spool_max_mb,
        free=free / 1000000000.0,
    )
    if free < ROOM_BYTES:
        return (_("spool"), "wrong", about, _("Free some space: what does not fit waits in memory, then the oldest is dropped."))
    if size > 0.9e6 * config.spool_max_mb:
        return (_("spool"), "wrong", about, _("It is almost full: see the server below; the oldest records are dropped first."))
    return (_("spool"), "ok", about, "")


def agent(config: AgentConfig) -> Iterator[Found]:
    """The agent that runs here, as it says itself."""
    if not ask.running(config):
        yield ("agent", "note", _("none runs here that can be asked"), "")
        return
    try:
        told: dict[str, Any] = ask.ask(config, {"do": "status"})
    except ask.AskError as error:
        yield ("agent", "note", of(error), "")
        return
    yield _ticking(told)
    for name, (what, remedy) in TROUBLES.items():
        if told.get(name, "ok") != "ok":
            yield (Sentence(_("agent: {what}"), what=Sentence(what)), "note", str(told[name])[:300], remedy)


def _ticking(told: dict[str, Any]) -> Found:
    about = Sentence(
        _("pid {pid}, {ticks} ticks, {late} late, {records} records wait"),
        pid=told.get("pid"),
        ticks=told.get("ticks"),
        late=told.get("late_ticks"),
        records=told.get("spool_records"),
    )
    age = told.get("last_tick_age_s")
    if age is None or age > 10:
        return (
            "agent",
            "wrong",
            Sentence(_("{about}; its last tick is {age} s old"), about=about, age=age),
            _("See its log; restart it if it does not come back."),
        )
    if not told.get("connected"):
        text = Sentence(_("{about}; it is not connected to {server}"), about=about, server=told.get("server"))
        return ("agent", "wrong", text, _("See the server below and the agent's log."))
    if dropped := told.get("spool_dropped"):
        text = Sentence(_("{about}; {dropped} were dropped"), about=about, dropped=dropped)
        if told.get("spool_unreadable"):
            return (
                "agent",
                "wrong",
                text,
                _("The disk under the spool does not give back what was written: see the kernel log, and replace it."),
            )
        return ("agent", "wrong", text, _("The spool was full: give it more, or a steadier server."))
    return ("agent", "ok", Sentence(_("{about}; connected to {server}"), about=about, server=told.get("server")), "")


def step_reports(config: AgentConfig) -> Iterator[Found]:
    """Where training scripts report: who listens there, or what is in the way of an agent that would."""
    places = (config.report_socket,) if config.report_socket is not None else report_socket.places()
    if heard := next(filter(report_socket.is_heard, places), None):
        yield (_("step reports"), "ok", Sentence(_("an agent listens at {heard}"), heard=heard), "")
        return
    found = [(path, report_socket.trouble(path)) for path in places]
    if usable := next((path for path, trouble in found if trouble is None), None):
        yield (_("step reports"), "note", Sentence(_("no agent listens now; one would at {usable}"), usable=usable), "")
        return
    level: Literal["note", "wrong"] = "note" if config.report_socket is None else "wrong"
    yield (_("step reports"), level, " ".join(trouble for _path, trouble in found if trouble), TROUBLES["step_reports"][1])


def collector_seconds(config: AgentConfig) -> dict[str, float]:
    """Seconds that a second round of each of the host's collectors takes; the GPUs are in the tick."""
    host, processes = HostCollector(config.proc, config.sys), ProcessCollector(config.proc, None, config.sys)
    try:
        host.collect()
        me = (os.getpid(),)
        processes.collect(me, time.monotonic())
        return {"host": _timed(host.collect), "one process": _timed(lambda: processes.collect(me, time.monotonic()))}
    finally:
        host.close()
        processes.close()


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
