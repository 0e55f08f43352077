"""A service got slower at the same load and the same requests.

The baseline is the median of the last days. Load and length of requests have to be alike within a tenth: a busier service is slower by nature.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_RATIO = c.e2e_s / c.base_e2e_s
_ALIKE = c.load_ratio.is_between(0.9, 1.1) & (c.tokens_per_request / c.base_tokens_per_request).fill_null(1).is_between(0.9, 1.1)
_FAR = c.e2e_s > c.base_e2e_s + 4 * c.base_mad_s

RULE = Rule(
    id="serving-latency-regression",
    scope="service",
    severity="warn",
    bottleneck=None,
    needs=(Need(("e2e_s", "base_e2e_s", "base_mad_s", "load_ratio")),),
    thresholds=(
        Threshold("latency_ratio_opens", 1.20, "ratio", 1.02, 10.0),
        Threshold("latency_ratio_clears", 1.05, "ratio", 1.0, 10.0),
        Threshold("base_days_opens", 2.0, "days", 0.1, 30.0),
    ),
    opens=_ALIKE & (param("latency_ratio_opens") <= _RATIO) & _FAR & (c.base_days >= param("base_days_opens")),
    clears=param("latency_ratio_clears") >= _RATIO,
    unless=c.age_s < 180,
    yields_to=(
        "hw-slowdown-active",
        "clocks-locked-low",
        "power-cap-limited",
        "gpu-co-tenant-contention",
        "kv-cache-preemption",
        "serving-queue-growth",
        "background-job-latency-spikes",
        "latency-clock-jitter",
        "serving-cold-start",
    ),
    title=_("The service is slower than before at the same load"),
    summary=_(
        "A request takes {e2e_s:.2f} s; over {base_days:.0f} days it took {base_e2e_s:.2f} s. Today's load is {load_ratio:.2f} times that of those days. First token {ttft_s:.3f} s (before {base_ttft_s:.3f}), a token {tpot_s:.4f} s (before {base_tpot_s:.4f})."
    ),
    cases=(
        Says(
            c.ttft_s.is_null() | c.base_ttft_s.is_null() | c.tpot_s.is_null() | c.base_tpot_s.is_null(),
            _(
                "A request takes {e2e_s:.2f} s; over {base_days:.0f} days it took {base_e2e_s:.2f} s. Today's load is {load_ratio:.2f} times that of those days."
            ),
        ),
    ),
    evidence=(
        Show("e2e_s", "seconds"),
        Show("base_e2e_s", "seconds"),
        Show("base_mad_s", "seconds"),
        Show("queue_s", "seconds"),
        Show("ttft_s", "seconds"),
        Show("tpot_s", "seconds"),
        Show("load_ratio", "ratio"),
        Show("sm_clock_cv", "ratio"),
        Show("other_cores", "cores"),
    ),
    change=(
        Step("command", "nvidia-smi -q -d CLOCK,PERFORMANCE,MEMORY,TEMPERATURE  # first the card"),
        Step("command", "cat /proc/pressure/cpu /proc/pressure/io && ps -eo pcpu,comm --sort=-pcpu | head  # then the host"),
        Step("command", "kubectl rollout undo deploy/NAME  # then the last change", when=c.scheduler == "kubernetes"),
        Step("command", "# start the image before, by its digest, and compare", when=c.scheduler.ne_missing("kubernetes")),
    ),
    gain=Expect(1.0, _RATIO, _("Arithmetic: back to the baseline's latency."), wins_time_back=False),
    risk=_("Rolling back loses what the new release brought."),
    rollback=_("Roll forward again."),
    verify=_("Latency within {latency_ratio_clears:.2f} of its baseline for 24 hours at the same load."),
    measure="e2e_mean_s",
    sources=(_("the service's own last days"),),
)
