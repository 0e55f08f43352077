"""Which labels of processes the server has been told, so that each travels once and again when it changes."""

from typing import Final

from msgspec import structs

from wire.messages import Labels, Processes

BYTES_A_TICK: Final = 48 * 1024
"""A frame has its limit; what does not fit goes with the ticks that follow."""


class ToldLabels:
    """What was told of each process that is still there."""

    def __init__(self) -> None:
        self._told: dict[int, dict[str, str]] = {}

    def news(self, processes: Processes) -> Processes:
        """`processes` with those labels alone that are new or changed; one that has lost its labels is told as `{}`."""
        now = {one.pid: one.labels for one in processes.labels}
        here = set(processes.pid)
        for pid in self._told.keys() - here:
            del self._told[pid]
        news: list[Labels] = []
        left = BYTES_A_TICK
        for pid in processes.pid:
            labels = now.get(pid, {})
            if labels == self._told.get(pid, {}):
                continue
            left -= sum(len(name) + len(value) + 8 for name, value in labels.items()) + 16
            if left < 0 and news:
                break
            self._told[pid] = labels
            news.append(Labels(pid, labels))
        return processes if news == processes.labels else structs.replace(processes, labels=news)

    def reset(self) -> None:
        """Tell everything again from the next tick on: what was told may not have arrived."""
        self._told = {}
