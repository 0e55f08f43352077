"""Jobs of schedulers and what they gave them, as rows that tests stand on."""

from datetime import datetime
from typing import Any

from fleet.inventory.models import Gpu
from fleet.jobs.models import Allocation, Job


def job(job_id: str, at: datetime, **more: Any) -> Job:
    """A job of the cluster west that began at `at`; it runs unless said otherwise."""
    told = {"cluster": "west", "source": "slurm", "user": "ada", "name": "train", "family": "west/ada/train", **more}
    return Job.objects.create(job_id=job_id, started_at=at, **told)


def give(to: Job, *gpus: Gpu, at: datetime | None = None, until: datetime | None = None, shared: bool = False) -> None:
    """Let the job hold the GPUs from `at`, else from its start, to `until`."""
    for one in gpus:
        Allocation.objects.create(
            job=to, node=one.node, node_name=one.node.name, gpu=one, device=one.uuid, from_at=at or to.started_at,
            until_at=until, shared=shared,
        )  # fmt: skip
