"""One agent for one spool, and one for one node at one server: a lock that ends with the process that holds it."""

import contextlib
import errno
import fcntl
import hashlib
import os
from pathlib import Path
from typing import Final

PASSING: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
"""What a disk says that is full, or has errors, after which it is mounted read-only. It passes: the agent does without what it would have written."""


class HeldError(Exception):
    """Another process holds the lock; the message names its pid."""


def hold(path: Path, what: str) -> int:
    """A descriptor that holds the lock until it is closed; HeldError while another process has it, OSError where it cannot be made.

    `what` is what the lock stands for, as in "another agent (pid 7) uses the spool /var/lib/fettle-agent/n".
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
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
    with contextlib.suppress(OSError):  # a full disk costs the pid, not the lock
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
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
    """The first of `places` that this user may write to, made where it is missing; None where there is none.

    OSError where `own` cannot be made or written because the disk is full or read-only.
    """
    for place in places(own, spool):
        try:
            if _usable(place, parents=place in (own, spool), is_public=place != spool):
                return place
        except OSError as error:
            if place == own and error.errno in PASSING:
                raise
    return None


def _usable(place: Path, *, parents: bool = True, is_public: bool) -> bool:
    """True for a folder that this user may write to, made where it is missing; OSError where it cannot be made or is read-only."""
    if not place.exists():
        place.mkdir(parents=parents, mode=0o700)
        if is_public:
            place.chmod(0o755)  # whatever the umask says: scripts of other users report there
    if os.access(place, os.W_OK | os.X_OK):
        return True
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(place))
    return False


def stem(server: str, node: str) -> str:
    """The name of the files of one node at one server: agents for two servers may run side by side."""
    return "agent-" + hashlib.blake2s(f"{server}\n{node}".encode(), digest_size=6).hexdigest()
