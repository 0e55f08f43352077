"""Setting what an XID means here: checked, written with its line in the audit trail, and told to who judges."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils import timezone
from django.utils.translation import gettext

from advisor.finding import SEVERITIES
from fleet.accounts.models import User
from fleet.tuning.changes import TuneError, changing, check_reach, write
from fleet.tuning.models import XidOverride
from fleet.tuning.xids import KINDS, MATCHERS, RULES

MOST: Final = 200
"""Overrides of one code."""


@dataclass(frozen=True, slots=True)
class WantedXid:
    """An override as somebody wants it; `removed`: it shall be none."""

    matcher: str = "site"
    pattern: str = ""
    rule: str = ""
    severity: str = ""
    ignored: bool = False
    removed: bool = False


def set_xid(kind: str, code: int, wanted: Sequence[WantedXid], user: User, comment: str = "") -> None:
    """Bring the overrides of a code to what is wanted, all or none, each with its line in the audit trail; TuneError where one cannot be."""
    if kind not in KINDS or not 0 < code < 1 << 31:
        raise TuneError(gettext("An override is of an XID or an SXid: a number above 0."))
    reaches = [(one.matcher, one.pattern) for one in wanted]
    if twice := next((one for one in reaches if reaches.count(one) > 1), None):
        says = gettext("{name} is given twice for {where}: which of the two values is meant?")
        raise TuneError(says.format(name=f"{kind} {code}", where=twice[1] or gettext("the whole site")))
    with changing(comment):
        for one in wanted:
            check(kind, one)
            where: dict[str, Any] = {"kind": kind, "code": code, "matcher": one.matcher, "pattern": one.pattern}
            row = XidOverride.objects.filter(**where).first()
            before = row and as_json(row)
            if one.removed:
                if row is None:
                    raise TuneError(gettext("There is no such override of {name}.").format(name=f"{kind} {code}"))
                row.delete()
                write(f"{kind}-{code}", "xid", before, None, user, comment)
                continue
            values: dict[str, Any] = {"rule": one.rule, "severity": one.severity, "ignored": one.ignored}
            if row is not None and all(getattr(row, name) == value for name, value in values.items()):
                continue
            values |= {"by": user, "by_name": user.get_username(), "at": timezone.now(), "comment": comment}
            made, _new = XidOverride.objects.update_or_create(defaults=values, **where)
            write(f"{kind}-{code}", "xid", before, as_json(made), user, comment)
        if XidOverride.objects.filter(kind=kind, code=code).count() > MOST:
            says = gettext("{rule} would have more than {most} overrides.")
            raise TuneError(says.format(rule=f"{kind} {code}", most=MOST))


def as_json(row: Any) -> dict[str, Any]:
    """An override as the audit trail keeps it."""
    return {name: getattr(row, name) for name in ("matcher", "pattern", "rule", "severity", "ignored")}


def check(kind: str, one: WantedXid) -> None:
    """TuneError where the override cannot be."""
    if one.matcher not in MATCHERS:
        raise TuneError(gettext("An override holds for one of: {known}.").format(known=", ".join(MATCHERS)))
    check_reach(one.matcher, one.pattern)
    if one.rule and one.rule not in RULES:
        raise TuneError(gettext("An XID can be evidence for one of: {known}.").format(known=", ".join(RULES)))
    if one.rule and kind == "sxid":
        raise TuneError(gettext("An SXid is of the rule nvswitch-fault alone: give it a severity, or ignore it."))
    if one.severity and one.severity not in SEVERITIES:
        raise TuneError(gettext("A severity is one of: {known}.").format(known=", ".join(SEVERITIES)))
    if not (one.removed or one.rule or one.severity or one.ignored):
        raise TuneError(gettext("Say what the code shall mean here: another rule, another severity, or that it is ignored."))
