"""An InfiniBand or RoCE port is slow, errs or waits: every job that spans the node waits with it.

A port below its rate or down; a link that went down; symbol errors at more than a hundred an hour. Waiting to send (xmit_wait) is told where the
job's communication is exposed too: a full buffer alone is what a busy fabric looks like.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.started import drain
from advisor.text import _

c = pl.col

_SLOW = (c.ib_rate_bytes_per_s < 0.95 * c.ib_rate_max_bytes_per_s).fill_null(False)
_DOWN = ((c.ib_ports_active < c.ib_ports) & (c.ib_ports_active >= 1)).fill_null(False)
_FELL = (c.ib_link_downed_new >= 1).fill_null(False)
_per_hour = c.ib_symbol_errors_new * 3600 / c.window_s
_ERRS = (_per_hour > param("symbol_errors_per_hour_opens")).fill_null(False)

RULE = Rule(
    id="ib-port-errors-or-congestion",
    scope="node",
    severity="warn",
    bottleneck="communication",
    group="health",
    needs=(Need(("ib_ports", "ib_ports_active", "ib_link_downed_new", "ib_symbol_errors_new"), "medium"),),
    thresholds=(
        Threshold("symbol_errors_per_hour_opens", 100.0, "per_hour", 1.0, 1e6),
        Threshold("symbol_errors_per_hour_clears", 10.0, "per_hour", 0.0, 1e6),
    ),
    opens=(c.ib_ports >= 1) & (_SLOW | _DOWN | _FELL | _ERRS),
    clears=~_SLOW & ~_DOWN & ~_FELL & (_per_hour <= param("symbol_errors_per_hour_clears")),
    unless=c.note_maintenance.fill_null(False),
    title=_("An InfiniBand or RoCE port is degraded"),
    summary=_("Symbol errors grow: {ib_symbol_errors_new:.0f} in {window_s:.0f} s on the node's {ib_ports:.0f} port(s)."),
    cases=(
        Says(_FELL, _("A link of the node went down {ib_link_downed_new:.0f} time(s) within {window_s:.0f} s.")),
        Says(_DOWN, _("{ib_ports_active:.0f} of the node's {ib_ports:.0f} InfiniBand or RoCE ports are up.")),
        Says(_SLOW, _("The node's ports run at {ib_rate_gb_per_s:.1f} GB/s in all; they could do {ib_rate_max_gb_per_s:.1f}.")),
    ),
    evidence=(
        Show("ib_ports_active", "ports"),
        Show("ib_ports", "ports"),
        Show("ib_rate_bytes_per_s", "bytes_per_second"),
        Show("ib_rate_max_bytes_per_s", "bytes_per_second"),
        Show("ib_link_downed_new", "events", ">=", 1.0),
        Show("ib_symbol_errors_new", "events"),
        Show("ib_xmit_wait_per_s", "per_second"),
    ),
    change=(
        Step("command", "ibstat && perfquery -x  # which port, at which rate, with which errors"),
        Step("command", "mlxlink -d mlx5_0 -c -e  # cable, transceiver, bit error rate"),
        *drain("InfiniBand port", "where the rate is reduced"),
    ),
    recovers=0.05,
    risk=_("Reseating a cable takes the node out of the fabric for a moment."),
    rollback=_("Put the node back into service."),
    verify=_("Ports at their rate, no symbol error for 24 hours, step time of the node's jobs back at their own baseline."),
    sources=("docs.kernel.org/infiniband/sysfs.html", "enterprise-support.nvidia.com: understanding mlx5 port counters"),
)
