"""`curl …/agent/install.sh | sh` on a node that has a Python and nothing else."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleet.accounts.models import digest
from tests.serving import NOW, Server, eventually, serve

PREFIX = Path(sys.base_prefix)
CODE = "a single-use code for tests"


def can_isolate() -> bool:
    """True where this user may make a mount namespace and change the root."""
    ran = subprocess.run(["unshare", "--mount", "chroot", "/", "true"], capture_output=True, check=False)
    return ran.returncode == 0


pytestmark = pytest.mark.skipif(not can_isolate(), reason="needs root, for a root directory of the node's own")


@dataclass
class Bare:
    """A root directory with sh, one Python and the libraries of both: no pip, no compiler, no curl."""

    root: Path

    def command(self, *words: str) -> list[str]:
        """`words` with that root, Python mounted read-only and the kernel's /proc."""
        script = f'mount --bind -o ro {PREFIX} "$0{PREFIX}" && mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot "$0" "$@"'
        return ["unshare", "--mount", "sh", "-c", script, str(self.root), *words]

    def run(self, *words: str, text: str = "", **env: str) -> "subprocess.CompletedProcess[str]":
        """One run inside."""
        environment = {"PATH": f"{PREFIX}/bin:/bin", **env}
        return subprocess.run(
            self.command(*words), input=text, env=environment | {"PATH": f"{environment['PATH']}:{os.environ['PATH']}"},
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    """The node."""
    root = tmp_path_factory.mktemp("node")
    for name in ("bin", "etc", "opt", "var", "tmp", "proc", "dev", "run", "root", str(PREFIX).lstrip("/")):
        (root / name).mkdir(parents=True, exist_ok=True)
    shutil.copy2("/bin/sh", root / "bin" / "sh")
    binaries = ["/bin/sh", str(Path(PREFIX, "bin", "python3").resolve()), *map(str, PREFIX.rglob("lib-dynload/*.so"))]
    listed = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    libraries = {word for word in listed.split() if word.startswith("/") and not word.endswith(":")}
    libc = next(Path(word) for word in libraries if Path(word).name == "libc.so.6")
    # what every system has beside libc, and compiled wheels and glibc's threads ask for
    libraries |= {
        str(libc.parent / name) for name in ("libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6", "libgcc_s.so.1")
    }
    for word in libraries:
        if not word.startswith(str(PREFIX)) and Path(word).exists():
            (root / word.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(word, root / word.lstrip("/"))
    return Bare(root)


@pytest.fixture(scope="module")
def server(agent_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that gives the agent out."""
    with serve(tmp_path_factory.mktemp("server") / "data", {"FETTLE_AGENT_FILE": str(agent_file)}) as server:
        yield server


def code(server: Server, words: str) -> str:
    """A code that the server knows."""
    server.execute(
        "INSERT INTO accounts_enrolmentcode (digest, node_name, created_at, expires_at, used_by) VALUES (?, '', ?, ?, '')",
        digest(words), NOW, "2100-01-01 00:00:00",
    )  # fmt: skip
    return words


def script(server: Server) -> str:
    """What curl would pipe into sh."""
    return server.get("/agent/install.sh").decode()


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
        found = eventually(
            lambda: server.rows("SELECT * FROM inventory_node WHERE name = 'bare-1' AND last_seen_at IS NOT NULL"), 40
        )
    finally:
        agent.terminate()
        agent.wait(10)

    assert len(found) == 1
    now = time.time()
    assert server.window("host", now - 120, now + 5, [found[0]["id"]])["mem_used_bytes"].drop_nulls().len() > 0


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({}, "FETTLE_ENROLMENT_CODE is not set"),
        ({"FETTLE_ENROLMENT_CODE": "wrong", "FETTLE_ROOT": "/tmp/a"}, "This enrolment code is not known here."),
        ({"FETTLE_ENROLMENT_CODE": "x", "FETTLE_NODE": "no name", "FETTLE_ROOT": "/tmp/b"}, "'no name' is no node name"),
        ({"FETTLE_ENROLMENT_CODE": "x", "FETTLE_PYTHON": "python9"}, "no CPython 3.10 to 3.13 was found here"),
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
    assert server.rows("SELECT used_at FROM accounts_enrolmentcode WHERE digest = ?", digest(words)) == [{"used_at": None}]
