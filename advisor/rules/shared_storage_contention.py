"""One job's reads slow everybody's storage.

Several jobs on several nodes wait for input at once while one of them reads most of what is read: it is not their loaders.
"""

import polars as pl

from advisor.rule import Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="shared-storage-contention",
    scope="fleet",
    severity="advice",
    bottleneck="data",
    needs=(Need(("data_starved_jobs", "data_starved_nodes", "storage_top_share"), "medium"),),
    thresholds=(
        Threshold("starved_jobs_opens", 3.0, "jobs", 2.0, 1000.0),
        Threshold("starved_jobs_clears", 2.0, "jobs", 0.0, 1000.0),
        Threshold("top_share_opens", 0.4, "ratio", 0.1, 1.0),
    ),
    opens=(c.data_starved_jobs >= param("starved_jobs_opens"))
    & (c.data_starved_nodes >= 2)
    & (c.storage_top_share >= param("top_share_opens")),
    clears=(c.data_starved_jobs < param("starved_jobs_clears")) | (c.storage_top_share < 0.5 * param("top_share_opens")),
    title=_("One job slows the storage of others"),
    summary=_(
        "{data_starved_jobs:.0f} jobs on {data_starved_nodes:.0f} nodes wait for input while {storage_top_job} reads {storage_top_share:.0%} of all that is read."
    ),
    evidence=(
        Show("data_starved_jobs", "jobs", ">=", "starved_jobs_opens"),
        Show("data_starved_nodes", "nodes", ">=", 2.0),
        Show("storage_top_share", "ratio", ">=", "top_share_opens"),
        Show("storage_await_ratio", "ratio"),
    ),
    change=(
        Step(
            "command", "srun --ntasks-per-node=1 rsync -a /data/set/ $SLURM_TMPDIR/set/  # the heavy job reads from its own disk"
        ),
        Step("command", "sbatch --begin=now+5minutes job.sh  # starts that do not read at the same moment"),
        Step("config", "# a limit of the file system for that client, and checkpoints on a mount of their own"),
    ),
    recovers=0.0,
    risk=_("The heavy job starts later."),
    rollback=_("Take the limit away."),
    verify=_("The others no longer wait for input over a day while the heavy job runs."),
    sources=("doc.lustre.org: network request scheduler",),
)
