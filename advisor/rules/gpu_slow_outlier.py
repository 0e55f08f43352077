"""One GPU is slower than others of its model under the same settings: whoever it works with waits for it at every step.

By bench: in two of its last three runs 7 % below the median of the newest scores of its model, at the same power limit, in the same
protocol. A single run may have met a warm rack or another process; healthy cards of one model lie within a few per cent. The
bench counts for two weeks (`fleet/benches/peers.py`), and while it does, it alone judges.

In a job, without a bench, at lower confidence: at full load the clock is 5 % below the median of the same job's GPUs and no reason
for it is told, or the power is 8 % below it at the same clock. A GPU with less work draws less power too, so that it must be as
busy as one can be.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_BY_BENCH = (c.bench_slow_runs >= param("slow_runs")) & (c.bench_ratio <= param("bench_ratio_opens"))
_NO_REASON = (
    (c.hw_slowdown_share.fill_null(0) < 0.01)
    & (c.sw_thermal_share.fill_null(0) < 0.01)
    & (c.power_brake_share.fill_null(0) < 0.01)
    & (c.power_cap_share.fill_null(0) < 0.5)
)
_LOADED = (c.busy >= param("busy_loaded")) & (c.sm_active >= param("sm_active_loaded"))
_SLOW_CLOCK = (c.clock_to_peers <= param("clock_to_peers_opens")) & _NO_REASON
_LOW_POWER = (c.power_to_peers <= param("power_to_peers_opens")) & c.clock_to_peers.is_between(0.98, 1.02)
_SPEED = pl.coalesce(c.bench_ratio, c.clock_to_peers, pl.lit(1.0)).clip(0.5, 1.0)

RULE = Rule(
    id="gpu-slow-outlier",
    scope="gpu",
    severity="warn",
    bottleneck=None,
    group="clocks",
    needs=(
        Need(
            ("bench_ratio", "bench_slow_runs"),
            opens=_BY_BENCH,
            clears=(c.bench_ratio >= param("bench_ratio_clears")) | (c.bench_slow_runs == 0),
        ),
        Need(
            ("power_to_peers", "clock_to_peers", "busy", "sm_active"),
            "low",
            opens=_LOADED & (_SLOW_CLOCK | _LOW_POWER),
            clears=(c.busy < 0.5)
            | ((c.clock_to_peers >= param("clock_to_peers_clears")) & (c.power_to_peers >= param("power_to_peers_clears"))),
        ),
    ),
    thresholds=(
        Threshold("slow_runs", 2.0, "runs", 1.0, 3.0),
        Threshold("bench_ratio_opens", 0.93, "ratio", 0.5, 1.0),
        Threshold("bench_ratio_clears", 0.97, "ratio", 0.5, 1.0),
        Threshold("busy_loaded", 0.95, "ratio", 0.5, 1.0),
        Threshold("sm_active_loaded", 0.6, "ratio", 0.0, 1.0),
        Threshold("clock_to_peers_opens", 0.95, "ratio", 0.5, 1.0),
        Threshold("clock_to_peers_clears", 0.97, "ratio", 0.5, 1.0),
        Threshold("power_to_peers_opens", 0.92, "ratio", 0.5, 1.0),
        Threshold("power_to_peers_clears", 0.95, "ratio", 0.5, 1.0),
    ),
    opens=_BY_BENCH,
    clears=c.bench_ratio >= param("bench_ratio_clears"),
    unless=(c.power_limit_ratio < 0.95) | (c.pcie_gen_ratio < 1) | (c.pcie_width_ratio < 1),
    yields_to=("hw-slowdown-active", "thermal-drift-vs-peers", "power-cap-limited", "clocks-locked-low", "pcie-link-degraded"),
    title=_("The GPU is slower than its peers"),
    summary=_(
        "Under full load its clock is {clock_to_peers:.2f} and its power {power_to_peers:.2f} times the median of the GPUs of the same job,"
        " and no reason is told."
    ),
    cases=(
        Says(
            c.bench_ratio.is_not_null() & c.bench_slow_runs.is_not_null(),
            _(
                "It reached {bench_ratio:.2f} times the median of its peers in {bench_name}, and was that slow in {bench_slow_runs:.0f} of its last"
                " {bench_runs:.0f} runs."
            ),
        ),
    ),
    evidence=(
        Show("bench_ratio", "ratio", "<=", "bench_ratio_opens"),
        Show("bench_slow_runs", "runs", ">=", "slow_runs"),
        Show("bench_age_s", "seconds"),
        Show("clock_to_peers", "ratio", "<=", "clock_to_peers_opens"),
        Show("power_to_peers", "ratio", "<=", "power_to_peers_opens"),
        Show("sm_clock_p95_mhz", "megahertz"),
        Show("loaded_power_w", "watts"),
        Show("temperature_c", "celsius"),
    ),
    change=(
        Step(
            "command", "nvidia-smi -i {index} -q -d CLOCK,PERFORMANCE,POWER,TEMPERATURE,ECC,ROW_REMAPPER  # compare with a peer"
        ),
        Step("command", "nvidia-smi -i {index} -r  # drain the node first: the GPU must be idle"),
        Step("command", "dcgmi diag -r 3 -i {index}"),
        Step("command", "fettle bench  # again, alone on the node"),
        Step(
            "config",
            "perf=low  # a label that keeps it out of synchronous jobs over several GPUs until it is reseated or swapped",
        ),
    ),
    gain=Expect(
        1.0,
        1 / _SPEED,
        _(
            "Arithmetic: the ratio of its peers' speed to its own, for a job that waits for it in each step; next to nothing for one that does not."
        ),
    ),
    risk=_("The node is missing while it is drained."),
    rollback=_("Take the label off."),
    verify=_("Its score is at least {bench_ratio_clears:.2f} of the median in three runs."),
    sources=("fettle bench", "arxiv.org/abs/2402.15627 (MegaScale)"),
)
