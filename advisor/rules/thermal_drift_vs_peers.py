"""One GPU is hotter than its neighbours at the same power, or held back by its temperature.

Two cards of one node differ by 7 °C at the same power by their place in the air flow (measured 51 and 59): 10 °C above the
median is more than place. Peers count only within 10 % of power and when there are three loaded ones.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
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
    title=_("The GPU runs hotter than it should"),
    summary=_(
        "{temperature_c:.0f} °C under load, {warmer_than_peers_c:.0f} °C above the node's median at the same power; thermal slowdown in"
        " {sw_thermal_share:.1%} of the time."
    ),
    cases=(
        Says(
            (c.warmer_than_peers_c < param("warmer_than_peers_opens_c")).fill_null(True),
            _(
                "For {sw_thermal_share:.1%} of the time the driver held the clocks down for heat, at {temperature_c:.0f} °C under load."
            ),
        ),
        Says(
            c.sw_thermal_share.is_null(),
            _("{temperature_c:.0f} °C under load, {warmer_than_peers_c:.0f} °C above the node's median at the same power."),
        ),
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
        Step(
            "command",
            "nvidia-smi -i {index} -pl {power_85:.0f}  # until it is repaired: 85 % of the default",
        ),
    ),
    gain=Expect(
        1.0,
        1 / (1 - 0.3 * c.sw_thermal_share.fill_null(0).clip(0, 1)),
        _(
            "An estimate: while the driver slows it for heat a GPU loses up to 30 % of its speed; a hot one that is not slowed gains nothing yet."
        ),
    ),
    risk=_("A lower power limit costs a little speed."),
    rollback=_("Restore the default power limit."),
    verify=_("The difference to peers is below 5 °C for a week at the same power."),
    sources=("NVIDIA NVML: nvmlDeviceGetTemperature",),
)
