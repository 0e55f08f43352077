"""One agent for one spool, and one for one node at one server: a lock that ends with the process that holds it."""

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path


class HeldError(Exception):
    """Another process holds the lock; the message names its pid."""


def hold(path: Path, what: str) -> int:
    """A descriptor that holds the lock until it is closed; HeldError while another process has it, OSError where it cannot be made.

    `what` is what the lock stands for, as in "another agent (pid 7) uses the spool /var/lib/fettle-agent/n".
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                break
        except BlockingIOError:
            pid = os.read(descriptor, 20).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise HeldError(f"another agent{f' (pid {pid})' if pid.isdecimal() else ''} {what}") from None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its holder removed it meanwhile
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())  # a full disk costs the pid, not the lock
    return descriptor


def release(descriptor: int, path: Path) -> None:
    """Let the lock go, and remove its file."""
    with contextlib.suppress(OSError):
        path.unlink()  # one that stays is no lock
    os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def places(own: Path | None, spool: Path | None) -> tuple[Path, ...]:
    """Folders for locks and control sockets, best first: the setting `run_dir` alone where it is given."""
    if own is not None:
        return (own,)
    user = os.environ.get("XDG_RUNTIME_DIR", "")
    found = [Path("/run/fettle"), *((Path(user) / "fettle",) if user.startswith("/") else ())]
    return (*found, *((spool,) if spool is not None else ()))


def folder(own: Path | None, spool: Path | None) -> Path | None:
    """The first of `places` that this user may write to, made where it is missing; None where there is none."""
    for place in places(own, spool):
        try:
            if not place.exists():
                place.mkdir(parents=place is own or place is spool, mode=0o755)
        except OSError:
            continue
        if os.access(place, os.W_OK | os.X_OK):
            return place
    return None


def stem(server: str, node: str) -> str:
    """The name of the files of one node at one server: agents for two servers may run side by side."""
    return "agent-" + hashlib.blake2s(f"{server}\n{node}".encode(), digest_size=6).hexdigest()
