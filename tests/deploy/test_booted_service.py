"""The service under a real systemd: installed by the documented command, watched, hardened, renewed and taken away."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.booted import Booted, booted, why_not
from tests.deploy.conftest import ROOT
from tests.deploy.enrolling import code, stored
from tests.serving import Server, eventually, serve

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")]
QUICK = "WatchdogSec=3\nRestartSec=1\n"


@pytest.fixture(scope="module")
def server(agent_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that gives the agent out."""
    with serve(tmp_path_factory.mktemp("server") / "data", {"FETTLE_AGENT_FILE": str(agent_file)}) as server:
        yield server


@pytest.fixture(scope="module")
def bare_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    """A node that is up, with no agent."""
    with booted(tmp_path_factory.mktemp("node")) as node:
        yield node


def install(node: Booted, server: Server, environment: str = "") -> str:
    """The documented command, curl and all; what it printed."""
    address = f"http://127.0.0.1:{server.port}/agent/install.sh"
    ran = node.run("sh", "-c", f"curl -fsS {address} | {environment} sh")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture
def node(bare_node: Booted, server: Server) -> Booted:
    """The node with the service as it was installed, running."""
    if not (bare_node.root / "etc/fettle/agent-token").exists():
        install(bare_node, server, f"FETTLE_ENROLMENT_CODE='{code(server, str(time.monotonic()), 'booted-node')}'")
    bare_node.set("")
    bare_node.run("systemctl", "reset-failed", "fettle-agent")
    bare_node.run("systemctl", "restart", "fettle-agent")
    assert bare_node.becomes("ActiveState", "active"), bare_node.journal()
    return bare_node


def test_the_installed_service_is_ready_watched_and_heard(node: Booted, server: Server) -> None:
    """It starts at boot, told systemd that it is ready, keeps telling that it goes on, and its samples are stored."""
    first = node.show("WatchdogTimestampMonotonic")
    heard = stored(server, "booted-node", time.time() - 60)

    assert heard > 0
    assert eventually(lambda: node.show("WatchdogTimestampMonotonic") != first, 20)
    assert (node.show("Type"), node.show("UnitFileState"), node.show("NRestarts")) == ("notify", "enabled", "0")
    assert "Traceback" not in node.journal()


def found(report: dict[str, list[dict[str, str]]]) -> set[tuple[str, str]]:
    """What the doctor looked at and how it fares; what needs a second look alone to be there is left out."""
    return {(check["name"], check["level"]) for check in report["checks"] if not check["name"].endswith("no_previous")}


def test_the_unit_takes_nothing_from_the_agent(node: Booted) -> None:
    """Its doctor finds under the unit's restrictions exactly what root finds without them."""
    unit = (node.root / "etc/systemd/system/fettle-agent.service").read_text()
    report = "var/lib/fettle-agent/doctor.json"
    unit = re.sub(r"(?m)^(Watchdog|Restart)\w*=.*\n", "", unit).replace("Type=notify", "Type=oneshot")
    unit = re.sub(r"(?m)^(ExecStart=.*pyz)", r"\1 doctor --json", unit)
    unit = unit.replace("[Service]\n", f"[Service]\nRuntimeDirectoryPreserve=yes\nStandardOutput=truncate:/{report}\n")
    (node.root / "etc/systemd/system/doctor.service").write_text(unit)
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "start", "doctor")
    free = node.run(
        "python3", "-I", "/opt/fettle-agent/fettle-agent.pyz", "doctor", "--json", "--config", "/etc/fettle/agent.toml"
    )
    kept, had = json.loads((node.root / report).read_text()), json.loads(free.stdout)
    (node.root / report).unlink()

    assert found(kept) == found(had)
    assert ("kernel log", "ok") in found(kept)


def test_an_agent_that_hangs_is_begun_anew(node: Booted) -> None:
    """A process that stands still tells nothing: systemd ends it, and another runs and is heard."""
    node.set(QUICK)
    node.run("systemctl", "restart", "fettle-agent")
    pid = node.show("MainPID")
    node.send("SIGSTOP")

    assert node.becomes("NRestarts", "1")
    assert node.becomes("ActiveState", "active")
    assert node.show("MainPID") != pid
    assert "Watchdog timeout" in node.journal()


def test_an_agent_that_is_killed_is_begun_anew(node: Booted) -> None:
    """Its spool's lock and its socket do not keep the next one out."""
    node.set(QUICK)
    pid = node.show("MainPID")
    node.send("SIGKILL")

    assert node.becomes("NRestarts", "1")
    assert node.becomes("ActiveState", "active")
    assert node.show("MainPID") != pid


def test_wrong_settings_are_said_once(node: Booted) -> None:
    """Exit code 2 is not tried again: what is wrong stays so until somebody changes it."""
    node.set(QUICK)
    settings = node.root / "etc/fettle/agent.toml"
    right = settings.read_text()
    settings.write_text(f"spool_max_mbs = 1\n{right}")
    ran = node.run("systemctl", "restart", "fettle-agent")
    status, restarts, said = node.show("ExecMainStatus"), node.show("NRestarts"), node.journal()
    settings.write_text(right)

    assert ran.returncode != 0
    assert (status, restarts) == ("2", "0")
    assert "spool_max_mb" in said


def test_a_stop_is_clean(node: Booted) -> None:
    """It ends by itself on SIGTERM, before systemd would kill it."""
    node.run("systemctl", "stop", "fettle-agent")

    assert (node.show("ActiveState"), node.show("Result"), node.show("ExecMainStatus")) == ("inactive", "success", "0")


def test_an_update_starts_the_new_file(node: Booted, server: Server) -> None:
    """The same command without a code: another process, the same token."""
    pid, token = node.show("MainPID"), (node.root / "etc/fettle/agent-token").read_bytes()
    said = install(node, server)

    assert "booted-node keeps its token" in said
    assert node.show("ActiveState") == "active"
    assert node.show("MainPID") != pid
    assert (node.root / "etc/fettle/agent-token").read_bytes() == token


def test_the_documented_way_to_take_it_away_leaves_nothing(node: Booted) -> None:
    """The commands as the guide has them; then no file of the agent is there and no process."""
    guide = (ROOT / "docs/how-to/install-agents.md").read_text()
    commands = guide.split("To take it away")[1].split("```sh\n")[1].split("```")[0]
    ran = node.run("sh", "-e", text=commands)
    folders = ("etc", "opt", "var", "run")
    left = [str(path) for name in folders for path in (node.root / name).rglob("*fettle*") if "journal" not in str(path)]

    assert ran.returncode == 0, ran.stderr
    assert [path for path in left if "fettle-agent.service.d" not in path] == []
    assert "fettle-agent" not in node.run("systemctl", "list-units", "--all", "--no-pager").stdout
