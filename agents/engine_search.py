"""Serving engines of this node, found by their command lines: what they are and where they tell their metrics.

A command line leaves nothing behind but the kind, the pid and an address of this machine: anybody may start a program
called `vllm`, and shall not send the agent to ask elsewhere.
"""

import ipaddress
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from agents.collectors import command_line, procfs
from agents.engine_metrics import KINDS
from agents.scrape import Target

log = logging.getLogger(__name__)

SEARCH_S: Final = 30.0
"""Seconds between two searches."""
_SEARCH_SHARE: Final = 0.001
"""A search reads the command line of every process; it may take this share of a core."""
_SEARCH_MAX_S: Final = 600.0
_ANY: Final = ("0.0.0.0", "", "*", "::", "[::]")  # noqa: S104 - what an engine listens on, not what we do
_OFF: Final = ("false", "0", "no", "off")


class Found(NamedTuple):
    """An engine of this machine: its kind, where it may be asked, its process; None: it is in the settings."""

    kind: str
    targets: tuple[Target, ...]
    pid: int | None


def engine(words: Sequence[str]) -> tuple[str, Target] | None:
    """The kind of engine that a command line starts and where it serves; None where it starts none, or none that can be asked."""
    program = command_line.started(words)
    kind = program.engine if program is not None and program.is_server else None
    if program is None or kind is None:
        return None
    flags = {
        flag.name: flag.value if flag.is_joined or not flag.value.startswith("-") else ""
        for flag in command_line.flags(program.words)
    }
    known = KINDS[kind]
    if kind == "triton":
        if flags.get("allow-metrics", "true").lower() in _OFF:
            return None
        host = flags.get("metrics-address") or flags.get("http-address", "")
        port = flags.get("metrics-port", str(known.port))
    else:
        if "headless" in flags or "uds" in flags:
            return None
        host, port = flags.get("host", ""), flags.get("port") or flags.get("p") or str(known.port)
    if not port.isdecimal() or not 0 < int(port) < 65536:
        return None
    scheme = "https" if "ssl-certfile" in flags or "ssl-keyfile" in flags else "http"
    address = "127.0.0.1" if host in (*_ANY, "localhost") else host.strip("[]")
    return kind, Target(scheme, address, int(port), known.paths[0])


def search(proc: str, is_ours: Callable[[str], bool]) -> list[Found]:
    """The engines among the processes of `proc`, one an address, the oldest process of each; `is_ours` says so of an address."""
    found: dict[tuple[str, int], Found] = {}
    try:
        pids = sorted(int(entry) for entry in os.listdir(proc) if entry.isdigit())
    except OSError:
        return []
    here = _network(proc, "self")
    for pid in pids:
        try:
            words = [word.decode(errors="replace") for word in procfs.read(f"{proc}/{pid}/cmdline").split(b"\0")]
        except OSError:
            continue
        told = engine(words)
        if told is None:
            continue
        kind, where = told
        network = _network(proc, str(pid))
        if here is not None and network is not None and network != here:
            continue  # a container with a network of its own: its port is not this machine's
        if not is_ours(where.host):
            continue
        targets = tuple(where._replace(path=path) for path in KINDS[kind].paths)
        found.setdefault((where.host, where.port), Found(kind, targets, pid))
    return list(found.values())


def is_of_this_machine(host: str) -> bool:
    """True for an address that this machine itself has; names are not looked up."""
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.bind((host, 0))
    except (OSError, ValueError):
        return False
    return True


class Search:
    """Searches now and then; `found` is what the last search brought. `run` blocks and belongs into a thread of its own."""

    def __init__(self, proc: Path, is_ours: Callable[[str], bool] = is_of_this_machine) -> None:
        self.found: list[Found] = []
        self._proc = str(proc)
        self._is_ours = is_ours
        self._due = float("-inf")

    def is_due(self, now: float) -> bool:
        """True when monotonic second `now` is late enough for another search."""
        return now >= self._due

    def run(self) -> None:
        """Search once; the next one waits longer, the dearer this one was. Never raises."""
        began = time.thread_time()
        try:
            self.found = search(self._proc, self._is_ours)
        except Exception:
            log.exception("The search for serving engines failed; it is tried again")
        cost = time.thread_time() - began
        self._due = time.monotonic() + min(_SEARCH_MAX_S, max(SEARCH_S, cost / _SEARCH_SHARE))


def _network(proc: str, pid: str) -> str | None:
    try:
        return os.readlink(f"{proc}/{pid}/ns/net")
    except OSError:
        return None
