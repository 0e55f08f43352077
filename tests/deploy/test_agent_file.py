"""The agent as one file, on every Python that is here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.bare_root import pythons
from tests.deploy.conftest import ROOT

PYTHONS = {version: str(prefix / "bin" / f"python{version}") for version, prefix in pythons().items()}


def start(python: str, file: Path, cache: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """One run with nothing of this environment but a path."""
    env = {"PATH": os.environ["PATH"], "FETTLE_AGENT_CACHE": str(cache)}
    return subprocess.run([python, "-I", str(file), *words], capture_output=True, text=True, env=env, timeout=120, check=False)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A folder to unpack to."""
    return tmp_path / "cache"


@pytest.mark.parametrize("version", PYTHONS)
def test_it_reads_the_machine_with_nothing_but_this_python(agent_file: Path, cache: Path, version: str) -> None:
    """One tick, and no module from outside the file and the standard library."""
    ran = start(PYTHONS[version], agent_file, cache, "--once", "--json")
    told = json.loads(ran.stdout)

    assert ran.returncode == 0, ran.stderr
    assert told["host"]["mem_used_bytes"] > 0
    assert [path.name.rsplit("-", 2)[1] for path in cache.iterdir()] == [version]


def test_it_has_the_bench_and_says_what_that_lacks(agent_file: Path, cache: Path) -> None:
    """The file carries no torch; the sentence names the Python that needs it."""
    ran = start(sys.executable, agent_file, cache, "bench", "--quick")
    told = start(sys.executable, agent_file, cache, "bench", "--help")

    assert ran.returncode == 2
    assert ran.stderr.startswith("fettle bench: torch is not installed for this Python")
    assert told.returncode == 0
    assert "fettle-agent bench" in told.stdout


def test_it_has_what_a_slurm_controller_and_a_login_node_need(agent_file: Path, cache: Path) -> None:
    """The reconciler, and jobs' reports: neither needs more than the file."""
    for verb in ("slurm", "job"):
        ran = start(sys.executable, agent_file, cache, verb, *(["4711"] if verb == "job" else []))

        assert ran.returncode == 2
        assert ran.stderr == f"fettle {verb}: no server is set: give --server, or --config with the agent's settings.\n"


def test_starts_at_the_same_time_unpack_once(agent_file: Path, cache: Path) -> None:
    """Neither sees half of the other's work."""
    env = {"PATH": os.environ["PATH"], "FETTLE_AGENT_CACHE": str(cache)}
    runs = [
        subprocess.Popen([sys.executable, "-I", str(agent_file), "--once", "--json"], env=env, stdout=subprocess.DEVNULL)
        for _ in range(4)
    ]

    assert [run.wait(120) for run in runs] == [0, 0, 0, 0]
    assert len(list(cache.iterdir())) == 1


def test_it_runs_no_code_that_others_could_have_put_there(agent_file: Path, cache: Path) -> None:
    """A cache that everybody may write to is refused with what to do."""
    cache.mkdir()
    cache.chmod(0o777)
    ran = start(sys.executable, agent_file, cache, "--once")

    assert ran.returncode == 2
    assert "only this user can write" in ran.stderr
    assert list(cache.iterdir()) == []


def test_older_files_go_but_for_the_last_two(agent_file: Path, cache: Path) -> None:
    """An agent that still runs from the one before may import from it."""
    cache.mkdir(mode=0o700)
    for number in range(4):
        (cache / f"old{number}").mkdir()
        os.utime(cache / f"old{number}", (number, number))
    start(sys.executable, agent_file, cache, "--once", "--json")

    assert {path.name for path in cache.iterdir() if path.name.startswith("old")} == {"old2", "old3"}


def test_a_python_that_is_too_old_is_told_so(agent_file: Path, cache: Path) -> None:
    """In words, with exit code 2: the first lines run on any Python."""
    ran = subprocess.run(
        [sys.executable, "-c", "import sys; sys.version_info = (3, 9, 0); sys.path[0] = sys.argv[1]; "
         "exec(compile(__import__('zipfile').ZipFile(sys.argv[1]).read('__main__.py'), 'main', 'exec'))", str(agent_file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ran.returncode == 2
    assert "needs CPython 3.10 to 3.14" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.slow
def test_the_same_inputs_make_the_same_bytes(agent_file: Path, tmp_path: Path) -> None:
    """So that a site can check what it was given."""
    again = tmp_path / "again.pyz"
    subprocess.run([sys.executable, "deploy/agent/build.py", "--output", str(again)], cwd=ROOT, check=True)

    assert again.read_bytes() == agent_file.read_bytes()
