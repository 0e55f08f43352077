"""The service's unit: systemd understands it, and it leaves open what the agent needs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "fettle-agent.service"


def service() -> dict[str, list[str]]:
    """Its [Service] section: every value of each key."""
    found: dict[str, list[str]] = {}
    section = UNIT.read_text().split("[Service]\n")[1].split("\n[")[0]
    for line in section.splitlines():
        if line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_finds_nothing_to_say_of_it(tmp_path: Path) -> None:
    """No unknown key, no value that cannot be understood. The Python is this one: another node's path is not here."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("ExecStart=/usr/bin/python3", f"ExecStart={sys.executable}"))
    ran = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)

    assert (ran.returncode, [line for line in ran.stderr.splitlines() if UNIT.name in line]) == (0, [])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_what_systemd_rates_as_exposed_does_not_grow() -> None:
    """At most 3.7 of 10: what is left open is what the agent reads, and each of it is told in the unit."""
    command = ["systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=37", str(UNIT)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout[-300:]


def test_it_is_watched_hardened_and_open_where_the_agent_reads() -> None:
    """The devices, others' /proc and the kernel log stay reachable; nothing but its own folders may be written."""
    found = service()

    def one(key: str) -> str:
        (value,) = found[key]
        return value

    assert (one("Type"), one("WatchdogSec"), one("RestartPreventExitStatus")) == ("notify", "30", "2")
    assert (one("ProtectSystem"), one("NoNewPrivileges"), one("DevicePolicy")) == ("strict", "yes", "closed")
    assert (one("StateDirectory"), one("RuntimeDirectory")) == ("fettle-agent", "fettle")
    assert {"/dev/kmsg r", "char-nvidia rw", "char-nvidia-frontend rw"} <= set(found["DeviceAllow"])
    assert {"CAP_SYS_PTRACE", "CAP_SYSLOG"} <= set(one("CapabilityBoundingSet").split())
    for shut in (
        "ProtectProc",
        "PrivateDevices",
        "PrivateUsers",
        "PrivateNetwork",
        "ProtectKernelLogs",
        "MemoryDenyWriteExecute",
    ):
        assert shut not in found, shut
    assert int(one("TimeoutStopSec")) >= 2
