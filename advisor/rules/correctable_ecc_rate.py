"""Corrected memory errors that come faster than on the fleet's other cards: an early sign of errors that cannot be corrected.

A new card burns in: of one that was first seen within the last day its counter says nothing yet. The day's errors are summed over the
driver's reloads, which set the counter to 0.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_LIMIT = pl.max_horizontal(param("errors_a_day_opens"), 10 * c.ecc_corrected_day_p99)

RULE = Rule(
    id="correctable-ecc-rate",
    scope="gpu",
    severity=pl.when(c.sram_threshold_exceeded).then(pl.lit("warn")).otherwise(pl.lit("advice")),
    bottleneck=None,
    group="health",
    needs=(
        Need(("ecc_corrected_day",), "medium"),
        Need(("sram_threshold_exceeded",), opens=c.sram_threshold_exceeded, clears=~c.sram_threshold_exceeded),
    ),
    thresholds=(
        Threshold("errors_a_day_opens", 100.0, "errors", 1.0, 1e9),
        Threshold("burn_in_h", 24.0, "hours", 0.0, 720.0),
    ),
    opens=(c.ecc_corrected_day > _LIMIT) | c.sram_threshold_exceeded.fill_null(False),
    clears=(c.ecc_corrected_day <= 0.5 * _LIMIT) & ~c.sram_threshold_exceeded.fill_null(False),
    unless=(c.card_age_h < param("burn_in_h")) & ~c.sram_threshold_exceeded.fill_null(False),
    title=_("Corrected memory errors at a high rate"),
    summary=_(
        "{ecc_corrected_day:.0f} memory errors were corrected within a day; 99 % of the cards of its model had at most {ecc_corrected_day_p99:.0f}."
    ),
    cases=(
        Says(
            c.sram_threshold_exceeded,
            _("The card's own threshold of uncorrectable errors in its SRAM is passed: the driver asks for field diagnostics."),
        ),
        Says(c.ecc_corrected_day_p99.is_null(), _("{ecc_corrected_day:.0f} memory errors were corrected within a day.")),
    ),
    evidence=(
        Show("ecc_corrected_day", "errors", ">", "errors_a_day_opens"),
        Show("ecc_corrected_day_p99", "errors"),
        Show("memory_temperature_c", "celsius"),
        Show("remap_pending", "flag"),
    ),
    change=(
        Step("command", "dcgmi diag -r 3  # at the node's next window"),
        Step("command", "nvidia-smi -i {index} -q -d ECC,ROW_REMAPPER,TEMPERATURE"),
    ),
    recovers=0.0,
    risk=_("The GPU is out of use while it is diagnosed."),
    rollback=_("Nothing to roll back: put the node back into service."),
    verify=_("The rate is back under that of the GPU's peers for seven days, or the card was replaced."),
    sources=("https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/",),
)
