"""Verdicts in the reader's language."""

from typing import Final

from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext

from advisor.verification.measure import OWN, REPORTED, Measure
from fleet.findings.content import sentence
from fleet.verdicts.models import Verification
from fleet.verdicts.recovered import Record

MEASURES: Final[dict[str, Measure]] = {one.id: one for one in REPORTED} | dict(OWN)


def measure_label(name: str) -> str:
    """What the speed was told by; "" for none."""
    return gettext(MEASURES[name].label) if name in MEASURES else ""


def is_estimate(name: str) -> bool:
    """True for a measure that stands in for the speed of a program that reports none."""
    return name in MEASURES and not MEASURES[name].is_reported


def reason(row: Verification) -> str:
    """Why the verdict is as it is, or why there is none yet."""
    stored = row.reason if isinstance(row.reason, dict) else {}
    if not stored.get("id") and not row.verdict:
        return gettext("It is measured once enough has run after the change.")
    params = dict(stored.get("params") or {})
    if isinstance(params.get("measure"), str):
        params["measure"] = gettext(params["measure"])
    return sentence({"id": stored.get("id"), "params": params})


def record(found: Record | None) -> str:
    """`here: helped 7 of 9 times, median 1.8 times`; "" where nothing was measured at this site."""
    if found is None or not found.measured:
        return ""
    said = ngettext(
        "here: helped {helped} of {measured} time", "here: helped {helped} of {measured} times", found.measured
    ).format(helped=found.helped, measured=found.measured)
    if found.ratio is None:
        return said
    ratio = number_format(found.ratio, 2 if found.ratio < 9.95 else 1, use_l10n=True)
    return gettext("{said}, median {ratio}×").format(said=said, ratio=ratio)
