"""One GPU is hotter than its neighbours at the same power, or held back by its temperature.

Two cards of one node differ by 7 °C at the same power by their place in the air flow (measured 51 and 59): 10 °C above the
median is more than place. Peers count only within 10 % of power and when there are three loaded ones.
"""

import polars as pl

from advisor.rule import Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="thermal-drift-vs-peers",
    scope="gpu",
    severity="warn",
    bottleneck="clocks",
    group="clocks",
    needs=(Need(("warmer_than_peers_c",)), Need(("sw_thermal_share",), "medium")),
    thresholds=(
        Threshold("warmer_than_peers_opens_c", 10.0, "celsius", 1.0, 60.0),
        Threshold("warmer_than_peers_clears_c", 7.0, "celsius", 1.0, 60.0),
        Threshold("sw_thermal_share_opens", 0.02, "ratio", 0.0, 1.0),
        Threshold("sw_thermal_share_clears", 0.005, "ratio", 0.0, 1.0),
    ),
    opens=(c.warmer_than_peers_c.fill_null(0) >= param("warmer_than_peers_opens_c"))
    | (c.sw_thermal_share.fill_null(0) >= param("sw_thermal_share_opens")),
    clears=(c.warmer_than_peers_c.fill_null(0) < param("warmer_than_peers_clears_c"))
    & (c.sw_thermal_share.fill_null(0) < param("sw_thermal_share_clears")),
    yields_to=("hw-slowdown-active",),
    title=_("The GPU runs hotter than its peers"),
    summary=_(
        "{temperature_c:.0f} °C under load, {warmer_than_peers_c:.0f} °C above the node's median at the same power; thermal slowdown in"
        " {sw_thermal_share:.1%} of the time."
    ),
    evidence=(
        Show("warmer_than_peers_c", "celsius", ">=", "warmer_than_peers_opens_c"),
        Show("sw_thermal_share", "ratio", ">=", "sw_thermal_share_opens"),
        Show("temperature_c", "celsius"),
        Show("loaded_power_w", "watts"),
        Show("node_temperature_c", "celsius"),
    ),
    change=(
        Step(
            "command",
            "nvidia-smi -i {index} -q -d TEMPERATURE,POWER  # then: cleaning, thermal paste, quick connects, fan profile in the BMC",
        ),
        Step("command", "nvidia-smi -i {index} -pl WATTS  # until it is repaired: 80 to 90 % of the default"),
    ),
    recovers=c.sw_thermal_share.fill_null(0) * 0.2,
    risk=_("A lower power limit costs a little speed."),
    rollback=_("Restore the default power limit."),
    verify=_("The difference to peers is below 5 °C for a week at the same power."),
    sources=("NVIDIA NVML: nvmlDeviceGetTemperature",),
)
