"""Changing what the site sets of rules: checked, written with its line in the audit trail, and told to who judges. One transaction each."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from advisor import rule as catalogue
from advisor.rule import Rule
from fleet.accounts.models import User
from fleet.accounts.plain_text import REFUSED, is_plain
from fleet.tuning import own_rules
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


def set_state(rule: str, state: str, user: User, comment: str = "") -> bool:
    """Make the rule on, shadow or off; False where it is so already. An own rule comes on only after it was tried."""
    with _changing(comment):
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
            raise TuneError(
                gettext("{rule} was not tried with these conditions: try it against the last day first.").format(rule=rule)
            )
        who = {"by": user, "by_name": user.get_username(), "at": timezone.now(), "comment": comment}
        RuleState.objects.update_or_create(rule=rule, defaults={"state": state, **who})
        _write(rule, "state", {"state": before}, {"state": state}, user, comment)
    return True


def set_override(
    rule: str, threshold: str, value: float, user: User, *, matcher: str = "site", pattern: str = "", comment: str = ""
) -> Override:
    """Set the threshold to `value` for what the pattern matches; TuneError where that cannot be."""
    with _changing(comment):
        one = _known(rule)
        known = {entry.name: entry for entry in one.thresholds} if one else {}
        if threshold not in known:
            says = gettext("{rule} has no threshold {name}; it has: {known}.") if known else gettext("{rule} has no thresholds.")
            raise TuneError(says.format(rule=rule, name=threshold[:60], known=", ".join(known)))
        entry = known[threshold]
        if not math.isfinite(value) or not entry.low <= value <= entry.high:
            says = gettext("{name} can be from {low} to {high}, not {value}.")
            raise TuneError(says.format(name=threshold, low=_plain(entry.low), high=_plain(entry.high), value=_plain(value)))
        _check_reach(matcher, pattern)
        where: dict[str, Any] = {"rule": rule, "threshold": threshold, "matcher": matcher, "pattern": pattern}
        row = Override.objects.filter(**where).first()
        others = Override.objects.filter(rule=rule)
        if row is None and others.count() >= MOST_OVERRIDES:
            raise TuneError(gettext("{rule} has {most} overrides; remove one first.").format(rule=rule, most=MOST_OVERRIDES))
        settings = [Setting(old.threshold, old.matcher, old.pattern, old.value) for old in others if old.pk != (row and row.pk)]
        assert one is not None  # noqa: S101 - it has the threshold
        _check_order(one, [*settings, Setting(threshold, matcher, pattern, value)])
        before = row and _as_json(row)
        who = {"by": user, "by_name": user.get_username(), "at": timezone.now(), "comment": comment}
        row, _made = Override.objects.update_or_create(defaults={"value": value, **who}, **where)
        _write(rule, "override", before, _as_json(row), user, comment)
    return row


def drop_override(row: Override, user: User, comment: str = "") -> None:
    """Take the override away; TuneError where what is left could not be in force together."""
    with _changing(comment):
        one = _known(row.rule)
        left = Override.objects.filter(rule=row.rule).exclude(pk=row.pk)
        if one is not None:
            _check_order(one, [Setting(old.threshold, old.matcher, old.pattern, old.value) for old in left])
        before = _as_json(row)
        row.delete()
        _write(row.rule, "override", before, None, user, comment)


def save_own(slug: str, asked: Mapping[str, str], user: User, comment: str = "") -> tuple[OwnRule, bool]:
    """Write the own rule; the row, and whether it was switched off because its conditions are new and untried.

    OwnRuleError with a sentence by field where it is no rule.
    """
    kept = own_rules.cleaned(asked)
    own_rules.check(kept)
    with _changing(comment):
        row = OwnRule.objects.select_for_update().filter(slug=slug).first()
        if row is None:
            _check_slug(slug)
            row, before = OwnRule(slug=slug), None
        else:
            before = {name: getattr(row, name) for name in own_rules.FIELDS}
        if before == kept:
            return row, False
        new = before is None or any(before[name] != kept[name] for name in own_rules.CONDITIONS)
        for name, value in kept.items():
            setattr(row, name, value)
        row.by, row.by_name, row.at, row.error = user, user.get_username(), timezone.now(), ""
        row.save()
        _write(slug, "rule", before, kept, user, comment)
        off = new and before is not None and state_of(slug, own=True) == "on"
        if off:
            set_state(slug, "off", user, gettext("Its conditions were changed: try it again."))
    return row, off


def remove_own(row: OwnRule, user: User, comment: str = "") -> None:
    """Remove the own rule; its open findings end, its audit trail stays."""
    with _changing(comment):
        before = {name: getattr(row, name) for name in own_rules.FIELDS}
        RuleState.objects.filter(rule=row.slug).delete()
        row.delete()
        _write(row.slug, "removed", before, None, user, comment)


def tried(row: OwnRule) -> Trial | None:
    """The newest trial of the rule's present conditions that came to its end and could judge something; None where there is none."""
    trials: Any = row.trials
    found: Trial | None = trials.filter(
        digest=own_rules.digest(row), error="", ended_at__isnull=False, windows_with_data__gt=0
    ).first()
    return found


@contextmanager
def _changing(comment: str) -> Iterator[None]:
    """One change: all of it or nothing, and whoever keeps what is in force is told after it."""
    if len(comment) > 300 or not is_plain(comment):
        raise TuneError(gettext("A comment has up to 300 characters.") if len(comment) > 300 else str(REFUSED))
    with transaction.atomic():
        RulesVersion.objects.update_or_create(pk=1, defaults={"token": uuid4().hex})  # first: it is the lock
        yield
        transaction.on_commit(_tell, robust=True)


def _tell() -> None:
    rules_changed.send(sender=None)


def _write(rule: str, what: str, before: Any, after: Any, user: User, comment: str) -> None:
    RuleChange.objects.create(
        rule=rule, what=what, before=before, after=after, by=user, by_name=user.get_username(), comment=comment
    )


def _known(rule: str) -> Rule | None:
    """The shipped rule of that id, None for one that events alone report; TuneError for none."""
    found = next((one for one in catalogue.load() if one.id == rule), None)
    if found is None and rule not in OF_EVENTS:
        raise TuneError(gettext("There is no rule {rule}.").format(rule=rule[:60]))
    return found


def _check_reach(matcher: str, pattern: str) -> None:
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
