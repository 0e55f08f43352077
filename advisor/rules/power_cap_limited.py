"""A power limit below the default holds the clocks down.

Software power capping (0x4) at the default limit is normal at full load (bit set in all samples of bf16 training): never that.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="power-cap-limited",
    scope="gpu",
    severity="advice",
    bottleneck="clocks",
    group="clocks",
    needs=(Need(("power_limit_ratio", "power_cap_share", "sm_clock_top_mhz")),),
    thresholds=(
        Threshold("power_limit_ratio_least", 0.98, "ratio", 0.0, 1.0),
        Threshold("power_cap_share_opens", 0.5, "ratio", 0.0, 1.0),
        Threshold("power_cap_share_clears", 0.3, "ratio", 0.0, 1.0),
        Threshold("sm_clock_ratio_opens", 0.92, "ratio", 0.0, 1.0),
        Threshold("sm_clock_ratio_clears", 0.96, "ratio", 0.0, 1.0),
    ),
    opens=(c.power_limit_ratio < param("power_limit_ratio_least"))
    & (c.power_cap_share >= param("power_cap_share_opens"))
    & (c.sm_clock_ratio <= param("sm_clock_ratio_opens"))
    & (c.loaded_share >= 0.2),
    clears=(c.power_limit_ratio >= param("power_limit_ratio_least"))
    | (c.power_cap_share < param("power_cap_share_clears"))
    | (c.sm_clock_ratio >= param("sm_clock_ratio_clears")),
    yields_to=("hw-slowdown-active",),
    title=_("A power limit below the default holds the clocks down"),
    summary=_(
        "The limit is {power_limit_w:.0f} W of {power_limit_default_w:.0f} W by default; for {power_cap_share:.0%} of the time under"
        " load it capped the SM clock, which averaged {sm_clock_ratio:.0%} of its maximum."
    ),
    evidence=(
        Show("power_limit_ratio", "ratio", "<", "power_limit_ratio_least"),
        Show("power_cap_share", "ratio", ">=", "power_cap_share_opens"),
        Show("sm_clock_ratio", "ratio", "<=", "sm_clock_ratio_opens"),
        Show("power_limit_w", "watts"),
        Show("power_limit_default_w", "watts"),
    ),
    change=(Step("command", "nvidia-smi -i {index} -pl {power_limit_default_w:.0f}"),),
    gain=Expect(1.02, 1.2, _("Depends on the depth of the cap and on how compute-bound the job is; an estimate.")),
    risk=_("More power and heat in the rack: check its budget, and whether the limit is a policy."),
    rollback=_("Set the old limit again: nvidia-smi -pl {power_limit_w:.0f}."),
    verify=_("The SM clock rises by 5 % or step time falls by 2 %, and no hardware slowdown appears for a day."),
    sources=("docs.nvidia.com/deploy/nvidia-smi",),
)
