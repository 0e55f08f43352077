"""A job that is not bound by its math runs near its power limit: a lower clock would save energy at a small cost of speed.

Only where the site asks for it (annotation energy_policy, or a power budget that is nearly used up): the trade is the site's to make.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_ASKED = (c.note_energy_policy | (c.note_power_budget_share >= 0.9)).fill_null(False)
_OTHER = (c.day_dram_active >= 0.6) | (c.share_communication >= 0.2) | (c.day_sm_active < 0.7)

RULE = Rule(
    id="power-limit-sweet-spot",
    scope="job",
    severity="info",
    bottleneck=None,
    needs=(
        Need(("day_power_share", "day_hours", "note_energy_policy"), "medium"),
        Need(("day_power_share", "day_hours", "note_power_budget_share"), "medium"),
    ),
    thresholds=(
        Threshold("power_share_opens", 0.85, "ratio", 0.1, 1.0),
        Threshold("power_share_clears", 0.75, "ratio", 0.1, 1.0),
        Threshold("day_hours_opens", 12.0, "hours", 1.0, 24.0),
    ),
    opens=_ASKED & (c.day_hours >= param("day_hours_opens")) & (c.day_power_share >= param("power_share_opens")) & _OTHER,
    clears=~_ASKED | (c.day_power_share < param("power_share_clears")),
    unless=c.note_deadline.fill_null(False) | (c.power_limit_ratio < 0.95),
    title=_("A lower clock would save energy at a small cost of speed"),
    summary=_(
        "Over {day_hours:.0f} hours the job's GPUs drew {day_power_share:.0%} of their limit while SMs were active {day_sm_active:.0%} and memory {day_dram_active:.0%} of the time: power that does not go into math."
    ),
    evidence=(
        Show("day_power_share", "ratio", ">=", "power_share_opens"),
        Show("day_dram_active", "ratio"),
        Show("day_sm_active", "ratio"),
        Show("share_communication", "ratio"),
        Show("day_energy_j", "joules"),
        Show("day_hours", "hours", ">=", "day_hours_opens"),
    ),
    change=(
        Step(
            "command",
            "nvidia-smi -lgc 0,{clock_92:.0f}  # then 85 % and 78 % of the highest clock, ten minutes each, and compare samples a joule",
        ),
        Step(
            "command", "nvidia-smi -pl {power_85:.0f}  # as the hard limit; caps of the clock usually save more at the same speed"
        ),
    ),
    gain=Expect(
        0.93,
        0.99,
        _(
            "Published measurements: 5 to 20 % of the energy for 1 to 7 % of the time; where the optimum lies differs by model and GPU."
        ),
    ),
    risk=_("Parts of the job that are bound by math become slower."),
    rollback=_("nvidia-smi -rgc && nvidia-smi -pl {power_limit_default_w:.0f}"),
    verify=_("Energy of a sample down by 5 % and samples per second by 5 % at most, over 24 hours."),
    sources=("arxiv.org/abs/2402.18593", "planner energy"),
)
