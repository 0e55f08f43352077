"""Real VictoriaMetrics and Prometheus of Debian, for tests: on loopback, with folders of their own, stopped at the end."""

import atexit
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

from fleet.store.deferred import Pending
from fleet.store.endpoint import Access, Endpoint
from fleet.store.victoria import VictoriaSeries
from fleet.store.victoria_durable import Page, Watch
from tests.serving import free_port


class Program:
    """A server in a process of its own, which can be killed and started again on the same port and folder."""

    def __init__(self, command: Sequence[str], port: int, log: Path, health: str) -> None:
        self.command = list(command)
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        self._health = health
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        assert shutil.which(self.command[0]), f"{self.command[0]} is not installed; run `make packages`"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self.command, stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                if not self._health:
                    socket.create_connection(("127.0.0.1", self.port), 5).close()
                    return
                with urllib.request.urlopen(self.url + self._health, timeout=5):
                    return
            except urllib.error.HTTPError as error:
                if error.code != 503:  # which says that it is not ready yet
                    return  # it asks for a password, and answers
                time.sleep(0.05)
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"{self.command[0]} did not start:\n{self.log.read_text()[-3000:]}")

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, as an orderly end."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP: it takes connections and answers nothing, until `go_on`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(30)


def victoria_program(folder: Path, *flags: str) -> Program:
    """A VictoriaMetrics that keeps everything, not started yet."""
    port = free_port()
    command = [
        "victoria-metrics",
        f"-storageDataPath={folder / 'victoria'}",
        f"-httpListenAddr=127.0.0.1:{port}",
        "-retentionPeriod=100y",
        "-memory.allowedBytes=100MB",
        *flags,
    ]
    return Program(command, port, folder / "victoria.log", "" if "-tls" in flags else "/health")


@contextmanager
def running(program: Program) -> Iterator[Program]:
    """The program, started; gone at the end."""
    try:
        program.start()
        yield program
    finally:
        program.kill()


class Flushed(Watch):
    """Has everything flushed at once in place of waiting: for tests of what is stored, not of when it is durable."""

    def __init__(self, server: Endpoint) -> None:
        super().__init__([])
        self._server = server

    def pending(self, before: tuple[Page, ...]) -> Pending:
        return Pending(0, self._flush)

    def _flush(self) -> None:
        self._server.get("/internal/force_flush")


def victoria(url: str, fleet: str = "test", access: Access | None = None) -> VictoriaSeries:
    """The engine on a running VictoriaMetrics, with writes that wait as they do in production."""
    access = access or Access(read_s=10.0)
    server = Endpoint(url, access, "VictoriaMetrics")
    return VictoriaSeries(server, server, Watch([Endpoint(url + "/metrics", access, "VictoriaMetrics")]), fleet)


def flushed_victoria(url: str, fleet: str) -> VictoriaSeries:
    """The engine with writes that are there at once."""
    server = Endpoint(url, Access(), "VictoriaMetrics")
    return VictoriaSeries(server, server, Flushed(server), fleet)


@cache
def shared_victoria() -> str:
    """The address of a VictoriaMetrics that lives as long as this test run's process; fleets keep its users apart."""
    folder = Path(tempfile.mkdtemp(prefix="fettle-victoria-"))
    program = victoria_program(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(program.kill)
    program.start()
    return program.url


def new_victoria() -> VictoriaSeries:
    """An empty store on the shared VictoriaMetrics."""
    return flushed_victoria(shared_victoria(), f"test-{next(_numbers)}")


_numbers = count()
