"""A real server for tests: uvicorn as production runs it, on a data directory and a port of its own."""

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from config import web
from fleet.accounts.models import digest
from fleet.store.parquet import ParquetSeries
from tests.made_once import made_once
from wire.metrics import Scope

ROOT = Path(__file__).resolve().parent.parent
NOW = "2025-01-01 00:00:00"


class Server:
    """One uvicorn process. `data` is its FETTLE_DATA; rows are read from its database and store directly."""

    def __init__(self, data: Path, env: dict[str, str] | None = None) -> None:
        self.data = data
        self.env = server_env(data) | (env or {})
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.log = data / "server.log"

    @property
    def agents(self) -> str:
        """The agents' URL."""
        return f"ws://127.0.0.1:{self.port}/ws/agent/"

    @property
    def live(self) -> str:
        """The browsers' URL."""
        return f"ws://127.0.0.1:{self.port}/ws/live/"

    def command(self) -> list[str]:
        """The command line, as production has it."""
        return web.command("127.0.0.1", self.port)

    def start(self) -> None:
        """Start and wait until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command(), cwd=ROOT, env=self.env, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"the server did not start:\n{self.log.read_text()}")

    def stop(self) -> None:
        """SIGTERM, and wait for its end."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def token(self, node: str) -> str:
        """A new token for a node."""
        token = f"token-of-{node}-{time.monotonic_ns()}"
        self.execute("INSERT INTO accounts_agenttoken (digest, created_at, node_name) VALUES (?, ?, ?)", digest(token), NOW, node)
        return token

    def session(self, name: str) -> str:
        """The session cookie of a person who has just been made and logged in."""
        code = (
            "import django; django.setup()\n"
            "from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model\n"
            "from django.contrib.sessions.backends.db import SessionStore\n"
            f"user = get_user_model().objects.create_user({name!r}, password={name!r})\n"
            "session = SessionStore()\n"
            "session[SESSION_KEY] = str(user.pk)\n"
            "session[BACKEND_SESSION_KEY] = 'django.contrib.auth.backends.ModelBackend'\n"
            "session[HASH_SESSION_KEY] = user.get_session_auth_hash()\n"
            "session.create()\n"
            "print(session.session_key)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=self.env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def execute(self, sql: str, *values: object) -> None:
        """One statement in the server's database."""
        with closing(self._database()) as connection, connection:
            connection.execute(sql, values)

    def rows(self, sql: str, *values: object) -> list[dict[str, Any]]:
        """The rows of one query in the server's database."""
        with closing(self._database()) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql, values)]

    def _database(self) -> sqlite3.Connection:
        return sqlite3.connect(self.data / "fettle.sqlite3", timeout=20)

    def window(self, scope: Scope, start: float, end: float, entities: list[int] | None = None) -> pl.DataFrame:
        """What the store holds, read as any other process would."""
        return ParquetSeries(self.data / "series").window(scope, int(start), int(end), entities)

    def gpus(self, node: str) -> list[dict[str, Any]]:
        """The inventory's GPU rows of a node, by index."""
        return self.rows(
            'SELECT g.* FROM inventory_gpu g JOIN inventory_node n ON n.id = g.node_id WHERE n.name = ? ORDER BY g."index"', node
        )

    def node(self, node: str) -> dict[str, Any]:
        """The inventory's row of a node."""
        (row,) = self.rows("SELECT * FROM inventory_node WHERE name = ?", node)
        return row

    def refusals(self, node: str) -> dict[str, int]:
        """Refusal counts of a node by code."""
        return {
            row["code"]: row["total"] for row in self.rows("SELECT code, total FROM inventory_refusal WHERE node_name = ?", node)
        }

    def get(self, path: str) -> bytes:
        """The body of an HTTP GET."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            body: bytes = answer.read()
        return body


def server_env(data: Path) -> dict[str, str]:
    """The environment of a server on this data directory."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FETTLE_", "DATABASE_URL", "REDIS_URL"))}
    return kept | {
        "FETTLE_DATA": str(data),
        "FETTLE_SECRET_KEY": "for tests only, and long enough to be taken",
        "FETTLE_FLUSH_S": "1",
        "FETTLE_NOTIFY_ALLOW": "127.0.0.0/8",
        "DJANGO_SETTINGS_MODULE": "config.settings",
    }


def free_port() -> int:
    """A port that was free a moment ago."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@cache
def migrated_database() -> bytes:
    """A database with every table, made once a test run."""
    return made_once("migrated.sqlite3", _migrate).read_bytes()


def _migrate(file: Path) -> None:
    data = file.with_suffix(".data")
    data.mkdir()
    command = [sys.executable, "manage.py", "migrate", "--skip-checks", "-v", "0"]
    done = subprocess.run(command, cwd=ROOT, env=server_env(data), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    with closing(sqlite3.connect(data / "fettle.sqlite3")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (data / "fettle.sqlite3").rename(file)
    shutil.rmtree(data)


@contextmanager
def serve(data: Path, env: dict[str, str] | None = None) -> Iterator[Server]:
    """A running server on a new data directory; stopped and removed at the end."""
    data.mkdir(parents=True, exist_ok=True)
    (data / "fettle.sqlite3").write_bytes(migrated_database())
    server = Server(data, env)
    try:
        server.start()
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            try:
                server.stop()
            except subprocess.TimeoutExpired:
                server.kill()
        shutil.rmtree(data, ignore_errors=True)


def eventually(call: Any, seconds: float = 15.0) -> Any:
    """The call's first true answer; the last one when none came in time."""
    deadline = time.monotonic() + seconds
    while not (answer := call()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return answer
