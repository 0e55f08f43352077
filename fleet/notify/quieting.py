"""What keeps alerts quiet at a time: silences, inhibitions with the alerts that fire, nodes that somebody works on."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from django.db.models import Q

from fleet.annotations.matching import noted
from fleet.findings.models import Finding
from fleet.inventory.models import Node
from fleet.notify.alert_labels import labels_of
from fleet.notify.decisions import Quiet, Quieting
from fleet.notify.matchers import Matchers, fits
from fleet.notify.models import Inhibition, Silence

FIRES: Final = ("firing", "noisy")
_COLUMNS: Final = {"severity": "severity", "rule": "rule", "scope": "scope", "node": "node__name"}
"""Labels that are columns of a finding: the database can leave out most."""


def now(at: datetime) -> Quiet:
    """All that is in force at `at`."""
    silences = Silence.objects.filter(starts_at__lte=at, ends_at__gt=at).order_by("pk")
    return Quiet(
        silences=[Quieting(one.comment, one.matchers) for one in silences],
        inhibitions=[
            Quieting(one.name, one.target, one.equal, _sources(one, at)) for one in Inhibition.objects.filter(enabled=True)
        ],
        in_maintenance=in_maintenance(at),
    )


def in_maintenance(at: datetime) -> frozenset[str]:
    """Names of the nodes that somebody works on, as annotations tell."""
    names = {name: (name,) for name in Node.objects.order_by().values_list("name", flat=True)}
    told = noted("node", names, at, keys=("maintenance",))
    return frozenset(name for name, values in told.items() if values.get("maintenance") is True)


def _sources(one: Inhibition, at: datetime) -> Sequence[tuple[int, dict[str, tuple[str, ...]]]]:
    """The firing alerts that inhibit, with their labels."""
    firing = Finding.objects.filter(_narrowed(one.source), resolved_at=None, condition__in=FIRES, shadow=False)
    rows = list(firing.select_related("node").defer("content"))
    labels = labels_of(rows, at)
    return [(row.pk, dict(labels[row.pk])) for row in rows if fits(one.source, labels[row.pk])]


def _narrowed(matchers: Matchers) -> Q:
    """What the database can say of the matchers; `fits` says the rest."""
    narrowed = Q()
    for one in matchers:
        if one["op"] == "in" and one["label"] in _COLUMNS and not any(sign in value for value in one["values"] for sign in "*?"):
            narrowed &= Q(**{f"{_COLUMNS[one['label']]}__in": one["values"]})
    return narrowed
