"""The socket that training scripts report to: where it stands, who may write to it, and who has sent what."""

import errno
import os
import socket
import stat
import struct
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 2048
"""Of one datagram; the client sends a quarter of this."""
_CREDENTIALS: Final = struct.Struct("3i")
_TRUNCATED: Final = int(socket.MSG_TRUNC)  # as an enum's member its `&` costs as much as the call to the kernel
_ROOM: Final = socket.CMSG_LEN(_CREDENTIALS.size)  # for nothing else: files that a sender attaches are closed by the kernel


class ReportSocketError(Exception):
    """The socket cannot be opened; the message says why and what to do."""


def places() -> tuple[Path, ...]:
    """Where the socket stands if no setting says so, best first; clients look there too."""
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    return (Path("/run/fettle/report.sock"), *((Path(own) / "fettle/report.sock",) if own.startswith("/") else ()))


class ReportSocket:
    """A datagram socket that everybody on the node may write to (0666, in a folder of 0755 that only the agent's user may change).

    The kernel says who sent a datagram; what the sender says of itself does not count.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        _clear(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._socket.bind(str(path))
            os.chmod(path, 0o666)  # noqa: S103 - jobs of every user report here
            self._identity = _identity(path)
        except OSError as error:
            self._socket.close()
            raise ReportSocketError(f"{path}: cannot be opened: {error.strerror or error}.") from None

    def fileno(self) -> int:
        """For an event loop."""
        return self._socket.fileno()

    def receive(self) -> tuple[int, bytes | None]:
        """Pid of the sender in the agent's namespace (0: it is in another) and the datagram, None where it is too long.

        BlockingIOError where there is none.
        """
        data, attached, flags, _ = self._socket.recvmsg(MAX_BYTES, _ROOM)
        pid = 0
        for level, kind, content in attached:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(content) >= _CREDENTIALS.size:
                pid = _CREDENTIALS.unpack_from(content)[0]
        return pid, None if flags & _TRUNCATED else data

    def close(self) -> None:
        """Close it, and remove it if it is still this one."""
        self._socket.close()
        try:
            if _identity(self.path) == self._identity:
                os.unlink(self.path)
        except OSError:
            return


def is_heard(path: Path) -> bool:
    """Whether somebody listens at the socket; nothing is sent."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def trouble(path: Path) -> str | None:
    """What is in the way of a socket there, as a sentence; None where one could be made. Nothing is touched."""
    there = next(folder for folder in (path.parent, path.parent.parent) if folder == path.parent.parent or folder.exists())
    if not there.is_dir():
        return f"{path.parent}: the folder above it is not there; make it, or name another report_socket."
    if os.path.lexists(path) and not stat.S_ISSOCK(os.lstat(path).st_mode):
        return f"{path}: is there and is no socket; remove it, or name another report_socket."
    if not os.access(there, os.W_OK | os.X_OK):
        return f"{there}: may not be written by this user."
    return None


def _identity(path: Path) -> tuple[int, int]:
    """An inode's number is used again at once, its time is not."""
    found = os.lstat(path)
    return found.st_ino, found.st_ctime_ns


def _clear(path: Path) -> None:
    """Make the folder, and remove a socket that an agent left; ReportSocketError for anything else that is there."""
    try:
        if not path.parent.exists():
            path.parent.mkdir()
            path.parent.chmod(0o755)  # whatever the umask says
        found = os.lstat(path)
    except FileNotFoundError:
        if path.parent.is_dir():
            return
        raise ReportSocketError(
            f"{path.parent}: the folder above it is not there; make it, or name another report_socket."
        ) from None
    except OSError as error:
        raise ReportSocketError(f"{path}: {error.strerror or error}.") from None
    if not stat.S_ISSOCK(found.st_mode):
        raise ReportSocketError(f"{path}: is there and is no socket; remove it, or name another report_socket.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        probe.setblocking(False)
        answer = probe.connect_ex(str(path))
    if answer != errno.ECONNREFUSED:
        raise ReportSocketError(f"{path}: another agent listens there, or one that this user may not replace.")
    try:
        os.unlink(path)
    except OSError as error:
        raise ReportSocketError(f"{path}: cannot be replaced: {error.strerror or error}.") from None
