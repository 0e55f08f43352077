"""The command's own processes in place of holders that this pid namespace cannot see.

In a container the driver may name processes by the host's pids, or name none. Then the command's descendants that have
a GPU's device file open are the ones that hold it, and what they do can still be read.
"""

import os
import re
import time
from pathlib import Path
from typing import Any, Final

from msgspec import structs

from agents import recorder
from agents.collectors import procfs
from agents.collectors.processes import ProcessCollector
from agents.source import PROCESS
from wire.recording import Sample

GROWN_BYTES: Final = 64 << 20
"""A CUDA context alone takes more: a GPU whose memory grew by this is used by somebody new."""
LOOK_S: Final = 2.0
"""Seconds between two searches for processes that have a GPU open."""
_DEVICE: Final = re.compile(r"/dev/nvidia\d+")


class StandIns:
    """Puts the descendants of `pid` where the holders are strangers. Samples whose holders can be seen stay as they are."""

    def __init__(self, pid: int, proc: str = "/proc") -> None:
        self._pid = pid
        self._proc = proc
        self._processes = ProcessCollector(Path(proc))
        self._first_used: dict[int, int] = {}
        self._users: list[int] = []
        self._look_at = float("-inf")

    def apply(self, sample: Sample) -> Sample:
        """`sample` with the command's processes as the holders of the GPUs whose memory grew since it began."""
        strange = [gpu for gpu in sample.gpus if self._has_grown(gpu) and not self._is_seen(sample, gpu)]
        if not strange:
            return sample
        users = self._gpu_users()
        if not users:
            return sample
        replaced = {gpu["index"]: _paired(gpu, number, strange, users) for number, gpu in enumerate(strange)}
        holders = {int(pid) for pids in replaced.values() for pid in pids}
        readings = self._processes.collect(holders, time.monotonic())
        known = [one for one in sample.processes if len(one) > 2]  # more than a pid and a name could be read
        return structs.replace(
            sample,
            gpus=tuple({**gpu, "pids": replaced[gpu["index"]]} if gpu["index"] in replaced else gpu for gpu in sample.gpus),
            processes=(
                *known,
                *({"pid": one.pid, "name": one.name, **recorder.named("process", PROCESS, one.values)} for one in readings),
            ),
        )

    def _has_grown(self, gpu: dict[str, Any]) -> bool:
        used = gpu.get("mem_used_bytes")
        return used is not None and used - self._first_used.setdefault(gpu["index"], used) >= GROWN_BYTES

    @staticmethod
    def _is_seen(sample: Sample, gpu: dict[str, Any]) -> bool:
        readable = {one["pid"] for one in sample.processes if len(one) > 2}
        return any(int(pid) in readable for pid in gpu.get("pids", ()))

    def _gpu_users(self) -> list[int]:
        """The command and its descendants that have a GPU open, in the order of their pids."""
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + LOOK_S
            self._users = [pid for pid in sorted(self._tree()) if self._has_gpu_open(pid)]
        return [pid for pid in self._users if os.path.exists(f"{self._proc}/{pid}")]

    def _tree(self) -> set[int]:
        children = procfs.children(procfs.parents(self._proc, {}))
        tree, pending = set(), [self._pid]
        while pending:
            pid = pending.pop()
            if pid not in tree:
                tree.add(pid)
                pending += children.get(pid, ())
        return tree

    def _has_gpu_open(self, pid: int) -> bool:
        directory = f"{self._proc}/{pid}/fd"
        try:
            for entry in os.listdir(directory):
                if _DEVICE.match(os.readlink(f"{directory}/{entry}")):
                    return True
        except OSError:
            return False
        return False


def _paired(gpu: dict[str, Any], number: int, strange: list[dict[str, Any]], users: list[int]) -> dict[str, int | None]:
    """Who holds `gpu`: one process a GPU where there are as many of each, else all of them on each."""
    pids = gpu.get("pids", {})
    sizes = sorted((size for size in pids.values() if size is not None), reverse=True)
    if len(users) == len(strange):
        return {str(users[number]): sum(sizes) if sizes else None}
    if len(users) == len(pids):
        return {str(user): pids[pid] for user, pid in zip(users, sorted(pids, key=int), strict=True)}
    return {str(user): None for user in users}
