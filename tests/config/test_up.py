"""`manage.py up`, as a newcomer runs it."""

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from config.up import agent_tokens
from fleet.accounts.models import AgentToken

ROOT = Path(__file__).resolve().parent.parent.parent


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Up:
    """One `manage.py up` on its own DATA and port."""

    def __init__(
        self, data: Path, demo: str = "yes", root: Path = ROOT, python: str = sys.executable, **environment: str
    ) -> None:
        self.data, self.port = data, free_port()
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("FETTLE_", "DJANGO_", "REDIS_", "DATABASE_"))}
        self.process = subprocess.Popen(
            [python, "manage.py", "up", "--data", str(data), "--port", str(self.port), "--demo", demo],
            cwd=root, env=clean | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def get(self, path: str, token: str | None = None) -> tuple[int, str]:
        """Status and body of one GET."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()

    def until_answers(self, path: str, seconds: float) -> None:
        """Wait until the path answers 200."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                self.get(path)
                return
            except OSError:
                assert self.process.poll() is None, self.process.communicate()[0]
                assert time.monotonic() < deadline, f"{path} did not answer within {seconds} s"
                time.sleep(0.2)

    def family(self) -> list[psutil.Process]:
        """All processes that it started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def stop(self) -> str:
        """Ctrl-C; what it printed."""
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=30)[0]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    """A running Fettle, ended after the test whatever happened."""
    started = Up(tmp_path / "data")
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.communicate()


def test_it_serves_and_stops_cleanly_on_ctrl_c(up: Up) -> None:
    """After Ctrl-C the exit code is 0 and none of its processes is left."""
    up.until_answers("/readyz", 90)
    family = up.family()
    said = up.stop()

    assert up.process.returncode == 0, said
    assert "no process is left" in said
    assert [process for process in family if process.is_running()] == []
    password = (up.data / "admin-password").read_text().strip()
    assert said.count(password) == 1
    for secret in ("admin-password", "secret-key", "agent-tokens.json"):
        assert stat.S_IMODE((up.data / secret).stat().st_mode) == 0o600
    logs = "".join(path.read_text(errors="replace") for path in (up.data / "logs").iterdir())
    assert password not in logs
    assert not [token for token in json.loads((up.data / "agent-tokens.json").read_text()).values() if token in logs]


@pytest.mark.slow
def test_it_leaves_nothing_when_it_is_killed_itself(up: Up) -> None:
    """After kill -9 of the supervisor its programs end by themselves."""
    up.until_answers("/healthz", 90)
    family = up.family()
    up.process.kill()
    up.process.communicate()

    gone, alive = psutil.wait_procs(family, timeout=20)
    assert alive == []
    assert len(gone) == len(family)


@pytest.mark.slow
def test_it_refuses_a_second_start_on_the_same_data(up: Up) -> None:
    """Two of everything on one database is never right."""
    up.until_answers("/healthz", 90)
    second = Up(up.data)
    said = second.process.communicate(timeout=30)[0]

    assert second.process.returncode == 1
    assert re.search(r"fettle: another Fettle already runs on .*DATA=", said)


def test_it_names_a_port_that_is_taken(tmp_path: Path) -> None:
    """One sentence, exit code 1, no traceback."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run = subprocess.run(
            [sys.executable, "manage.py", "up", "--data", str(tmp_path), "--port", str(port)],
            cwd=ROOT, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip

    assert run.returncode == 1
    assert f"127.0.0.1:{port} cannot be used" in run.stderr
    assert "PORT=" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "fettle.sqlite3",
            b"\x00\x01 no database" * 500,
            r"fettle: the database cannot be used: .*fettle\.sqlite3; put a backup",
        ),
        ("secret-key", b"\n", r"fettle: FETTLE_SECRET_KEY is empty or shorter than 32 characters"),
        ("logs", b"a file where a folder belongs", r"fettle: .*logs cannot be made: File exists"),
    ],
)
def test_it_says_what_is_damaged_in_data(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """One sentence with the file, exit code 1, nothing left running."""
    (tmp_path / name).write_bytes(content)
    started = Up(tmp_path)
    said = started.process.communicate(timeout=60)[0]

    assert started.process.returncode == 1
    assert re.search(message, said)
    assert "Traceback" not in said


@pytest.mark.django_db
@pytest.mark.parametrize("content", ["[1, 2]", '{"replay-leak": 5}', "{", "null"])
def test_it_makes_the_agents_tokens_anew_where_their_file_is_none(tmp_path: Path, content: str) -> None:
    """A damaged file costs new tokens, not the start."""
    path = tmp_path / "agent-tokens.json"
    path.write_text(content)
    agent_tokens(path, ["replay-leak"])
    (node, token), *others = json.loads(path.read_text()).items()

    assert (node, others) == ("replay-leak", [])
    made = AgentToken.of(token)
    assert made is not None
    assert made.node_name == "replay-leak"


def test_without_the_demo_the_machine_itself_reports(tmp_path: Path) -> None:
    """The agent speaks for this host; on a host without GPUs that is a node with no GPU."""
    started = Up(tmp_path, demo="no")
    try:
        started.until_answers("/readyz", 90)
        database = sqlite3.connect(tmp_path / "fettle.sqlite3")
        deadline = time.monotonic() + 40
        while not (
            rows := database.execute("select name, recording from inventory_node where last_seen_at is not null").fetchall()
        ):
            assert time.monotonic() < deadline, (tmp_path / "logs" / "agent.log").read_text()
            time.sleep(0.5)
        database.close()
    finally:
        started.stop()

    assert rows == [(socket.gethostname(), "")]


def test_a_fleet_read_from_prometheus_gets_no_demo_and_no_agent(tmp_path: Path) -> None:
    """Nothing that an agent says could be stored, so none is started."""
    started = Up(tmp_path, FETTLE_STORE="prometheus-read", FETTLE_STORE_URL=f"http://127.0.0.1:{free_port()}")
    try:
        started.until_answers("/healthz", 90)
        time.sleep(3)
        commands = [" ".join(one.cmdline()) for one in started.family()]
    finally:
        said = started.stop()

    assert commands
    assert not any("cli agent" in one or "--replay" in one for one in commands)
    assert "Reading a Prometheus, without agents" in said


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("FETTLE_FLUSH_S", "abc", "fettle: FETTLE_FLUSH_S='abc' is not a whole number; give one from 1 to 60."),
        ("FETTLE_STORE", "zzz", "fettle: FETTLE_STORE='zzz' is none of parquet, victoriametrics, prometheus-read, memory"),
        ("FETTLE_FLUSH_SS", "1", "fettle: FETTLE_FLUSH_SS is no setting; FETTLE_FLUSH_S is."),
        ("FETTLE_ADMIN_PASSWORD", " ", "fettle: FETTLE_ADMIN_PASSWORD is empty"),
        ("REDIS_URL", "foo", "fettle: REDIS_URL is no URL that can be used"),
    ],
)
def test_it_names_a_setting_that_cannot_be_understood(tmp_path: Path, name: str, value: str, message: str) -> None:
    """One sentence, exit code 1, nothing left running."""
    started = Up(tmp_path, "yes", ROOT, sys.executable, **{name: value})
    said = started.process.communicate(timeout=30)[0]

    assert started.process.returncode == 1
    assert message in said
    assert "Traceback" not in said


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Up]:
    """Fettle as `make up` runs it on a new machine: with what requirements/base.txt names and nothing else."""
    clone, home = tmp_path / "fettle", tmp_path / "home"
    home.mkdir()
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, clone / name)
    subprocess.run(["make", "venv"], cwd=clone, env=os.environ | {"HOME": str(home)}, check=True)
    started = Up(tmp_path / "data", root=clone, python=str(clone / ".venv/bin/python"), HOME=str(home))
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.communicate()


@pytest.mark.slow
def test_findings_appear_within_two_minutes_for_a_newcomer(newcomer: Up) -> None:
    """At least 8 nodes with 8 GPUs each report, the advisor has found something, and no program ended meanwhile."""
    up = newcomer
    up.until_answers("/readyz", 90)
    began = time.monotonic()
    environment = os.environ | {"FETTLE_DATA": str(up.data)}
    made = subprocess.run(
        [sys.executable, "manage.py", "api_token", "admin", "test"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    token = made.stdout.split()[-1]
    while True:
        found = json.loads(up.get("/api/v1/findings/", token)[1])["count"]
        if found:
            break
        assert time.monotonic() - began < 120, "no finding within two minutes"
        time.sleep(2)
    nodes = json.loads(up.get("/api/v1/nodes/", token)[1])
    gpus = json.loads(up.get("/api/v1/gpus/", token)[1])

    assert nodes["count"] >= 8
    assert gpus["count"] == 8 * nodes["count"]
    assert all(node["recording"] for node in nodes["results"])
    said = up.stop()
    assert "it starts again" not in said
    assert up.process.returncode == 0
