"""What this ingest process took in, counted on the event loop and written with the books; /metrics reads the rows.

Any process may be asked for /metrics, also one that takes no agents in, so the numbers travel by the database. A row that
is older than SILENT_S belongs to a process that ended or hangs: it is left out, never 0.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from django.utils import timezone

from fleet.ingest.columns import Chunk
from fleet.ingest.models import Intake
from fleet.ingest.writer import Writer

SILENT_S: Final = 30
FORGET: Final = timedelta(hours=1)

Numbers = dict[str, float]


@dataclass(slots=True)
class Meter:
    """Counts since the start; `waited_s` is how long batches waited in all from their arrival to the store, `lag_s` the newest write's longest."""

    batches: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    waited_s: float = 0.0
    lag_s: float = 0.0
    clock: Callable[[], float] = time.time
    stored_at: float | None = None

    def stored(self, chunks: Iterable[Chunk]) -> None:
        """The store has taken these chunks."""
        now, lag = self.clock(), 0.0
        for chunk in chunks:
            for scope, frames in chunk.frames.items():
                self.rows[scope] += sum(frame.height for frame in frames)
            self.rows["engine"] += sum(frame.height for frame in chunk.engines)
            self.batches += len(chunk.taken)
            for one in chunk.taken:
                self.waited_s += max(0.0, now - one.at)
                lag = max(lag, now - one.at)
        self.lag_s, self.stored_at = lag, now

    def numbers(self, writer: Writer, agents: int) -> Numbers:
        """All of it as /metrics names it, with the writer's queue and the number of agents that are connected."""
        lag = self.lag_s
        if writer.failing is not None and self.stored_at is not None:
            lag = max(lag, self.clock() - self.stored_at)
        told: Numbers = {f"rows.{scope}": rows for scope, rows in self.rows.items()}
        return told | {
            "batches": self.batches,
            "waited_s": self.waited_s,
            "lag_s": max(0.0, lag),
            "queue_batches": writer.batches,
            "queue_bytes": writer.bytes,
            "failing": float(writer.failing is not None),
            "agents": agents,
        }


def write(process: str, numbers: Numbers) -> None:
    """Make the process's row say this, and drop those of processes that are long gone."""
    now = timezone.now()
    Intake.objects.update_or_create(process=process, defaults={"seen_at": now, "numbers": numbers})
    Intake.objects.filter(seen_at__lt=now - FORGET).delete()


def newest() -> dict[str, Numbers]:
    """The numbers of the processes that are there, by the first eight letters of their name."""
    there = Intake.objects.filter(seen_at__gte=timezone.now() - timedelta(seconds=SILENT_S)).order_by("process")
    return {process[:8]: numbers for process, numbers in there.values_list("process", "numbers")}
