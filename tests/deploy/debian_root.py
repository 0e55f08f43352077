"""A root directory unpacked from Debian's packages: of any release and processor, with nothing installed on this machine."""

import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.bare_root import Bare

PYTHON: Final = ("base-files", "dash", "python3-minimal", "libpython3-stdlib")
SOURCES: Final = Path("/etc/apt")
QEMU: Final = "qemu-aarch64-static"


def release() -> str:
    """This Debian's name, such as `bookworm`; empty where this is none."""
    found = re.search(r"^VERSION_CODENAME=(\w+)$", Path("/etc/os-release").read_text(), re.M)
    return found[1] if found else ""


def sources() -> Path | None:
    """The file in which this machine's apt is told where Debian's own packages are; None where it has none."""
    name = release()
    files = (*SOURCES.glob("sources.list.d/*.sources"), *SOURCES.glob("sources.list.d/*.list"), SOURCES / "sources.list")
    for file in files:
        if name and file.is_file() and re.search(rf"(?<![-\w]){name}(?![-\w])", file.read_text()):
            return file
    return None


@dataclass
class Packages:
    """What apt may download for one release and processor; its lists are kept in `folder`, this machine's are left alone."""

    folder: Path
    suite: str
    processor: str = "amd64"

    def apt(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """One apt-get with that release's lists and no package installed yet."""
        found = sources()
        if found is None or shutil.which("apt-get") is None:
            pytest.skip("needs Debian's apt-get and its list of sources, for packages of other releases and processors")
        for name in ("state/lists/partial", "cache/archives/partial", "etc", "none"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "etc" / found.name).write_text(found.read_text().replace(release(), self.suite))
        (self.folder / "status").touch()
        options = {
            "APT::Architecture": self.processor, "APT::Architectures::": self.processor, "APT::Sandbox::User": "root",
            "APT::Install-Recommends": "false", "Dir::State": self.folder / "state", "Dir::State::status": self.folder / "status",
            "Dir::Cache": self.folder / "cache", "Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": self.folder / "etc",
            "Dir::Etc::preferencesparts": self.folder / "none", "Acquire::Retries": 2, "Debug::NoLocking": 1,
        }  # fmt: skip
        flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return subprocess.run(["apt-get", "-qq", *flags, *words], capture_output=True, text=True, timeout=400, check=False)

    @cached_property
    def listed(self) -> bool:
        """True once the lists are here; the test is skipped where they cannot be had."""
        ran = self.apt("update")
        if ran.returncode:
            pytest.skip(f"Debian's packages of {self.suite} for {self.processor} are out of reach: {ran.stderr.strip()[-300:]}")
        return True

    def unpack(self, root: Path, *names: str) -> None:
        """The packages and all that they depend on, as files; nothing of them is run."""
        assert self.listed
        shutil.rmtree(self.folder / "cache" / "archives", ignore_errors=True)
        ran = self.apt("install", "-y", "--download-only", *names)
        assert ran.returncode == 0, ran.stderr
        root.mkdir(parents=True, exist_ok=True)
        archives = sorted(self.folder.glob("cache/archives/*.deb"))
        # base-files first: newer releases have their /bin and /lib as links in it
        for archive in sorted(archives, key=lambda path: not path.name.startswith("base-files_")):
            subprocess.run(["dpkg-deb", "--extract", str(archive), str(root)], check=True)


def debian(folder: Path, suite: str, *more: str) -> Bare:
    """A node of that release of Debian with its Python, for this machine's processor."""
    processor = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=False).stdout.strip()
    root = folder / "root"
    Packages(folder / "apt", suite, processor or "amd64").unpack(root, *PYTHON, *more)
    for name in ("proc", "dev", "sys", "tmp", "run", "root", "opt"):
        (root / name).mkdir(exist_ok=True)
    return Bare(root)


def emulated(folder: Path, suite: str) -> Bare:
    """A node of that release with aarch64's Python under qemu's emulation of the processor; sh alone is this machine's."""
    if platform.machine() != "x86_64":
        pytest.skip("emulates aarch64 on x86-64 alone")
    root = folder / "root"
    Packages(folder / "arm", suite, "arm64").unpack(root, *PYTHON)
    (root / "usr/lib/emulated").mkdir()
    (python,) = (path for path in (root / "usr/bin").glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name))
    real = python.rename(root / "usr/lib/emulated" / python.name)
    # over the other processor's: whatever is started from there needs no kernel that knows of emulation
    Packages(folder / "intel", suite, "amd64").unpack(root, "base-files", "dash")
    tools = Packages(folder / "tools", release(), "amd64")
    assert tools.listed
    tools.apt("install", "-y", "--download-only", "qemu-user-static")
    (archive,) = tools.folder.glob("cache/archives/qemu-user-static_*.deb")
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(archive)], stdout=subprocess.PIPE) as tar:
        subprocess.run(["tar", "--extract", "--directory", str(root), f"./usr/bin/{QEMU}"], stdin=tar.stdout, check=True)
    python.write_text(f'#!/bin/sh\nexec /usr/bin/{QEMU} -0 "$0" /usr/lib/emulated/{real.name} "$@"\n')
    python.chmod(0o755)
    for name in ("proc", "dev", "sys", "tmp", "run", "root", "opt"):
        (root / name).mkdir(exist_ok=True)
    return Bare(root)
