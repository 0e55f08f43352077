"""The install and the agent with each Python that a node may have: this machine's, and those of Debian's releases."""

import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.bare_root import NO_ROOT, Bare, can_isolate, pythons, with_python_of
from tests.deploy.debian_root import debian, emulated
from tests.deploy.enrolling import installed_and_heard
from tests.serving import Server, serve

pytestmark = pytest.mark.skipif(not can_isolate(), reason=NO_ROOT)
PYTHONS = pythons()
OFTEN = (min(PYTHONS, key=lambda version: int(version.split(".")[1])), f"{sys.version_info[0]}.{sys.version_info[1]}")
"""The oldest that nodes may have, and the one that runs the tests; the others are installed on among the slow tests."""


@pytest.fixture(scope="module")
def server(agent_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that gives the agent out."""
    with serve(tmp_path_factory.mktemp("server") / "data", {"FETTLE_AGENT_FILE": str(agent_file)}) as server:
        yield server


def told(bare: Bare, *words: str) -> str:
    """What the installed agent prints, whatever it exits with: a node without a GPU is not all right for its doctor."""
    ran = bare.run("/bin/sh", "-c", f"exec python3 -I /opt/fettle-agent/fettle-agent.pyz {' '.join(words)}")
    assert ran.returncode in (0, 1), ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stdout


def holds(bare: Bare, server: Server, whose: str, version: str, processor: str) -> None:
    """It installs, its samples arrive, and each of its words runs on that Python and that processor."""
    node = f"{whose}-{version}-{processor}"
    assert installed_and_heard(bare, server, node) > 0
    unpacked = [path.name.split("-", 1)[1] for path in (bare.root / "var/cache/fettle-agent").iterdir()]
    assert unpacked == [f"{version}-{processor}"]
    assert json.loads(told(bare, "--once", "--json"))["host"]["mem_used_bytes"] > 0
    checks = {(check["name"], check["level"]) for check in json.loads(told(bare, "doctor", "--json"))["checks"]}
    assert ("host: readings", "ok") in checks
    assert "--spool" in told(bare, "--help")


@pytest.mark.parametrize(
    "version",
    [pytest.param(version, marks=() if version in OFTEN else pytest.mark.slow) for version in PYTHONS],
)
def test_a_bare_node_with_this_machines_python(server: Server, tmp_path: Path, version: str) -> None:
    """Every version of which this machine has one."""
    holds(with_python_of(PYTHONS[version], tmp_path / "node"), server, "here", version, platform.machine())


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "version"), [("bookworm", "3.11"), ("trixie", "3.13")])
def test_a_bare_node_with_debians_python(server: Server, tmp_path: Path, suite: str, version: str) -> None:
    """Debian's own build of Python, with its libc and nothing else of it."""
    holds(debian(tmp_path, suite), server, "debian", version, platform.machine())


@pytest.mark.slow
def test_a_bare_node_with_another_processor(server: Server, tmp_path: Path) -> None:
    """aarch64, under emulation: the wheels of that processor load and work."""
    holds(emulated(tmp_path, "bookworm"), server, "emulated", "3.11", "aarch64")
