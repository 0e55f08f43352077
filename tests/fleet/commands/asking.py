"""An operator's program and a real agent on the fake driver, for tests of commands against real servers."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.serving import ROOT, Server

NODE = "gpu-1"
BOARD = ROOT / "tests" / "device_answers" / "h200-driver-580.json"
OPERATOR = """
import django
django.setup()
from django.contrib.auth.models import Group
from fleet.accounts.models import ApiToken, User
user = User.objects.create_user("olga")
user.groups.add(Group.objects.get(name="operator"))
print(ApiToken.issue(user=user, name="test", may_write=True)[1])
"""


class Operator:
    """Somebody of the group `operator` with a token that may write."""

    def __init__(self, server: Server) -> None:
        self._token = _run(server, OPERATOR)
        self._server = server

    def asks(self, what: str, seconds: int | None = None, at: Server | None = None) -> tuple[int, dict[str, Any]]:
        """Status and answer of one POST, at this server process."""
        body = {"what": what, "reason": "a test"} | ({} if seconds is None else {"seconds": seconds})
        node = self._server.node(NODE)["id"]
        return self._call(at or self._server, f"/api/v1/nodes/{node}/commands/", body)

    def sees(self, command: int) -> dict[str, Any]:
        """The command as the API tells it."""
        node = self._server.node(NODE)["id"]
        return self._call(self._server, f"/api/v1/nodes/{node}/commands/{command}/")[1]

    def _call(self, server: Server, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{server.port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


@contextmanager
def agent(server: Server, directory: Path, *allowed: str, holder: int | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    """`fettle agent` on two H200 of the fake driver, the first held by process `holder`; killed at the end."""
    token = directory / "token"
    if not token.exists():
        token.write_text(server.token(NODE))
    held_by(directory, holder)
    words = ["--server", server.agents, "--token-file", str(token), "--node", NODE, "--spool", str(directory / "spool")]
    words += ["--run-dir", str(directory / "run")]
    for name in allowed:
        words += ["--allow-commands", name]
    paths = f"{ROOT / 'tests' / 'agents' / 'fake_driver'}:{ROOT}"
    env = server.env | {"PYTHONPATH": paths, "FETTLE_FAKE_NVML": str(directory / "answers.json")}
    env = {name: value for name, value in env.items() if not name.startswith("FETTLE_") or name == "FETTLE_FAKE_NVML"}
    with (directory / "agent.log").open("ab") as log:
        process = subprocess.Popen([sys.executable, "-m", "cli", "agent", *words], cwd=ROOT, env=env, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def held_by(directory: Path, holder: int | None) -> None:
    """Let the fake driver say that this process holds the first GPU; None: nobody does."""
    answers = json.loads(BOARD.read_text())
    for number, gpu in enumerate(answers["gpus"]):
        gpu["processes"] = [{"pid": holder, "usedGpuMemory": 1 << 30}] if holder is not None and not number else []
    part = directory / "part.json"
    part.write_text(json.dumps(answers))
    part.replace(directory / "answers.json")


def known(server: Server) -> None:
    """Make the node's row as its agent's first hello would, with nobody connected."""
    _run(server, f"import django; django.setup()\nfrom tests.fleet.rows import node\nnode({NODE!r})\n")


def _run(server: Server, code: str) -> str:
    """What Python says on this server's data."""
    env = server.env | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def absent(server: Server, metric: str) -> set[str]:
    """Why the node's GPUs do not tell this metric now; empty: they do."""
    rows = server.rows("SELECT reason FROM inventory_absence WHERE until IS NULL AND metric = ? AND gpu_id IS NOT NULL", metric)
    return {row["reason"] for row in rows}
