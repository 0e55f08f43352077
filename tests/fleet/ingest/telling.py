"""A node whose agent tells of serving engines and of processes in words, for tests that need no connection."""

from typing import Any

from fleet.ingest.accept import Session, check_batch, check_hello
from fleet.ingest.columns import Accepted
from fleet.ingest.outbox import Outbox
from fleet.inventory.models import Node
from tests.speaking import GPU, HOST, PROCESS, batch, hello
from wire import metrics
from wire.messages import Engines, Hello, Labels, Processes, schema_id

T = 1_750_000_000.0
ENGINE = tuple(metric.name for metric in metrics.sent("engine"))
URL = "http://127.0.0.1:8000"


async def nobody(message: object) -> None:
    """Nobody listens to the acks."""


def telling(node: str) -> Hello:
    """The hello of an agent that reads serving engines too."""
    return hello(node, engine_metrics=ENGINE, schema=schema_id(GPU, HOST, PROCESS, ENGINE))


def engines(*names: str, kind: str = "vllm", model: str = "Qwen3-8B", pid: int | None = 4711, **values: float | None) -> Engines:
    """Engines of these names that all say the same."""
    count = len(names)
    return Engines(
        name=list(names),
        kind=[kind] * count,
        model=[model] * count,
        pid=[pid] * count,
        values=[[values.get(metric)] * count for metric in ENGINE] if names else [],
    )


def processes(listed: dict[int, str], labels: dict[int, dict[str, str]] | None = None) -> Processes:
    """These pids with their names, and what is told of some of them."""
    return Processes(
        pid=list(listed),
        name=list(listed.values()),
        user=["ann"] * len(listed),
        values=[[None] * len(listed) for _ in PROCESS] if listed else [],
        labels=[Labels(pid, words) for pid, words in (labels or {}).items()],
    )


class Teller:
    """A node in the inventory, and batches of its agent that pass the checks."""

    def __init__(self, name: str = "n") -> None:
        self.said = telling(name)
        self.row = Node.objects.create(name=name)
        self.session = Session(
            node=self.row.pk,
            node_name=name,
            boot="boot-1",
            layout=check_hello(self.said, name),
            gpus=(1, 2),
            gpu_by_uuid={},
            outbox=Outbox(nobody),
        )
        self.seq = 0

    def says(self, at: float, **changes: Any) -> Accepted:
        """One batch, `at` seconds after T; WireError when it is not taken."""
        made = batch(self.said, self.seq, T + at, **changes)
        self.seq += 1
        check_batch(made, self.session, T + at)
        return Accepted(self.session, made, T + at, 100)
