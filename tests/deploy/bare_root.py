"""A node's root directory with nothing in it but sh and one Python: no pip, no compiler, no curl."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NO_ROOT = "only root may make mounts and change the root directory: run it as root for a node of its own"


@cache
def can_isolate() -> bool:
    """True where this user may make a mount namespace and change the root."""
    ran = subprocess.run(["unshare", "--mount", "chroot", "/", "true"], capture_output=True, check=False)
    return ran.returncode == 0


@dataclass
class Bare:
    """One node. `mounted` is a Python's folder of this machine, at the same place in there, to read; `path` is the node's PATH."""

    root: Path
    mounted: Path | None = None
    path: str = "/usr/bin:/bin"

    def command(self, *words: str, small: str = "", user: str = "0:0") -> list[str]:
        """`words` in there, with the kernel's /proc; `small` is a folder with half a megabyte of room, `user` who runs it."""
        steps = ['mount -t proc proc "$0/proc"', 'mount --bind /dev "$0/dev"']
        if self.mounted is not None:
            steps.append(f'mount --bind -o ro {self.mounted} "$0{self.mounted}"')
        if small:
            steps.append(f'mkdir -p "$0{small}" && mount -t tmpfs -o size=512k tmpfs "$0{small}"')
        script = " && ".join([*steps, f'exec chroot --userspec={user} "$0" "$@"'])
        return ["unshare", "--mount", "sh", "-c", script, str(self.root), *words]

    def run(
        self, *words: str, text: str = "", small: str = "", user: str = "0:0", **env: str
    ) -> "subprocess.CompletedProcess[str]":
        """One run inside, with nothing of this environment but what starts it."""
        return subprocess.run(
            self.command(*words, small=small, user=user), input=text, env=self.environment() | env,
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip

    def environment(self) -> dict[str, str]:
        """The node's PATH, and behind it this machine's: `unshare` and `chroot` are found by it."""
        return {"PATH": f"{self.path}:{os.environ['PATH']}"}


def with_python_of(prefix: Path, root: Path) -> Bare:
    """A node with this machine's Python of that prefix and the libraries that it and sh are linked to."""
    for name in ("bin", "etc", "opt", "var", "tmp", "proc", "dev", "run", "root", str(prefix).lstrip("/")):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    shutil.copy2("/bin/sh", root / "bin" / "sh")
    binaries = ["/bin/sh", str(Path(prefix, "bin", "python3").resolve()), *map(str, prefix.rglob("lib-dynload/*.so"))]
    listed = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    libraries = {word for word in listed.split() if word.startswith("/") and not word.endswith(":")}
    libc = next(Path(word) for word in libraries if Path(word).name == "libc.so.6")
    # what every system has beside libc, and compiled wheels and glibc's threads ask for
    libraries |= {
        str(libc.parent / name) for name in ("libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6", "libgcc_s.so.1")
    }
    for word in libraries:
        if not word.startswith(str(prefix)) and Path(word).exists():
            (root / word.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(word, root / word.lstrip("/"))
    return Bare(root, prefix, f"{prefix}/bin:/bin")


@cache
def pythons() -> dict[str, Path]:
    """The prefix of each CPython 3.10 to 3.14 of this machine by its version; at least the one that runs the tests."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": Path(sys.base_prefix)}
    for version in ("3.10", "3.11", "3.12", "3.13", "3.14"):
        for path in (shutil.which(f"python{version}"), *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))):
            if path is None or version in found:
                continue
            code = "import sys; print('%d.%d %s' % (*sys.version_info[:2], sys.base_prefix))"
            said = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False).stdout.strip()
            if said.startswith(f"{version} "):
                found[version] = Path(said.partition(" ")[2])
    return found
