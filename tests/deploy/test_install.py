"""`curl …/agent/install.sh | sh` on a node that has a Python and nothing else."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.bare_root import NO_ROOT, Bare, can_isolate, with_python_of
from tests.deploy.enrolling import code, script, stored, was_used
from tests.serving import Server, serve

CODE = "a single-use code for tests"
pytestmark = pytest.mark.skipif(not can_isolate(), reason=NO_ROOT)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    """The node."""
    return with_python_of(Path(sys.base_prefix), tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="module")
def server(agent_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that gives the agent out."""
    with serve(tmp_path_factory.mktemp("server") / "data", {"FETTLE_AGENT_FILE": str(agent_file)}) as server:
        yield server


def test_a_bare_node_installs_enrols_and_reports(bare: Bare, server: Server) -> None:
    """One command with a code in the environment; then the agent runs from its file and its samples are stored."""
    ran = bare.run("/bin/sh", text=script(server), FETTLE_ENROLMENT_CODE=code(server, CODE), FETTLE_NODE="bare-1")
    said = ran.stdout + ran.stderr

    assert ran.returncode == 0, said
    token = (bare.root / "etc/fettle/agent-token").read_text().strip()
    assert "enrolled as bare-1" in said
    assert CODE not in said
    assert token not in said
    assert (bare.root / "etc/fettle/agent-token").stat().st_mode & 0o777 == 0o600
    assert (bare.root / "etc/fettle").stat().st_mode & 0o777 == 0o755
    start = said.rpartition("start the agent by: ")[2].split()
    agent = subprocess.Popen(bare.command(*start), env={"PATH": os.environ["PATH"]}, stderr=subprocess.DEVNULL)
    try:
        assert stored(server, "bare-1", time.time() - 60) > 0
    finally:
        agent.terminate()
        agent.wait(10)


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"FETTLE_ROOT": "/tmp/n"}, "FETTLE_ENROLMENT_CODE is not set"),
        ({"FETTLE_ENROLMENT_CODE": "wrong", "FETTLE_ROOT": "/tmp/a"}, "This enrolment code is not known here."),
        ({"FETTLE_ENROLMENT_CODE": "x", "FETTLE_NODE": "no name", "FETTLE_ROOT": "/tmp/b"}, "'no name' is no node name"),
        ({"FETTLE_ENROLMENT_CODE": "x", "FETTLE_PYTHON": "python9"}, "no CPython 3.10 to 3.14 was found here"),
    ],
)
def test_what_is_missing_is_said(bare: Bare, server: Server, environment: dict[str, str], sentence: str) -> None:
    """In a sentence, with exit code 1, and without a traceback."""
    ran = bare.run("/bin/sh", text=script(server), **environment)

    assert ran.returncode == 1
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_script_that_is_cut_off_does_nothing(bare: Bare, server: Server) -> None:
    """Whatever the connection drops: the last line is what begins it."""
    whole = script(server)
    for part in (len(whole) // 3, len(whole) - 8):
        bare.run("/bin/sh", text=whole[:part], FETTLE_ENROLMENT_CODE="x", FETTLE_ROOT="/tmp/cut")

    assert not (bare.root / "tmp" / "cut").exists()


def test_a_file_that_was_changed_on_its_way_is_not_run(bare: Bare, server: Server) -> None:
    """The script names the SHA-256 of the file that it belongs to; the code is not spent."""
    words = code(server, "another code")
    text = script(server)
    digest_at = text.index("FETTLE_SHA256=") + len("FETTLE_SHA256=")
    ran = bare.run(
        "/bin/sh", text=text[:digest_at] + "0" * 64 + text[digest_at + 64 :], FETTLE_ENROLMENT_CODE=words, FETTLE_ROOT="/tmp/c"
    )

    assert ran.returncode == 1
    assert "not the one that this script was made for" in ran.stderr
    assert not list((bare.root / "tmp/c").rglob("*.pyz"))
    assert not was_used(server, words)
