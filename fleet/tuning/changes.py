"""Changing what the site sets of rules: checked, written with its line in the audit trail, and told to who judges. One transaction each."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from advisor import rule as catalogue
from advisor.rule import Rule, Threshold
from fleet.accounts.models import User
from fleet.accounts.plain_text import REFUSED, is_plain
from fleet.tuning import durations, own_rules
from fleet.tuning.in_force import OF_EVENTS, state_of
from fleet.tuning.matching import Setting, crossing
from fleet.tuning.models import MATCHERS, STATES, Override, OwnRule, RuleChange, RuleState, RulesVersion, Trial
from fleet.tuning.own_rules import OwnRuleError
from fleet.tuning.signals import rules_changed

MAY: Final = "tuning.add_rulechange"
"""The permission that a person needs."""
LONGEST_PATTERN: Final = 300
MOST_OVERRIDES: Final = 200
"""Of one rule: each is looked at in every judgement."""


class TuneError(Exception):
    """It cannot be set so; the message says why and what could be."""


class NotNowError(TuneError):
    """It could be set so, but not as things stand; the message says what must come first."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An override as somebody wants it: its value, None for none."""

    threshold: str
    value: float | None
    matcher: str = "site"
    pattern: str = ""


def set_state(rule: str, state: str, user: User, comment: str = "") -> bool:
    """Make the rule on, shadow or off; False where it is so already. An own rule comes on only after it was tried."""
    with changing(comment):
        own = OwnRule.objects.select_for_update().filter(slug=rule).first()
        if own is None:
            _known(rule)
        if state not in STATES:
            raise TuneError(gettext("A rule is one of: {known}.").format(known=", ".join(STATES)))
        before = state_of(rule, own=own is not None)
        if before == state:
            return False
        if own is not None and state != "off":
            own_rules.check({name: getattr(own, name) for name in own_rules.FIELDS})
        if own is not None and state == "on" and tried(own) is None:
            says = gettext("{rule} was not tried with these conditions: try it against the last day first.")
            raise NotNowError(says.format(rule=rule))
        who = {"by": user, "by_name": user.get_username(), "at": timezone.now(), "comment": comment}
        RuleState.objects.update_or_create(rule=rule, defaults={"state": state, **who})
        write(rule, "state", {"state": before}, {"state": state}, user, comment)
    return True


def set_overrides(rule: str, wanted: Sequence[Wanted], user: User, comment: str = "") -> None:
    """Bring the rule's overrides to what is wanted, all or none; TuneError where they could not be in force together."""
    with changing(comment):
        own = OwnRule.objects.filter(slug=rule).first()
        one = (
            own_rules.as_rule(own) if own else _known(rule)
        )  # of an own rule: how long it must last, the numbers stand in its conditions
        _check_once(wanted)
        known = {entry.name: entry for entry in durations.settable(one)} if one else {}
        for entry in wanted:
            _check_wanted(rule, known, entry)
            where = {"rule": rule, "threshold": entry.threshold, "matcher": entry.matcher, "pattern": entry.pattern}
            row = Override.objects.filter(**where).first()
            before = row and _as_json(row)
            if entry.value is None:
                if row is None:
                    raise TuneError(gettext("There is no such override of {name}.").format(name=entry.threshold))
                row.delete()
                write(rule, "override", before, None, user, comment)
            elif row is None or row.value != entry.value:
                values = {
                    "value": entry.value,
                    "by": user,
                    "by_name": user.get_username(),
                    "at": timezone.now(),
                    "comment": comment,
                }
                made, _new = Override.objects.update_or_create(defaults=values, **where)  # type: ignore[arg-type] # the stubs' idea
                write(rule, "override", before, _as_json(made), user, comment)
        rows = list(Override.objects.filter(rule=rule))
        if len(rows) > MOST_OVERRIDES:
            raise TuneError(gettext("{rule} would have more than {most} overrides.").format(rule=rule, most=MOST_OVERRIDES))
        if one is not None:
            _check_order(one, [Setting(row.threshold, row.matcher, row.pattern, row.value) for row in rows])


def set_override(
    rule: str, threshold: str, value: float | None, user: User, *, matcher: str = "site", pattern: str = "", comment: str = ""
) -> None:
    """Set one threshold for what the pattern matches; None takes the override away."""
    set_overrides(rule, [Wanted(threshold, value, matcher, pattern)], user, comment)


def save_own(slug: str, asked: Mapping[str, str], user: User, comment: str = "") -> tuple[OwnRule, bool]:
    """Write the own rule; the row, and whether it was switched off because its conditions are new and untried.

    OwnRuleError with a sentence by field where it is no rule.
    """
    kept = own_rules.cleaned(asked)
    own_rules.check(kept)
    with changing(comment):
        row = OwnRule.objects.select_for_update().filter(slug=slug).first()
        if row is None:
            _check_slug(slug)
            row, before = OwnRule(slug=slug), None
        else:
            before = {name: getattr(row, name) for name in own_rules.FIELDS}
        if before == kept:
            return row, False
        own_rules.check_together(kept)
        new = before is None or any(before[name] != kept[name] for name in own_rules.CONDITIONS)
        for name, value in kept.items():
            setattr(row, name, value)
        row.by, row.by_name, row.at, row.error = user, user.get_username(), timezone.now(), ""
        row.save()
        write(slug, "rule", before, kept, user, comment)
        off = new and before is not None and state_of(slug, own=True) == "on"
        if off:
            set_state(slug, "off", user, gettext("Its conditions were changed: try it again."))
    return row, off


