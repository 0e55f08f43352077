"""What the tests of the install share: a code that the server knows, its script, and an agent of which samples arrive."""

import os
import subprocess
import time

from fleet.accounts.models import digest
from tests.deploy.bare_root import Bare
from tests.serving import NOW, Server, eventually

FAR = "2100-01-01 00:00:00"


def code(server: Server, words: str, node: str = "", expires: str = FAR) -> str:
    """A code that the server knows; for one node alone where it is named."""
    server.execute(
        "INSERT INTO accounts_enrolmentcode (digest, node_name, created_at, expires_at, used_by) VALUES (?, ?, ?, ?, '')",
        digest(words), node, NOW, expires,
    )  # fmt: skip
    return words


def was_used(server: Server, words: str) -> bool:
    """True once a token was given for the code."""
    (row,) = server.rows("SELECT used_at FROM accounts_enrolmentcode WHERE digest = ?", digest(words))
    return row["used_at"] is not None


def script(server: Server) -> str:
    """What curl would pipe into sh."""
    return server.get("/agent/install.sh").decode()


def stored(server: Server, node: str, since: float, seconds: float = 60) -> int:
    """How many of the node's readings of its memory the server stored since then, waited for until there is one."""

    def arrived() -> int:
        found = server.rows("SELECT id FROM inventory_node WHERE name = ? AND last_seen_at IS NOT NULL", node)
        if not found:
            return 0
        window = server.window("host", since, time.time() + 5, [found[0]["id"]])
        return window["mem_used_bytes"].drop_nulls().len() if "mem_used_bytes" in window.columns else 0

    found: int = eventually(arrived, seconds)
    return found


def installed_and_heard(bare: Bare, server: Server, node: str) -> int:
    """Install by the server's script, run the agent by the command that it prints; how many readings arrived."""
    ran = bare.run("/bin/sh", text=script(server), FETTLE_ENROLMENT_CODE=code(server, f"a code for {node}"), FETTLE_NODE=node)
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert f"enrolled as {node}" in said
    start = said.rpartition("start the agent by: ")[2].split()
    since = time.time() - 5
    with subprocess.Popen(bare.command(*start), env={"PATH": os.environ["PATH"]}, stderr=subprocess.DEVNULL) as agent:
        try:
            return stored(server, node, since)
        finally:
            agent.terminate()
            agent.wait(20)
