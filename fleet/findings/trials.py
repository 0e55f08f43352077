"""An own rule tried against the last day: what it would have found, had it been on, at windows spread evenly over 24 hours.

Each window is judged by itself: where the rule's opening held, it counts as fired. Features that are known of now alone (days, earlier
runs, annotations) are taken as they are now, and the trial names them. A trial is work in small pieces, so that no judgement of now
waits for it; who died over a piece has lost that piece alone.
"""

import logging
import time
from collections import Counter
from datetime import timedelta
from typing import Final

import polars as pl
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from advisor import memory_split, planned
from advisor.beside import with_more
from advisor.engine import evaluate, wanted
from advisor.features import features_of
from advisor.rule import Rule
from fleet.accounts.models import User
from fleet.findings.more import more_of_past
from fleet.findings.windows import look
from fleet.store.series import StoreError
from fleet.tuning import own_rules
from fleet.tuning.changes import NotNowError, TuneError
from fleet.tuning.models import OwnRule, Trial

log = logging.getLogger(__name__)

WINDOWS: Final = 48
"""Every half hour of the last day."""
APART: Final = timedelta(days=1) / WINDOWS
LONGEST: Final = timedelta(minutes=20)
"""After it a trial ends with the windows that it has seen."""
PIECE_S: Final = 5.0
MOST_TARGETS: Final = 1000
"""So many are named; all are counted."""
KEPT: Final = 10
"""Trials of one rule."""
CHANGED: Final = gettext_noop("The rule was changed while it was tried.")
STORE_FAILED: Final = gettext_noop("The store of telemetry did not answer.")
FLAPS: Final = gettext_noop("A window opened and cleared the rule at once, so its findings would flap: let it clear elsewhere.")
"""The target and its values follow in a line of their own."""
CANNOT: Final = gettext_noop("The rule cannot be judged on this fleet.")


def ask(row: OwnRule, user: User) -> Trial:
    """The new trial, which begins within seconds; NotNowError while one of the rule is under way, TuneError where it is no rule any more."""
    try:
        own_rules.as_rule(row)
    except own_rules.OwnRuleError as error:
        raise TuneError(str(error)) from None
    with transaction.atomic():
        OwnRule.objects.select_for_update().get(pk=row.pk)
        if Trial.objects.filter(rule=row, ended_at=None).exists():
            raise NotNowError(_("A trial of {rule} is under way: wait for its end.").format(rule=row.slug))
        old = Trial.objects.filter(rule=row).order_by("-id").values_list("pk", flat=True)[KEPT - 1 :]
        Trial.objects.filter(pk__in=list(old)).delete()
        return Trial.objects.create(
            rule=row,
            digest=own_rules.digest(row),
            by_name=user.get_username(),
            windows_total=WINDOWS,
            of_now=own_rules.of_now(row),
        )


def go_on(piece_s: float = PIECE_S) -> int:
    """Look at the next windows of the oldest trial under way, for about so long; how many were looked at."""
    trial = Trial.objects.filter(ended_at=None).select_related("rule").order_by("id").first()
    if trial is None:
        return 0
    until = time.monotonic() + piece_s
    looked = 0
    try:
        if trial.digest != own_rules.digest(trial.rule):
            raise TuneError(CHANGED)
        rule = own_rules.as_rule(trial.rule)
        while trial.windows_looked_at < trial.windows_total and (not looked or time.monotonic() < until):
            _look_at(trial, rule)
            looked += 1
        over = trial.windows_looked_at >= trial.windows_total or timezone.now() - trial.asked_at > LONGEST
    except (TuneError, own_rules.OwnRuleError) as error:
        trial.error, over = str(error)[:500], True
    except StoreError as error:
        log.error("A trial of %s could not read the store: %s", trial.rule, error)
        trial.error, over = STORE_FAILED, True
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError) as error:
        log.warning("A trial of %s failed: %s", trial.rule, error)
        trial.error, over = CANNOT, True
    if over:
        trial.ended_at = timezone.now()
    trial.save()
    return looked


def _look_at(trial: Trial, rule: Rule) -> None:
    """Judge the trial's next window, the newest first."""
    at = trial.asked_at.replace(microsecond=0) - trial.windows_looked_at * APART
    trial.windows_looked_at += 1
    seen = look(at, settings.FETTLE_ADVISOR_WINDOW_S, settings.FETTLE_ADVISOR_PATIENCE_S)
    if not seen.fresh_nodes:
        return
    span_s = settings.FETTLE_ADVISOR_WINDOW_S
    asked = wanted((rule,)) | planned.READS | memory_split.READS
    frames = with_more(features_of(seen.measured), more_of_past(at, timezone.now(), seen, span_s, asked))
    frame = getattr(frames, rule.scope)
    verdict = evaluate((rule,), frames)
    open_then = {finding.fingerprint for finding in verdict.findings}
    stay = {finding.fingerprint for finding in evaluate((rule,), frames, open_then).findings} if open_then else open_then
    if flaps := next((finding for finding in verdict.findings if finding.fingerprint not in stay), None):
        values = ", ".join(f"{one.name} = {one.value:.4g}" for one in flaps.evidence if one.value is not None)
        raise TuneError(f"{FLAPS}\n{flaps.scope} {flaps.target}: {values}")
    judged = frame.height - len(verdict.not_evaluated)
    trial.windows_with_data += judged > 0
    trial.judged_total += judged
    trial.fired_total += len(verdict.findings)
    known = Counter(trial.targets)
    for finding in verdict.findings:
        if finding.target in known or len(known) < MOST_TARGETS:
            known[finding.target] += 1
    trial.targets = dict(known)
