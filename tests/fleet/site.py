"""A server's data directory with a broker and whatever Celery programs a test starts on it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.serving import ROOT, Server


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
    def celery(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """A Celery program in a process group of its own, ended with it."""
        application = "config.worker" if "prefork" in words else "config"
        command = [sys.executable, "-m", "celery", "-A", application, *words, "--loglevel", "info"]
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, cwd=ROOT, env=self.env, stdout=log, stderr=log, start_new_session=True)
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
        words = ("--queues", "celery", "--hostname", "worker@%h", "--without-gossip", "--without-mingle")
        return self.celery("worker", "--pool", "prefork", "--concurrency", "2", *words)

    def messenger(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """The threads that send, as production runs them."""
        words = ("--queues", "notify", "--hostname", "messenger@%h", "--without-gossip", "--without-mingle")
        return self.celery("worker", "--pool", "threads", "--concurrency", "16", *words)

    def beat(self) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """The clock of the schedule."""
        return self.celery("beat", "--schedule", str(self.data / "beat"), "--pidfile", "")


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to it and its children."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
