"""Which NUMA node a CPU belongs to, and whether a process runs where its GPU is."""

from collections.abc import Collection
from pathlib import Path

from agents.collectors import procfs
from agents.collectors.cpu_list import ranges
from wire.messages import Cell


class Numa:
    """The machine's nodes, read once: where a CPU is does not change while the kernel runs."""

    def __init__(self, sys: Path) -> None:
        self._folder = sys / "devices" / "system" / "node"
        self._node_of: dict[int, int] | None = None

    def is_local(self, processor: int | None, nodes: Collection[int]) -> Cell | str:
        """1 where `processor` is on one of `nodes`, 0 where it is not; `unsupported` on a machine of one node, `not_found` where a
        place is not known."""
        if self._node_of is None:
            self._node_of = self._read()
        if len(set(self._node_of.values())) < 2:
            return "unsupported"
        place = None if processor is None else self._node_of.get(processor)
        return "not_found" if place is None or not nodes else int(place in nodes)

    def _read(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for folder in self._folder.glob("node[0-9]*"):
            try:
                found |= dict.fromkeys(ranges(procfs.read(str(folder / "cpulist")).decode()), int(folder.name[4:]))
            except (OSError, ValueError):
                continue
        return found
