"""Some samples take far longer to prepare than the rest, and each holds up the batches behind it.

A DataLoader hands batches out in order: while one worker is at a slow sample, finished batches wait. So a few steps are long
(p99 at three times the median), they are long for want of data, one worker is busier than the others (twice their median), and the workers
together are not (below 0.7 of a core each: more of them would not help). Without the script's step times nothing tells.
"""

import polars as pl

from advisor.room import LOADERS
from advisor.rule import Expect, Need, Rule, Show, Step, Terms, Threshold, param
from advisor.text import _

c = pl.col

_OUT_OF_ORDER = (c.torch_release >= 206).fill_null(True) & LOADERS

RULE = Rule(
    id="slow-sample-head-of-line",
    scope="job",
    severity="advice",
    bottleneck="data",
    needs=(Need(("step_time_p99_ratio", "data_wait_share", "slow_worker_ratio", "worker_cores"), "medium"),),
    thresholds=(
        Threshold("step_time_p99_ratio_opens", 3.0, "ratio", 1.1, 100.0),
        Threshold("step_time_p99_ratio_clears", 2.0, "ratio", 1.0, 100.0),
        Threshold("data_wait_share_opens", 0.1, "ratio", 0.0, 1.0),
        Threshold("data_wait_share_clears", 0.05, "ratio", 0.0, 1.0),
        Threshold("slow_worker_ratio_opens", 2.0, "ratio", 1.0, 100.0),
        Threshold("slow_worker_ratio_clears", 1.5, "ratio", 1.0, 100.0),
        Threshold("worker_cores_opens", 0.7, "cores", 0.05, 1.0),
        Threshold("worker_cores_clears", 0.85, "cores", 0.05, 1.0),
    ),
    opens=(c.step_time_p99_ratio >= param("step_time_p99_ratio_opens"))
    & (c.data_wait_share >= param("data_wait_share_opens"))
    & (c.slow_worker_ratio >= param("slow_worker_ratio_opens"))
    & (c.worker_cores < param("worker_cores_opens")),
    clears=(c.step_time_p99_ratio < param("step_time_p99_ratio_clears"))
    | (c.data_wait_share < param("data_wait_share_clears"))
    | (c.slow_worker_ratio < param("slow_worker_ratio_clears"))
    | (c.worker_cores >= param("worker_cores_clears")),
    unless=(c.steps_total < 50)
    | (c.run_s < 600)
    | (pl.coalesce(c.told_phase, c.note_phase) != "train")
    | (c.io_delay_share >= 0.2)
    | (c.psi_cpu_some_pct >= 25)
    # of fewer than a hundred steps a single save is the p99
    | ((c.since_checkpoint_s < c.window_s) & (c.steps < 100)),
    yields_to=(
        "storage-small-files",
        "storage-throughput-bound",
        "dataloader-oversubscribed",
        "cpu-offload-stall",
        "cgroup-cpu-throttled",
    ),
    title=_("A few slow samples hold up whole batches"),
    summary=_(
        "One step in a hundred takes {step_time_p99_ratio:.1f} times the median and {data_wait_share:.0%} of the time is spent waiting for"
        " a batch, yet workers use {worker_cores:.2f} cores each and the busiest {slow_worker_ratio:.1f} times the others' median."
    ),
    evidence=(
        Show("step_time_p99_ratio", "number", ">=", "step_time_p99_ratio_opens"),
        Show("step_time_s", "seconds"),
        Show("data_wait_share", "ratio", ">=", "data_wait_share_opens"),
        Show("slow_worker_ratio", "number", ">=", "slow_worker_ratio_opens"),
        Show("worker_cores", "cores", "<", "worker_cores_opens"),
        Show("io_delay_share", "ratio", "<", 0.2),
    ),
    change=(
        Step(
            "diff",
            "- loader = DataLoader(ds, num_workers=W)\n+ loader = DataLoader(ds, num_workers=W, in_order=False, prefetch_factor=8)",
            when=_OUT_OF_ORDER,
        ),
        Step(
            "diff",
            "- loader = DataLoader(ds, num_workers=W)\n+ loader = DataLoader(ds, num_workers=W, prefetch_factor=8)",
            when=(c.torch_release < 206) & LOADERS,
        ),
        Step(
            "diff",
            "- sampler = RandomSampler(ds)\n"
            "+ batches = [order[i : i + B] for i in range(0, len(order), B)]  # order: indices sorted by length, then shuffle the batches",
        ),
        Step("config", "# run the expensive transform once, offline, and store its result beside the sample"),
    ),
    gain=Expect(
        1.05,
        (1 / (1 - c.data_wait_share).clip(0.05)).clip(1.05, 3.6),
        _(
            "The upper value is 1 / (1 - data share). For comparison, a loader that takes slow samples out of the line was 3.6 times as fast"
            " as PyTorch's on average in its authors' runs."
        ),
    ),
    risk=_(
        "The order of samples is no longer reproducible, and short samples come early: leave it off where runs must repeat exactly."
    ),
    rollback=_("Remove in_order=False, and set the sampler back."),
    verify=_(
        "The p99 of step times falls below 1.5 times the median, the data share halves, samples per second rise by 5 %; the loss stays"
        " in its band."
    ),
    terms=(
        Terms(
            ~_OUT_OF_ORDER,
            _("Batches of sorted samples are less random: shuffle them, and compare the loss."),
            _("Set the sampler and the loader back."),
            _(
                "The p99 of step times falls below 1.5 times the median, the data share halves, samples per second rise by 5 %; the loss stays in its band."
            ),
        ),
    ),
    sources=("docs.pytorch.org/docs/stable/data.html", "arxiv.org/abs/2509.10712"),
)
