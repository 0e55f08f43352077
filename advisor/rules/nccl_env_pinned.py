"""NCCL tuning variables left in a job's environment.

They take a choice from NCCL that it makes by topology, size and release; what helped on one fabric hurts on another. Facts of a site belong
to /etc/nccl.conf, where all jobs have them.
"""

import polars as pl

from advisor.rule import Need, Rule, Show, Step
from advisor.text import _

c = pl.col

RULE = Rule(
    id="nccl-env-pinned",
    scope="job",
    severity=pl.when(c.share_communication >= 0.2).then(pl.lit("warn")).otherwise(pl.lit("info")),
    bottleneck=None,
    needs=(Need(("labels_known", "working_gpus")),),
    opens=(c.working_gpus >= 2) & c.env_pinned.is_not_null(),
    clears=c.env_pinned.is_null(),
    title=_("NCCL tuning variables are left in the job's environment"),
    summary=_("The job sets {env_pinned}: NCCL would choose by itself what they fix, anew for each topology, size and release."),
    evidence=(Show("working_gpus", "gpus", ">=", 2.0), Show("share_communication", "ratio"), Show("comm_share", "ratio")),
    change=(
        Step(
            "env",
            "unset NCCL_ALGO NCCL_PROTO NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_BUFFSIZE NCCL_NTHREADS NCCL_IB_GID_INDEX",
        ),
        Step(
            "env",
            "NCCL_NET_GDR_LEVEL=PXB  # levels by name: the meaning of the numbers changed",
            when=c.env_NCCL_NET_GDR_LEVEL.str.contains(r"^\d+$"),
        ),
        Step("config", "# /etc/nccl.conf: facts of the fabric alone, such as NCCL_IB_SL, as its owner sets them"),
    ),
    recovers=0.0,
    risk=_("Where the fabric needs a service level or traffic class (RoCE), packets are lost without it: try one job first."),
    rollback=_("Export the variables again."),
    verify=_("all_reduce at 1 MiB, 64 MiB and 1 GiB is not slower, and step time is not longer over 200 steps."),
    sources=("docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html: variables for debugging and tuning",),
)
