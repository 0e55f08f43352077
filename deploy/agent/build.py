"""Builds the agent as one file: `make agent` writes dist/fettle-agent.pyz.

Inside are the agent's code and the wheels of requirements/agent.txt for every CPython and processor in TARGETS, so that a node
needs nothing but a Python. The same inputs give the same bytes: names are sorted, times are fixed.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parents[2]
HERE: Final = Path(__file__).resolve().parent
PYTHONS: Final = ("3.10", "3.11", "3.12", "3.13", "3.14")
PROCESSORS: Final = ("x86_64", "aarch64")
GLIBCS: Final = ("2_28", "2_17", "2_5")
CODE: Final = (
    "agents", "wire", "cli/__init__.py", "cli/agent.py", "cli/bench.py", "cli/job.py", "cli/job_text.py", "cli/language.py",
    "cli/parser.py", "cli/slurm.py", "cli/unknown.py",
    "advisor/__init__.py", "advisor/links.py", "advisor/peaks.py", "advisor/planners/__init__.py", "advisor/planners/cards.py",
)  # fmt: skip
_EPOCH: Final = (2020, 1, 1, 0, 0, 0)
_SHEBANG: Final = b"#!/usr/bin/env python3\n"


def requirements(text: str, python: str) -> str:
    """The pinned lines, with their hashes, that hold for this Python on Linux; pip judges markers by the Python it runs on."""
    environment = {
        "python_version": python, "python_full_version": f"{python}.99", "sys_platform": "linux", "platform_system": "Linux",
        "os_name": "posix", "implementation_name": "cpython", "platform_python_implementation": "CPython",
    }  # fmt: skip
    kept = []
    for block in _blocks(text):
        requirement = Requirement(block.split(" \\", 1)[0].split(" --hash", 1)[0])
        if requirement.marker is None or requirement.marker.evaluate(environment):
            kept.append(f"{requirement.name}{requirement.specifier} " + block[block.index("\\") :])
    return "\n".join(kept) + "\n"


def _blocks(text: str) -> Iterator[str]:
    """One requirement with its continuation lines each."""
    block: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("#") or not line.strip():
            continue
        if not line.startswith(" ") and block:
            yield "\n".join(block)
            block = []
        block.append(line)
    if block:
        yield "\n".join(block)


def download(python: str, processor: str, into: Path) -> list[Path]:
    """The wheels for one target; CalledProcessError where one is missing or is not the pinned one."""
    pinned = into / f"{python}.txt"
    pinned.write_text(requirements((ROOT / "requirements" / "agent.txt").read_text(), python))
    folder = into / f"{python}-{processor}"
    platforms = [word for glibc in GLIBCS for word in ("--platform", f"manylinux_{glibc}_{processor}")]
    old = [word for name in ("manylinux2014", "manylinux1") for word in ("--platform", f"{name}_{processor}")]
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--no-deps",
        "--require-hashes", "--implementation", "cp", "--python-version", python, *platforms, *old,
        "--requirement", str(pinned), "--dest", str(folder),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return sorted(folder.iterdir())


def build(target: Path) -> str:
    """Write the file; its SHA-256."""
    content: dict[str, bytes] = {"__main__.py": (HERE / "bootstrap.py").read_bytes()}
    for name in CODE:
        path = ROOT / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            content[f"code/{file.relative_to(ROOT)}"] = file.read_bytes()
    for file in (ROOT / "deploy" / "systemd" / "fettle-agent.service", ROOT / "LICENSE"):
        if file.exists():
            content[file.name] = file.read_bytes()
    version = _version()
    content["version"] = version.encode()
    content[f"code/fettle-{version}.dist-info/METADATA"] = f"Metadata-Version: 2.1\nName: fettle\nVersion: {version}\n".encode()
    wanted: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for python in PYTHONS:
            for processor in PROCESSORS:
                wheels = download(python, processor, Path(folder))
                wanted[f"{python}-{processor}"] = [wheel.name for wheel in wheels]
                content.update({f"wheels/{wheel.name}": wheel.read_bytes() for wheel in wheels})
    content["wheels.json"] = json.dumps(wanted, indent=1, sort_keys=True).encode()
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    with part.open("wb") as out:
        out.write(_SHEBANG)
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in sorted(content.items()):
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.external_attr = 0o644 << 16
                # a wheel is packed already
                archive.writestr(entry, data, zipfile.ZIP_STORED if name.endswith(".whl") else zipfile.ZIP_DEFLATED)
    part.chmod(0o755)
    part.replace(target)
    return hashlib.sha256(target.read_bytes()).hexdigest()


def _version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def main() -> int:
    """0 when it was built."""
    parser = argparse.ArgumentParser(description="Build the agent as one file.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist" / "fettle-agent.pyz")
    target = parser.parse_args().output
    digest = build(target)
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB, SHA-256 {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
