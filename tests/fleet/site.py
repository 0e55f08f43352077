"""A server's data directory with a broker and whatever Celery programs a test starts on it."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from config.supervisor import Supervisor
from tests.serving import ROOT, Server

_ALONE = ("--without-gossip", "--without-mingle")
WORKER = ("worker", "--pool", "prefork", "--concurrency", "2", "--queues", "celery", "--hostname", "worker@%h", *_ALONE)
MESSENGER = ("worker", "--pool", "threads", "--concurrency", "16", "--queues", "notify", "--hostname", "messenger@%h", *_ALONE)


class Site(Server):
    """A data directory with its broker; no web process."""

    def __init__(self, data: Path, broker: str) -> None:
        more = {
            "REDIS_URL": broker,
            "FETTLE_ADVISOR_EVERY_S": "1",
            "FETTLE_ADVISOR_WINDOW_S": "60",
            "FETTLE_ADVISOR_PATIENCE_S": "2",
            "PYTHONPATH": str(ROOT),
        }
        super().__init__(data, more)

    def run(self, code: str, *words: str) -> None:
        """Run Python with Django set up on this site."""
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(command, cwd=ROOT, env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def deliveries(self) -> list[tuple[str, str, int]]:
        """Rule, state and attempts of every delivery."""
        rows = self.rows(
            "SELECT f.rule, d.state, d.attempts FROM notify_delivery d JOIN findings_transition t ON t.id = d.transition_id"
            " JOIN findings_finding f ON f.id = t.finding_id ORDER BY d.id"
        )
        return [(row["rule"], row["state"], row["attempts"]) for row in rows]

    @contextmanager
    def watched(self) -> Iterator[Supervisor]:
        """Worker, messenger and beat as `manage.py up` keeps them: one that dies is started again."""
        supervisor = Supervisor(self.data, self.env)
        for name, words in (("worker", WORKER), ("messenger", MESSENGER), ("beat", self._beat())):
            supervisor.start(name, command(*words))
        watching = threading.Thread(target=supervisor.run)
        watching.start()
        try:
            yield supervisor
        finally:
            supervisor.stopping = True
            watching.join()
            supervisor.stop()

    @contextmanager
    def celery(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """A Celery program in a process group of its own, ended with it."""
        with self.log.open("ab") as log:
            process = subprocess.Popen(command(*words), cwd=ROOT, env=self.env, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    kill(process)

    def worker(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """Two prefork children, as production runs them."""
        return self.celery(*WORKER)

    def messenger(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """The threads that send, as production runs them."""
        return self.celery(*MESSENGER)

    def beat(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """The clock of the schedule."""
        return self.celery(*self._beat())

    def _beat(self) -> tuple[str, ...]:
        return "beat", "--schedule", str(self.data / "beat"), "--pidfile", ""


def command(*words: str) -> list[str]:
    """A Celery program's command line."""
    application = "config.worker" if "prefork" in words else "config"
    return [sys.executable, "-m", "celery", "-A", application, *words, "--loglevel", "info"]


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to it and its children."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
