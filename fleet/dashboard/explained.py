"""What a finding follows from and what follows from it, and who saw it, in the words of its page."""

from typing import Any

from django.utils.translation import gettext, ngettext

from fleet.dashboard import words
from fleet.dashboard.listing import Line, line
from fleet.findings import consequences
from fleet.findings.models import Finding


def of(finding: Finding) -> dict[str, Any]:
    """The context of the page's part on causes and witnesses."""
    return {
        "because": _linked(finding.cause, finding.cause_place) if finding.cause else None,
        "explains": [_row(one) for one in consequences.of(finding)],
        "witnesses": [{"who": words.word(consequences.WITNESS, one.kind), "seen": one} for one in consequences.seen_by(finding)],
    }


def cause_named(key: str) -> str:
    """What a cause's transition names: a finding by its number."""
    return gettext("finding {number}").format(number=key) if key else gettext("none known")


def _row(one: consequences.Consequences) -> dict[str, Any]:
    shown: list[Line] = [line(finding, with_gpus=True) for finding in one.first]
    says = [ngettext("{number} finding", "{number} findings", one.total).format(number=one.total)]
    if one.nodes_total > 1:
        says.append(gettext("on {number} nodes").format(number=one.nodes_total))
    says.append(words.word(consequences.PLACE, one.place) if one.place else "")
    if one.open_total < one.total:
        says.append(gettext("{number} of them open").format(number=one.open_total))
    return {
        "title": shown[0].text.title,
        "says": " · ".join(part for part in says if part),
        "shown": shown,
        "left": one.total - len(shown),
    }


def _linked(finding: Finding, place: str) -> dict[str, Any]:
    return {"line": line(finding), "place": words.word(consequences.PLACE, place) if place else "", "over": finding.resolved_at}
