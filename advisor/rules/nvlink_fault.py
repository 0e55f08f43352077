"""NVLink links that are missing or err, or a fabric that the card has not joined.

Links are counted against those that the card itself has; a card without any expects none. Errors are told apart from a fault by their
rate: healthy links of an H200 count none. After a boot links err, and cards wait for the fabric, until the fabric manager is up. Of a card that
has links and does not tell of them nothing is clear.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.started import drain
from advisor.text import _

c = pl.col

_MISSING = (c.nvlink_links_active < c.nvlink_links_expected).fill_null(False)
_OUTSIDE = c.fabric_state.is_in([1.0, 2.0]).fill_null(False)
_SICK = c.fabric_degraded.fill_null(False)
_UNKNOWN = (c.nvlink_links_expected > 0) & (c.nvlink_links_active.is_null() | c.nvlink_errors_per_min.is_null())
_BOOTING = (c.up_s < param("boot_s")).fill_null(False)
_ERRS = (c.nvlink_errors_per_min > param("errors_per_min_opens")).fill_null(False)

RULE = Rule(
    id="nvlink-fault",
    scope="gpu",
    severity=pl.when(_MISSING | _OUTSIDE).then(pl.lit("critical")).otherwise(pl.lit("warn")),
    bottleneck=None,
    group="health",
    needs=(
        Need(("nvlink_links_active", "nvlink_links_expected")),
        Need(("nvlink_errors_per_min",)),
        Need(("fabric_state",)),
        Need(("fabric_degraded",)),
    ),
    thresholds=(
        Threshold("errors_per_min_opens", 1.0, "per_minute", 0.0, 1e6),
        Threshold("errors_per_min_clears", 0.2, "per_minute", 0.0, 1e6),
        Threshold("boot_s", 180.0, "seconds", 0.0, 3600.0),
    ),
    opens=_MISSING | _OUTSIDE | _SICK | _ERRS,
    clears=~_UNKNOWN.fill_null(False)
    & ~_MISSING
    & ~_OUTSIDE
    & ~_SICK
    & (c.nvlink_errors_per_min.fill_null(0) <= param("errors_per_min_clears")),
    unless=c.mig.fill_null(False) | c.note_maintenance.fill_null(False) | _BOOTING,
    title=_("NVLink or NVSwitch fault"),
    summary=_("The GPU's NVLink links count {nvlink_errors_per_min:.1f} errors a minute: replays, recoveries and CRC."),
    cases=(
        Says(_MISSING, _("{nvlink_links_active:.0f} of the GPU's {nvlink_links_expected:.0f} NVLink links are up.")),
        Says(_OUTSIDE, _("The GPU has not joined the NVLink fabric: no program can reach the other GPUs over it.")),
        Says(_SICK, _("The fabric manager reports degraded NVLink bandwidth, or an unhealthy route, for this GPU.")),
    ),
    evidence=(
        Show("nvlink_links_active", "links"),
        Show("nvlink_links_expected", "links"),
        Show("nvlink_errors_per_min", "per_minute", ">", "errors_per_min_opens"),
        Show("fabric_state", "code"),
    ),
    change=(
        Step("command", "systemctl status nvidia-fabricmanager  # its version must be the driver's"),
        Step("command", "nvidia-smi nvlink -s -i {index} && nvidia-smi nvlink -e -i {index}"),
        *drain("NVLink", "then reset the baseboard, or reboot"),
    ),
    recovers=0.3,
    risk=_("Resetting the links resets every GPU of the baseboard."),
    rollback=_("Nothing to roll back: put the node back into service."),
    verify=_("All links are up, their error counters stay flat for 24 hours, and all-reduce is back at its bandwidth."),
    sources=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/", "https://docs.nvidia.com/deploy/xid-errors/"),
)
