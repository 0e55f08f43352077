"""Shared memory that is too small for the batches that loader processes hand over.

Docker gives a container 64 MiB of /dev/shm; a worker that finds no room there dies with a bus error. What the process itself sees counts.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_BUS_ERROR = (c.note_log_error == "bus_error").fill_null(False)
_MIB = 1 << 20

RULE = Rule(
    id="container-shm-small",
    scope="job",
    severity="warn",
    bottleneck="data",
    group="capacity",
    needs=(
        Need(("shm_size_bytes", "dataloader_workers")),
        Need(("note_log_error",), opens=_BUS_ERROR, clears=~_BUS_ERROR),
    ),
    thresholds=(
        Threshold("shm_size_opens_mib", 64.0, "mebibytes", 1.0, 1e6),
        Threshold("shm_used_share_opens", 0.85, "ratio", 0.1, 1.0),
        Threshold("shm_used_share_clears", 0.60, "ratio", 0.05, 1.0),
    ),
    opens=(
        (c.dataloader_workers >= 1)
        & ((c.shm_size_bytes <= _MIB * param("shm_size_opens_mib")) | (c.shm_used_share >= param("shm_used_share_opens")))
    )
    | _BUS_ERROR,
    clears=(
        (c.dataloader_workers < 1)
        | (
            (c.shm_size_bytes > _MIB * param("shm_size_opens_mib"))
            & (c.shm_used_share.fill_null(0) < param("shm_used_share_clears"))
        )
    )
    & ~_BUS_ERROR,
    title=_("Shared memory is too small for the data loader"),
    summary=_(
        "The job's /dev/shm has {shm_size_gib:.2f} GiB, of which {shm_used_share:.0%} is used, for {dataloader_workers:.0f} loader processes that hand their batches over through it."
    ),
    cases=(
        Says(c.shm_size_bytes.is_null(), _("The job's log shows a bus error: its loader processes found no room in /dev/shm.")),
    ),
    evidence=(
        Show("shm_size_bytes", "bytes", "<=", None),
        Show("shm_used_share", "ratio", ">=", "shm_used_share_opens"),
        Show("dataloader_workers", "processes", ">=", 1.0),
    ),
    change=(
        Step(
            "flag",
            "docker run --gpus all --shm-size=16g --ulimit nofile=1048576 IMAGE",
            when=c.scheduler.is_null() | (c.scheduler == "docker"),
        ),
        Step(
            "config",
            "volumes: [{{name: dshm, emptyDir: {{medium: Memory, sizeLimit: 16Gi}}}}]\nvolumeMounts: [{{name: dshm, mountPath: /dev/shm}}]",
            when=c.scheduler == "kubernetes",
        ),
        Step("command", "mount -o remount,size=50% /dev/shm", when=c.scheduler == "slurm"),
    ),
    recovers=0.0,
    risk=_("Memory that batches take there counts against the limit of the pod or job."),
    rollback=_("Set the size before."),
    verify=_("At most {shm_used_share_clears:.0%} of /dev/shm is used, and no bus error for seven days."),
    sources=(
        "https://docs.pytorch.org/docs/stable/multiprocessing.html",
        "https://docs.docker.com/reference/cli/docker/container/run/#shm-size",
    ),
)
