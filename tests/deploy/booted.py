"""A node on which the real systemd runs as process 1, in namespaces and control groups of its own."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.deploy.debian_root import debian
from tests.serving import eventually

GROUPS: Final = Path("/sys/fs/cgroup")
PACKAGES: Final = ("systemd", "systemd-sysv", "coreutils", "base-passwd", "curl")
PATH: Final = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty", "kmsg")
BOOT: Final = """
set -e
mount --make-rprivate /
mount --bind "$0" "$0"
mount -t proc proc "$0/proc"
mount -t sysfs -o ro sys "$0/sys"
mount -t tmpfs tmpfs "$0/run"
mount -t tmpfs tmpfs "$0/tmp"
mount -t tmpfs tmpfs "$0/dev"
for device in @DEVICES@; do : >"$0/dev/$device"; mount --bind "/dev/$device" "$0/dev/$device"; done
mkdir "$0/dev/pts" "$0/dev/shm"
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 "$0/sys/fs/cgroup"
else
    mount -t tmpfs tmpfs "$0/sys/fs/cgroup"
    mkdir "$0/sys/fs/cgroup/systemd" "$0/sys/fs/cgroup/unified"
    mount -t cgroup -o none,name=systemd cgroup "$0/sys/fs/cgroup/systemd"
    mount -t cgroup2 cgroup2 "$0/sys/fs/cgroup/unified"
fi
hostname booted-node
cd "$0"
pivot_root . .
umount -l .
exec env -i container=fettle @PATH@ chroot . /lib/systemd/systemd --system --unit=multi-user.target
""".replace("@DEVICES@", " ".join(DEVICES)).replace("@PATH@", PATH)


class Booted:
    """The node; `root` is its root directory as this machine sees it."""

    def __init__(self, root: Path, pid: int) -> None:
        self.root = root
        self.pid = pid

    def run(self, *words: str, text: str = "") -> "subprocess.CompletedProcess[str]":
        """One command in there."""
        enter = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--root", "--wd"]
        return subprocess.run(
            [*enter, "env", "-i", PATH, *words], input=text, capture_output=True, text=True, timeout=180, check=False
        )

    def show(self, name: str) -> str:
        """One property of the agent's service."""
        return self.run("systemctl", "show", "fettle-agent", "--property", name, "--value").stdout.strip()

    def becomes(self, name: str, value: str, seconds: float = 60) -> bool:
        """True once the property has the value."""
        found: bool = eventually(lambda: self.show(name) == value, seconds)
        return found

    def send(self, signal: str) -> None:
        """A signal to the service's main process."""
        ran = self.run("systemctl", "kill", "--kill-whom=main", f"--signal={signal}", "fettle-agent")
        assert ran.returncode == 0, ran.stderr

    def journal(self) -> str:
        """What the service and systemd said of it."""
        return self.run("journalctl", "--unit", "fettle-agent", "--no-pager").stdout

    def set(self, text: str) -> None:
        """Change some of the service's settings, as an administrator does."""
        folder = self.root / "etc/systemd/system/fettle-agent.service.d"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "test.conf").write_text(f"[Service]\n{text}")
        self.run("systemctl", "daemon-reload")


def groups() -> list[Path]:
    """The folders of a control group of our own, one in each hierarchy that systemd uses."""
    tops = [GROUPS] if (GROUPS / "cgroup.controllers").exists() else [GROUPS / "systemd", GROUPS / "unified"]
    return [top / f"fettle-test-{os.getpid()}" for top in tops]


def why_not() -> str:
    """Why no systemd of its own can run here; empty where one can."""
    if os.geteuid() != 0:
        return "only root may start a systemd of its own"
    if not all(group.parent.is_dir() and os.access(group.parent, os.W_OK) for group in groups()):
        return "needs the control groups that systemd uses (version 2, or version 1 with `systemd` and `unified`), to write"
    return ""


@contextmanager
def booted(folder: Path) -> Iterator[Booted]:
    """A node of Debian 12 with systemd, Python and curl, up; ended with all that runs on it."""
    root = debian(folder, "bookworm", *PACKAGES).root
    (root / "etc/machine-id").touch()
    for name in ("passwd", "group"):
        (root / "etc" / name).write_text((root / "usr/share/base-passwd" / f"{name}.master").read_text())
    own = groups()
    for group in own:
        group.mkdir()
    join = "".join(f"echo $$ > {group}/cgroup.procs; " for group in own)
    flags = "--mount --pid --fork --kill-child --uts --ipc --cgroup"
    with (folder / "boot.log").open("wb") as log, subprocess.Popen(
        ["sh", "-c", f'{join}exec unshare {flags} sh -c "$1" "$2"', "sh", BOOT, str(root)], stdout=log, stderr=log
    ) as process:  # fmt: skip
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            pid = eventually(lambda: int((children.read_text().split() or ["0"])[0]), 20)
            assert pid, (folder / "boot.log").read_text()
            node = Booted(root, pid)
            state = eventually(lambda: re.match("running|degraded", node.run("systemctl", "is-system-running").stdout), 30)
            assert state, (folder / "boot.log").read_text()
            yield node
        finally:
            process.kill()
            process.wait(20)
            remove(own)


def remove(own: list[Path]) -> None:
    """Remove our control groups, once the kernel has let go of the last process."""
    deadline = time.monotonic() + 10
    for group in own:
        while group.exists() and time.monotonic() < deadline:
            for folder, _, _ in os.walk(group, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    time.sleep(0.1)
                    break
