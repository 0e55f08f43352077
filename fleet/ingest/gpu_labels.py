"""Who uses a GPU, as its agent tells: the newest labels on the GPU's row, and the jobs that the kubelet's labels name.

Agents tell labels when they change, and all of them with the first batch of a boot: a GPU that it does not name has none.
Only the store's thread calls this, before the chunk is acked; told twice, the same changes nothing.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from django.db import transaction

from fleet.ingest.accept import clean
from fleet.ingest.columns import Chunk
from fleet.inventory.models import Gpu, Node
from fleet.jobs import kubernetes
from wire.labels import gpu_label_max

_IN_ONE_QUERY: Final = 500


def apply(chunks: Iterable[Chunk]) -> None:
    """Bring the GPUs' rows up to these chunks; what is older than what a row has is left out."""
    told: dict[int, tuple[float, dict[str, str]]] = {}
    for one in sorted((one for chunk in chunks for one in chunk.taken), key=lambda one: one.t):
        if one.batch.seq == 0:
            told.update((gpu, (one.t, {})) for gpu in one.session.gpus)
        for labels in one.batch.gpu_labels:
            words = {name: text for name, value in labels.labels.items() if (text := clean(value, gpu_label_max(name)))}
            told[one.session.gpus[labels.gpu]] = (one.t, words)
    keys = sorted(told)
    for start in range(0, len(keys), _IN_ONE_QUERY):
        changed = []
        for gpu in Gpu.objects.filter(pk__in=keys[start : start + _IN_ONE_QUERY]).only(
            "node", "uuid", "labels", "labels_told_at"
        ):
            t, words = told[gpu.pk]
            at = datetime.fromtimestamp(t, UTC)
            if gpu.labels != words and (gpu.labels_told_at is None or at > gpu.labels_told_at):
                gpu.labels, gpu.labels_told_at = words, at
                changed.append(gpu)
        if changed:
            with transaction.atomic():  # labels that are kept were told on: a crash between the two would lose the jobs
                Gpu.objects.bulk_update(changed, ["labels", "labels_told_at"])
                _tell_jobs([gpu for gpu in changed if "cluster" in gpu.labels])


def _tell_jobs(gpus: Iterable[Gpu]) -> None:
    """Tell of the pods, node by node and in the order of the moments: a node's GPUs change together, or one after the other."""
    by_moment: dict[tuple[datetime, int], list[Gpu]] = defaultdict(list)
    for gpu in gpus:
        by_moment[gpu.labels_told_at or datetime.now(UTC), gpu.node_id].append(gpu)
    nodes = Node.objects.in_bulk({node for _, node in by_moment})
    for (at, node), some in sorted(by_moment.items()):
        if node in nodes:
            kubernetes.take(nodes[node], some, at)
