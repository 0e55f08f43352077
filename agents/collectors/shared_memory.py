"""The mount /dev/shm as a process sees it: a container has one of its own, of 64 MiB unless told otherwise.

The folder is opened below the process's own root and no link is followed, so that no path leads elsewhere.
"""

import os
from typing import Final

from agents.collectors import procfs
from agents.collectors.below import FOLDER
from agents.collectors.process_readers import Answers

_NAMES: Final = ("shm_used_bytes", "shm_size_bytes")


def of_process(base: str) -> Answers:
    """Its size and what is in use of it; `not_found` where it is no mount of its own, `unsupported` where nothing limits it."""
    opened: list[int] = []
    try:
        opened.append(os.open(f"{base}/root", FOLDER))
        for part in ("dev", "shm"):
            opened.append(os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=opened[-1]))
        if os.fstat(opened[1]).st_dev == os.fstat(opened[2]).st_dev:
            return dict.fromkeys(_NAMES, "not_found")
        stat = os.statvfs(opened[2])
    except NotADirectoryError:  # a link
        return dict.fromkeys(_NAMES, "not_found")
    except OSError as error:
        return dict.fromkeys(_NAMES, procfs.reason(error))
    finally:
        for one in opened:
            os.close(one)
    size = stat.f_blocks * stat.f_frsize
    if not size:
        return dict.fromkeys(_NAMES, "unsupported")
    return {"shm_used_bytes": size - stat.f_bfree * stat.f_frsize, "shm_size_bytes": size}
