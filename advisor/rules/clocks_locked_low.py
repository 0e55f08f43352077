"""Clocks under load are far below their maximum and neither power nor heat explains it: somebody locked them.

Ratio to the maximum under load, 95th percentile: uncapped cards 1.0 (fp32 training, decoding); with the power cap bit 0.73 to
0.9, which is excluded.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="clocks-locked-low",
    scope="gpu",
    severity="warn",
    bottleneck="clocks",
    group="clocks",
    needs=(
        Need(("sm_clock_top_mhz", "sm_clock_max_mhz", "power_cap_share")),
        Need(("sm_clock_top_mhz", "sm_clock_max_mhz"), "low"),
    ),
    thresholds=(
        Threshold("sm_clock_p95_ratio_opens", 0.85, "ratio", 0.0, 1.0),
        Threshold("sm_clock_p95_ratio_clears", 0.93, "ratio", 0.0, 1.0),
        Threshold("mem_clock_p95_ratio_opens", 0.9, "ratio", 0.0, 1.0),
        Threshold("mem_clock_p95_ratio_clears", 0.95, "ratio", 0.0, 1.0),
    ),
    opens=(c.loaded_share >= 0.2)
    & (
        (c.sm_clock_p95_ratio <= param("sm_clock_p95_ratio_opens"))
        | (c.mem_clock_p95_ratio <= param("mem_clock_p95_ratio_opens"))
    )
    & (c.power_cap_share.fill_null(0) < 0.2)
    & (c.hw_slowdown_share.fill_null(0) < 0.05)
    & (c.sw_thermal_share.fill_null(0) < 0.05),
    clears=(c.sm_clock_p95_ratio >= param("sm_clock_p95_ratio_clears"))
    & (c.mem_clock_p95_ratio.fill_null(1) >= param("mem_clock_p95_ratio_clears")),
    yields_to=("hw-slowdown-active", "power-cap-limited"),
    title=_("Clocks are locked or capped by a setting"),
    summary=_(
        "Under load the SM clock reached {sm_clock_p95_ratio:.0%} of its maximum ({sm_clock_p95_mhz:.0f} of {sm_clock_max_mhz:.0f} MHz)"
        " and no power or thermal reason was given."
    ),
    evidence=(
        Show("sm_clock_p95_ratio", "ratio", "<=", "sm_clock_p95_ratio_opens"),
        Show("mem_clock_p95_ratio", "ratio"),
        Show("sm_clock_p95_mhz", "megahertz"),
        Show("sm_clock_max_mhz", "megahertz"),
        Show("power_cap_share", "ratio", "<", 0.2),
        Show("hw_slowdown_share", "ratio", "<", 0.05),
        Show("power_share", "ratio"),
    ),
    change=(
        Step("command", "nvidia-smi -i {index} -rgc && nvidia-smi -i {index} -rmc"),
        Step("command", "nvidia-smi -i {index} -rac  # where application clocks were set"),
    ),
    gain=Expect(
        1.05,
        (1 / c.sm_clock_p95_ratio.clip(0.2, 1.0)).clip(1.1, 5.0),
        _("The clock ratio, for work that is bound by compute."),
    ),
    risk=_("More power and heat; a benchmark or a power policy may want the lock."),
    rollback=_("Lock them again: nvidia-smi -lgc MIN,MAX."),
    verify=_("The clock under load is within 3 % of its peers' in ten minutes; step time falls accordingly."),
    sources=("docs.nvidia.com/deploy/nvidia-smi: --reset-gpu-clocks",),
)
