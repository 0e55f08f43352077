"""What a finding explains, and what explains it, as pages, messages and the API tell it."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.utils.translation import gettext_lazy as _

from fleet.findings import witnesses
from fleet.findings.models import Finding

SHOWN: Final = 10
"""Of each kind of consequence, so many are named."""
PLACE: Final = {
    "gpu": _("on the same GPU"),
    "fabric": _("in the same NVLink fabric"),
    "node": _("on the same node"),
    "rack": _("in the same rack"),
    "job": _("of the same job"),
    "cluster": _("in the same cluster"),
}
WITNESS: Final = {
    witnesses.KERNEL_LOG: _("kernel log"),
    witnesses.NVML: _("NVML"),
    witnesses.DEVICE_COUNT: _("count of devices"),
    witnesses.JOB_LOG: _("log of the job"),
    witnesses.ENGINE: _("serving engine"),
    witnesses.ALERTMANAGER: _("Alertmanager"),
    witnesses.RULE: _("rule"),
    witnesses.INVENTORY: _("inventory"),
}


@dataclass(frozen=True, slots=True)
class Witness:
    """A kind of witness, and when it first and last saw the trouble."""

    kind: str
    first_at: datetime
    last_at: datetime
    count: int


@dataclass(frozen=True, slots=True)
class Consequences:
    """Findings of one rule that one finding explains over one kind of place: how many are open, over how many nodes, and the first of them."""

    rule: str
    place: str
    total: int
    open_total: int
    nodes_total: int
    first: list[Finding]


def total() -> Coalesce:
    """How many findings each explains, open or over, to annotate a query of findings with."""
    mine = Finding.objects.filter(cause=OuterRef("pk")).order_by().values("cause").annotate(number=Count("pk")).values("number")
    return Coalesce(Subquery(mine, output_field=IntegerField()), Value(0))


def of(finding: Finding) -> list[Consequences]:
    """What the finding explains, by rule and place, the first to open first."""
    rows: QuerySet[Finding] = finding.consequences.filter(shadow=False).order_by("opened_at", "pk")
    together: dict[tuple[str, str], list[tuple[int, Any, int | None]]] = defaultdict(list)
    for pk, rule, place, ended, node in rows.values_list("pk", "rule", "cause_place", "resolved_at", "node_id"):
        together[rule, place].append((pk, ended, node))
    named = (
        rows.select_related("node")
        .prefetch_related("gpus")
        .in_bulk([pk for mine in together.values() for pk, _, _ in mine[:SHOWN]])
    )
    return [
        Consequences(
            rule,
            place,
            len(mine),
            sum(ended is None for _, ended, _ in mine),
            len({node for _, _, node in mine if node is not None}),
            [named[pk] for pk, _, _ in mine[:SHOWN]],
        )
        for (rule, place), mine in together.items()
    ]


def seen_by(finding: Finding) -> list[Witness]:
    """Who saw the finding's trouble, the first first."""
    told = finding.witnesses if isinstance(finding.witnesses, dict) else {}
    known = [
        Witness(kind, datetime.fromisoformat(one["first_at"]), datetime.fromisoformat(one["last_at"]), int(one["count"]))
        for kind, one in told.items()
        if kind != witnesses.ALL_CLEAR
    ]
    return sorted(known, key=lambda one: (one.first_at, one.kind))
