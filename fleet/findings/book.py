"""The states of a finding's condition, and what moves them: the changes of one judgement, written together at its end.

pending -> firing -> resolved, and by the positive word alone: a window, a witness or somebody certain has to have said so. Time that no
window saw counts for nothing, neither towards firing nor towards the end: the clock of every state stands still in a gap.
"""

from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.utils.translation import gettext_noop

from fleet.findings import causes, flapping, opened, witnesses
from fleet.findings.judged import QUIET, Judged
from fleet.findings.models import Finding, Transition
from fleet.findings.rows import update
from fleet.findings.signals import transitions_written

CONFIRM: Final = 2
"""Judgements in a row before it fires, and before it resolves; one is enough for what is critical to fire."""
TOO_LATE: Final = gettext_noop("It was over when it became known.")
SET_BACK: Final = timedelta(minutes=10)
"""A row that was judged so much later than now was judged by a clock that ran ahead and was set right."""

_KEPT: Final = (
    "severity", "severity_rank", "bottleneck", "confidence", "recoverable", "gpus_total", "gpu_hours_a_day", "condition", "content",
    "origin", "opened_at", "last_seen_at", "resolved_at", "judged_at", "streak", "streak_since", "seen_total", "witnesses",
)  # fmt: skip


class Book:
    """The changes of one judgement."""

    def __init__(self, at: datetime, judged: Judged | None = None) -> None:
        self.at = at
        self.changed: list[Finding] = []
        self.opened: list[Finding] = []
        self.transitions: list[Transition] = []
        self._judged = judged or Judged()
        self._is_window = judged is not None
        self._iso = at.isoformat()
        self._gpus: list[tuple[int, ...]] = []  # beside `opened`
        self._candidates: list[Finding] = []
        self._rises: list[tuple[Finding, str]] = []

    def opens(self, row: Finding, gpus: tuple[int, ...]) -> None:
        """A new row, seen once."""
        row.streak, row.streak_since, row.judged_at = 1, self.at, self.at
        self.opened.append(row)
        self.transitions.append(Transition(finding=row, axis="condition", before="", after="pending", at=self.at))
        self._gpus.append(gpus)
        self._note(row)
        if self._may_fire(row):
            self._candidates.append(row)

    def keeps(self, row: Finding, gpus: tuple[int, ...], over_at: datetime) -> None:
        """A new row of what was over when it became known: its history, of which nobody is told."""
        row.condition, row.resolved_at = "resolved", over_at
        self.opened.append(row)
        self._gpus.append(gpus)
        states = (("", "pending", self.at), ("pending", "resolved", over_at))
        self.transitions += [
            Transition(finding=row, axis="condition", before=before, after=after, at=at, note=TOO_LATE if before else "")
            for before, after, at in states
        ]

    def saw(self, row: Finding) -> None:
        """An open row was seen again."""
        if (
            row.streak > 0 or row.streak_since is None or self.at >= row.streak_since
        ):  # else it was seen clear since, and this is late
            self._judge(row, 1)
        self.changed.append(row)
        self._note(row)
        if row.condition == "pending" and self._may_fire(row):
            self._candidates.append(row)
        elif row.condition == "noisy" and self._lasted(row) >= QUIET:
            self.moves(row, "firing")

    def saw_clear(self, row: Finding) -> None:
        """An open row's trouble was seen to be away."""
        before = row.judged_at
        self._judge(row, -1)
        over = row.streak <= -CONFIRM and self._lasted(row) >= self._judged.must_be_quiet(row)
        if over:
            self.moves(row, "resolved")
        # What must be quiet for days is not written each time that it is: a part of what a window covers is never missed.
        if over or before is None or row.streak > -CONFIRM - 1 or self.at - before >= self._judged.covers / 2:
            self.changed.append(row)

    def rose(self, row: Finding, before: str) -> None:
        """A firing row is worse than it was."""
        self._rises.append((row, f"{before} -> {row.severity}"))

    def ends(self, row: Finding, note: str) -> None:
        """An open row is over on one certain word; one that comes and goes is held until it has kept still."""
        if row.condition == "noisy" and note not in flapping.FOR_GOOD:
            witnesses.note(row, witnesses.ALL_CLEAR, self._iso, self._iso)
            self._judge(row, -1)
        else:
            self.moves(row, "resolved", note)
        self.changed.append(row)

    def moves(self, row: Finding, after: str, note: str = "") -> None:
        """The row's condition becomes `after`."""
        self.transitions.append(
            Transition(finding=row, axis="condition", before=row.condition, after=after, at=self.at, note=note)
        )
        row.condition = after
        if after == "resolved":
            row.resolved_at = self.at

    def write(self) -> list[Transition]:
        """Store everything, and what explains what now; the transitions, in order."""
        self._fire()
        if self.opened:
            # in one order, so that two judgements do not lock each other out
            Finding.objects.bulk_create(sorted(self.opened, key=lambda row: row.fingerprint), batch_size=200)
            opened.count(row.rule for row in self.opened if not row.shadow)
            through = Finding.gpus.through
            through.objects.bulk_create(
                [
                    through(finding_id=row.pk, gpu_id=gpu)
                    for row, gpus in zip(self.opened, self._gpus, strict=True)
                    for gpu in gpus
                ],
                batch_size=500,
            )
        update(self.changed, _KEPT)
        moved = {transition.finding.pk for transition in self.transitions}
        if self._is_window:
            moved |= causes.lately(self.at)
        self.transitions += causes.explain(moved, self.at, {row.pk for row in self.opened})
        if self._is_window:
            self.transitions += causes.release(self.at)
        Transition.objects.bulk_create(self.transitions, batch_size=500)
        if self.transitions:
            transaction.on_commit(_tell, robust=True)
        return self.transitions

    def _judge(self, row: Finding, sign: int) -> None:
        """Count the judgement; time since the one before that no window saw is taken out."""
        if self._is_window and row.judged_at is not None and row.judged_at > self.at + SET_BACK:  # by a clock that was wrong
            row.streak, row.judged_at = 0, None
        if row.streak * sign > 0:
            row.streak += sign
            if row.judged_at is not None and row.streak_since is not None:
                row.streak_since += max(timedelta(), self.at - row.judged_at - self._judged.covers)
        else:
            row.streak, row.streak_since = sign, self.at
        row.judged_at = self.at if row.judged_at is None else max(self.at, row.judged_at)

    def _lasted(self, row: Finding) -> timedelta:
        return timedelta() if row.streak_since is None else self.at - row.streak_since

    def _may_fire(self, row: Finding) -> bool:
        if row.origin == "event":
            return True
        seen_enough = row.streak >= (1 if row.severity == "critical" else CONFIRM)
        return seen_enough and self._lasted(row) >= self._judged.durations.of(row.rule, row.severity, row.target)

    def _note(self, row: Finding) -> None:
        """A window is a witness too; who told an event is noted where it is reported."""
        if self._is_window:
            witnesses.note(row, witnesses.of_rule(row.rule, row.scope), self._iso, self._iso)

    def _fire(self) -> None:
        """Let the candidates fire, or turn noisy those that did so three times within the hour before."""
        if self._candidates:
            restless = flapping.noisy(self._candidates, self.at)
            for row in self._candidates:
                if row.fingerprint in restless:
                    self.moves(row, "noisy", flapping.HELD_OPEN)
                else:
                    self.moves(row, "firing")
        if self._rises:
            told = flapping.told(self._rises, self.at)
            for row, note in self._rises:
                if (row.pk, note) not in told:
                    self.moves(row, "firing", note)


def _tell() -> None:
    transitions_written.send(sender=None)
