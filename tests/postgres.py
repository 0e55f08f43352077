"""A real PostgreSQL for tests: Debian's programs, in a folder of its own, on loopback and a free port, gone at the end."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg

from tests.serving import eventually, free_port

USER: Final = "fettle"
_SETTINGS: Final = (
    "listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=60", "shared_buffers=32MB", "deadlock_timeout=200ms",
    "log_statement=ddl",  # what was made there, for those who ask
    "fsync=off", "synchronous_commit=off", "full_page_writes=off",  # nothing of it outlives the run
)  # fmt: skip


class Postgres:
    """One server; `url` is what DATABASE_URL takes."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.log = folder / "log"
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Make the databases' folder and start; the words sort as production's do, not as C has them."""
        init = ["initdb", "--pgdata", str(self.data), "--username", USER, "--auth", "trust", "--no-sync", "--encoding", "UTF8"]
        words = ["--locale", "C.UTF-8", "--locale-provider", "icu", "--icu-locale", "en-US"]
        done = subprocess.run([*_for_us(), *_program(init), *words], capture_output=True, text=True, cwd="/", check=False)
        assert done.returncode == 0, done.stderr
        options = [word for setting in (*_SETTINGS, f"port={self.port}") for word in ("-c", setting)]
        command = [*_for_us(), *_program(["postgres", "-D", str(self.data)]), *options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")
        assert eventually(self._answers, 30), self.log.read_text()

    def _answers(self) -> bool:
        try:
            return bool(self.rows("SELECT 1"))
        except psycopg.OperationalError:
            return False

    def stop(self) -> None:
        """SIGINT, its fast shutdown; SIGKILL where that takes long."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)

    def url(self, database: str) -> str:
        """What DATABASE_URL takes."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def rows(self, sql: str, *values: object, database: str = "postgres") -> list[tuple[Any, ...]]:
        """The rows of one statement, which is committed; none where it has none."""
        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(sql.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def create(self, database: str, template: str = "template1") -> str:
        """The URL of a new database, a copy of `template`."""
        self.rows(f'CREATE DATABASE "{database}" TEMPLATE "{template}"')
        return self.url(database)


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A running server, in a folder that its user may reach."""
    folder = Path(tempfile.mkdtemp(prefix="fettle-postgres-"))
    if (who := _user()) is not None:
        os.chown(folder, who.pw_uid, who.pw_gid)
    server = Postgres(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _user() -> pwd.struct_passwd | None:
    """Whom the server runs as where we are root, which it refuses; the package has made that user."""
    return pwd.getpwnam("postgres") if os.getuid() == 0 else None


def _for_us() -> list[str]:
    """The words before a command: it ends with us, and is not root's."""
    who = _user()
    other = [f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups"] if who is not None else []
    return ["setpriv", *other, "--pdeathsig", "INT"]


def _program(words: list[str]) -> list[str]:
    """Debian keeps each version's programs out of the PATH; the newest is taken."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    assert found, "PostgreSQL is not installed; sh tests/install-packages.sh does so"
    return [str(found[-1] / words[0]), *words[1:]]
