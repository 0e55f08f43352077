"""More processes prepare input than the node has cores for.

The cores are full (0.9), or tasks wait for one a good part of the time (32 workers on 16 cores kept 0.88 of them busy, and somebody
waited 62 % of the time: lab), most of it by the jobs' children, and there are more of those than cores. Or the GPU waits for data
although they are near two for each core and keep half of the cores at work: where memory or the disk is what limits them, cores stay
free (11 of 32), and half of the workers still were faster (lab, three runs). Children alone say nothing: compile helpers wait at 0 % CPU.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="dataloader-oversubscribed",
    scope="node",
    severity="warn",
    bottleneck="data",
    needs=(Need(("cpu_busy_cores", "cores", "children", "children_cores")),),
    thresholds=(
        Threshold("cpu_busy_share_opens", 0.9, "ratio", 0.0, 1.0),
        Threshold("cpu_busy_share_clears", 0.8, "ratio", 0.0, 1.0),
        Threshold("psi_opens_pct", 25.0, "percent", 1.0, 100.0),
        Threshold("psi_clears_pct", 10.0, "percent", 0.0, 100.0),
        Threshold("children_per_core_opens", 1.2, "processes", 0.5, 10.0),
        Threshold("children_per_core_clears", 1.0, "processes", 0.5, 10.0),
        Threshold("children_per_core_waiting", 1.8, "processes", 1.0, 10.0),
        Threshold("share_data_opens", 0.35, "ratio", 0.0, 1.0),
        Threshold("share_data_clears", 0.22, "ratio", 0.0, 1.0),
    ),
    opens=(
        (c.cpu_busy_cores >= param("cpu_busy_share_opens") * c.cores)
        | (c.psi_cpu_some_pct >= param("psi_opens_pct")).fill_null(False)
        | ((c.share_data >= param("share_data_opens")) & (c.children >= param("children_per_core_waiting") * c.cores)).fill_null(
            False
        )
    )
    & (c.children >= param("children_per_core_opens") * c.cores)
    & (c.children_cores >= 0.5 * c.cores),
    clears=(
        (c.cpu_busy_cores < param("cpu_busy_share_clears") * c.cores)
        & (c.psi_cpu_some_pct.fill_null(0) < param("psi_clears_pct"))
        & (c.share_data.fill_null(0) < param("share_data_clears"))
    )
    | (c.children < param("children_per_core_clears") * c.cores),
    title=_("More loader processes than CPU cores"),
    summary=_("Helper processes of GPU jobs: {children:.0f}, on {cores:.0f} cores, {cpu_busy_cores:.1f} of which are busy."),
    evidence=(
        Show("children", "processes"),
        Show("cores", "cores"),
        Show("cpu_busy_cores", "cores"),
        Show("children_cores", "cores"),
        Show("psi_cpu_some_pct", "percent"),
        Show("share_data", "ratio"),
    ),
    change=(
        Step(
            "diff",
            "- loader = DataLoader(ds, num_workers=W)\n+ loader = DataLoader(ds, num_workers=max(1, len(os.sched_getaffinity(0)) // ranks_on_node - 1))",
        ),
        Step("env", "OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENCV_NUM_THREADS=1"),
        Step("diff", "+ cv2.setNumThreads(0)  # in worker_init_fn"),
    ),
    gain=Expect(
        1.0,
        1.3,
        _(
            "An estimate: fewer switches and less cache thrash; more in the slowest steps. On H200, half of 32 workers on 16 cores gave 1.03 times the speed, half of 64 on 32 cores 1.10 to 1.18, and half the memory."
        ),
    ),
    risk=_("Too few workers starve the GPU: stay at the number of cores less one for each rank."),
    rollback=_("Set num_workers back."),
    verify=_("Step time's p99 over p50 falls below 1.5 and samples per second do not fall."),
    sources=("docs.pytorch.org/docs/stable/data.html",),
)