def create_own(slug: str, asked: Mapping[str, str], user: User, comment: str = "") -> OwnRule:
    """Write a new own rule; NotNowError where there is one of that name."""
    with changing(comment):
        if OwnRule.objects.filter(slug=slug).exists():
            raise NotNowError(gettext("There is a rule {rule} already.").format(rule=slug[:60]))
        return save_own(slug, asked, user, comment)[0]


def remove_own(row: OwnRule, user: User, comment: str = "") -> None:
    """Remove the own rule; its open findings end, its audit trail stays."""
    with changing(comment):
        before = {name: getattr(row, name) for name in own_rules.FIELDS}
        RuleState.objects.filter(rule=row.slug).delete()
        Override.objects.filter(rule=row.slug).delete()
        row.delete()
        write(row.slug, "removed", before, None, user, comment)


def tried(row: OwnRule) -> Trial | None:
    """The newest trial of the rule's present conditions that came to its end and could judge something; None where there is none."""
    trials: Any = row.trials
    found: Trial | None = trials.filter(
        digest=own_rules.digest(row), error="", ended_at__isnull=False, windows_with_data__gt=0
    ).first()
    return found


@contextmanager
def changing(comment: str) -> Iterator[None]:
    """One change: all of it or nothing, and whoever keeps what is in force is told after it."""
    if len(comment) > 300 or not is_plain(comment):
        raise TuneError(gettext("A comment has up to 300 characters.") if len(comment) > 300 else str(REFUSED))
    with transaction.atomic():
        RulesVersion.objects.update_or_create(pk=1, defaults={"token": uuid4().hex})  # first: it is the lock
        yield
        transaction.on_commit(_tell, robust=True)


def _tell() -> None:
    rules_changed.send(sender=None)


def write(rule: str, what: str, before: Any, after: Any, user: User, comment: str) -> None:
    """Add a line to the audit trail."""
    RuleChange.objects.create(
        rule=rule, what=what, before=before, after=after, by=user, by_name=user.get_username(), comment=comment
    )


def _known(rule: str) -> Rule | None:
    """The shipped rule of that id, None for one that events alone report; TuneError for none."""
    found = next((one for one in catalogue.load() if one.id == rule), None)
    if found is None and rule not in OF_EVENTS:
        raise TuneError(gettext("There is no rule {rule}.").format(rule=rule[:60]))
    return found


def _check_wanted(rule: str, known: Mapping[str, Threshold], wanted: Wanted) -> None:
    if wanted.threshold not in known:
        says = gettext("{rule} has no threshold {name}; it has: {known}.") if known else gettext("{rule} has no thresholds.")
        raise TuneError(says.format(rule=rule, name=wanted.threshold[:60], known=", ".join(known)))
    one, value = known[wanted.threshold], wanted.value
    if value is not None and not (math.isfinite(value) and one.low <= value <= one.high):
        says = gettext("{name} can be from {low} to {high}, not {value}.")
        raise TuneError(says.format(name=one.name, low=_plain(one.low), high=_plain(one.high), value=_plain(value)))
    check_reach(wanted.matcher, wanted.pattern)


def _check_once(wanted: Sequence[Wanted]) -> None:
    seen = set()
    for one in wanted:
        where = one.threshold, one.matcher, one.pattern
        if where in seen:
            says = gettext("{name} is given twice for {where}: which of the two values is meant?")
            raise TuneError(says.format(name=one.threshold[:60], where=one.pattern or gettext("the whole site")))
        seen.add(where)


def check_reach(matcher: str, pattern: str) -> None:
    """TuneError where an override cannot hold for what the pattern matches."""
    if matcher not in MATCHERS:
        raise TuneError(gettext("An override holds for one of: {known}.").format(known=", ".join(MATCHERS)))
    if matcher == "site" and pattern:
        raise TuneError(gettext("What holds for the whole site takes no pattern."))
    if matcher != "site" and not 1 <= len(pattern) <= LONGEST_PATTERN:
        raise TuneError(
            gettext("Say which by a pattern of up to {most} characters; * stands for any.").format(most=LONGEST_PATTERN)
        )
    if not is_plain(pattern):
        raise TuneError(str(REFUSED))


def _check_order(rule: Rule, settings: list[Setting]) -> None:
    found = crossing(rule, settings)
    if found is None:
        return
    above = next(one.default for one in rule.thresholds if one.name == found.opens) > next(
        one.default for one in rule.thresholds if one.name == found.clears
    )
    says = (
        gettext(
            "On {where} it would open at {opens_at} and clear at {clears_at}: {clears} must stay below {opens}, or findings flap."
        )
        if above
        else gettext(
            "On {where} it would open at {opens_at} and clear at {clears_at}: {clears} must stay above {opens}, or findings flap."
        )
    )
    _matcher, pattern = found.where
    raise TuneError(
        says.format(
            where=pattern or gettext("the whole site"),
            opens_at=_plain(found.opens_at),
            clears_at=_plain(found.clears_at),
            opens=found.opens,
            clears=found.clears,
        )
    )


def _check_slug(slug: str) -> None:
    if not own_rules.SLUG.fullmatch(slug) or len(slug) > 60:
        says = gettext("A rule of the site's own is named site-…: small letters, digits and dashes, up to 60 characters.")
        raise OwnRuleError({"slug": says})
    if OwnRule.objects.count() >= own_rules.MOST:
        raise OwnRuleError({"slug": gettext("There are {most} own rules; remove one first.").format(most=own_rules.MOST)})


def _as_json(row: Override) -> dict[str, Any]:
    return {"threshold": row.threshold, "matcher": row.matcher, "pattern": row.pattern, "value": row.value}


def _plain(value: float) -> str:
    return f"{value:,.6g}"
