"""Small files of the agent's own, in a folder where anybody with its rights may have put something else."""

import errno
import os
import stat
from pathlib import Path


def read(path: Path, most: int = 1 << 20) -> bytes:
    """What the file has, `most` bytes of it; OSError for what is no file: a pipe or a device would hold the reader up for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no file", str(path))
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)
