"""Hardware slowdown: overheating or the power brake (clock event reasons 0x8, 0x40, 0x80).

Idle cards lower their clocks by design, so only samples under load count. Two thresholds, so that it does not flap.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.started import drain
from advisor.text import _

c = pl.col

RULE = Rule(
    id="hw-slowdown-active",
    scope="gpu",
    severity=pl.when(c.hw_slowdown_share >= 0.2).then(pl.lit("critical")).otherwise(pl.lit("warn")),
    bottleneck="clocks",
    group="clocks",
    needs=(Need(("hw_slowdown_share",)),),
    thresholds=(
        Threshold("hw_slowdown_share_opens", 0.05, "ratio", 0.0, 1.0),
        Threshold("hw_slowdown_share_clears", 0.01, "ratio", 0.0, 1.0),
    ),
    opens=(c.hw_slowdown_share >= param("hw_slowdown_share_opens")) & (c.loaded_share >= 0.1),
    clears=c.hw_slowdown_share <= param("hw_slowdown_share_clears"),
    title=_("Hardware slowdown: overheating or power brake"),
    summary=_(
        "In {hw_slowdown_share:.0%} of the time under load the hardware held the clocks down (thermal {thermal_slowdown_share:.0%},"
        " power brake {power_brake_share:.0%}); the SM clock averaged {sm_clock_ratio:.0%} of its maximum at {temperature_c:.0f} °C."
    ),
    evidence=(
        Show("hw_slowdown_share", "ratio", ">=", "hw_slowdown_share_opens"),
        Show("thermal_slowdown_share", "ratio"),
        Show("power_brake_share", "ratio"),
        Show("sm_clock_ratio", "ratio"),
        Show("temperature_c", "celsius"),
        Show("loaded_power_w", "watts"),
    ),
    change=(
        Step(
            "command",
            "nvidia-smi -i {index} -q -d PERFORMANCE,TEMPERATURE,POWER  # thermal: airflow, inlet, filters, coolant; brake: PSU, PDU, cables, the BMC's cap",
        ),
        *drain("hw slowdown", "when it lasts longer than 15 minutes"),
    ),
    gain=Expect(
        1.0,
        (1 / c.sm_clock_ratio.clip(0.2, 1.0)).clip(1.1, 3.0),
        _("The ratio of the maximum to today's SM clock, for work that is bound by it."),
    ),
    risk=_("Draining takes the node's capacity; a lower power limit as a stopgap costs speed."),
    rollback=_("Restore the default power limit and resume the node after the repair."),
    verify=_("The bits stay clear for 24 hours under load and the SM clock is within 5 % of its peers'."),
    sources=("NVIDIA NVML: nvmlDeviceGetCurrentClocksEventReasons",),
)
