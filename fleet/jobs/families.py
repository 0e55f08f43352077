"""The family of a scheduler's job: runs of one program by one user on one cluster, whatever number each bears."""

from advisor.job_family import job_family
from fleet.jobs.models import Job


def family_of(job: Job) -> str:
    """`cluster/user/name`, without run numbers, dates and hashes in the name; a job without a name is a family of its own."""
    name = (job.name or job.job_id).replace("/", "_")
    return f"{job.cluster}/{job_family(f'{job.cluster}/{job.user}/{name}', job.cluster)}"
