"""The states of a condition over random histories, beside a small model of what they must be."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from fleet.findings.judged import QUIET, Judged
from fleet.findings.lifecycle import Place, end, reconcile, report
from fleet.findings.models import Finding, Transition
from fleet.tuning.durations import Durations
from tests.fleet.rows import NOON, found, minutes

pytestmark = pytest.mark.django_db
RULE = "power-cap-limited"
COVERS = minutes(5)
LASTS_S = 90.0
TARGETS = 24
SEEN, CLEAR, NOTHING = "seen", "clear", "nothing"


@dataclass
class Model:
    """One target as it must be: a clock that only runs while windows see it, and the openings of the last hour."""

    severity: str
    state: str = ""
    sign: int = 0
    count: int = 0
    ran: timedelta = timedelta()
    judged_at: datetime | None = None
    openings: list[datetime] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def step(self, saw: str, at: datetime) -> None:
        """What one window that ended `at` makes of it."""
        if saw == NOTHING or (saw == CLEAR and not self.state):
            return
        sign = 1 if saw == SEEN else -1
        if not self.state:
            self.state, self.sign, self.count, self.ran = "pending", 1, 1, timedelta()
        elif sign == self.sign:
            assert self.judged_at is not None
            self.count += 1
            self.ran += min(at - self.judged_at, COVERS)
        else:
            self.sign, self.count, self.ran = sign, 1, timedelta()
        self.judged_at = at
        needed = 1 if self.severity == "critical" else 2
        lasts = timedelta() if self.severity == "critical" else timedelta(seconds=LASTS_S)
        if self.state == "pending" and sign > 0 and self.count >= needed and self.ran >= lasts:
            restless = sum(at - opened < timedelta(hours=1) for opened in self.openings) >= 3
            self.openings.append(at)
            self._become("noisy" if restless else "firing")
        elif self.state == "noisy" and sign > 0 and self.ran >= QUIET:
            self._become("firing")
        elif sign < 0 and self.count >= 2 and (self.state != "noisy" or self.ran >= QUIET):
            self._become("")

    def _become(self, state: str) -> None:
        self.state = state
        self.told.append(state or "resolved")


def walk(seed: int, steps: int) -> dict[str, Model]:
    """Random windows over TARGETS targets, of which each is seen, seen clear or not judged; they go on, and sometimes stop for a while."""
    dice = random.Random(seed)
    models = {str(number): Model("critical" if number % 4 == 0 else "warn") for number in range(TARGETS)}
    moods = dict.fromkeys(models, CLEAR)
    at = NOON
    for step in range(steps):
        at += dice.choices((timedelta(seconds=10), minutes(1), minutes(4), minutes(50)), (6, 6, 3, 0.2))[0]
        for target in moods:
            if dice.random() < 0.45:
                moods[target] = dice.choices((SEEN, CLEAR, NOTHING), (5, 5, 2))[0]
        moods["0"] = SEEN if step % 4 < 2 else CLEAR  # a critical one that comes and goes all the time
        severities = {target: model.severity for target, model in models.items()}
        saw = [found(target, severity=severities[target]) for target, mood in moods.items() if mood == SEEN]  # type: ignore[arg-type]
        judged = {("gpu", target) for target, mood in moods.items() if mood != NOTHING}
        reconcile(at, saw, Judged({RULE}, judged, covers=COVERS, durations=Durations({(RULE, "warn"): LASTS_S})), {})
        for target, model in models.items():
            model.step(moods[target], at)
        if dice.random() < 0.1:  # a task that is delivered twice
            reconcile(at, saw, Judged({RULE}, judged, covers=COVERS), {})
    return models


def states() -> dict[str, str]:
    """By target the condition of what is open."""
    return dict(Finding.objects.filter(resolved_at=None).values_list("target", "condition"))


def moves(target: str) -> list[str]:
    """What the target's findings became, in order, but for their openings."""
    rows = Transition.objects.filter(finding__target=target, axis="condition").exclude(after="pending")
    return list(rows.order_by("at", "id").values_list("after", flat=True))


@pytest.mark.parametrize("seed", [7, 20261130])
def test_random_histories_end_where_the_model_says(seed: int) -> None:
    """Seen, clear, gaps of an hour, metrics that go, windows judged twice: each target's state and all its moves are the model's."""
    models = walk(seed, 60)

    assert states() == {target: model.state for target, model in models.items() if model.state}
    assert {target: moves(target) for target in models} == {target: model.told for target, model in models.items()}
    assert {"firing", "noisy", "resolved"} <= {became for model in models.values() for became in model.told}


def tell(events: Iterable[tuple[str, int]]) -> Finding:
    """Events and the word that it is over, minutes after NOON, in the order in which they arrive."""
    for what, minute in events:
        if what == "event":
            report(NOON + minutes(minute), found(severity="critical"), Place(None))
        else:
            end(found().fingerprint, NOON + minutes(minute), "back")
    return Finding.objects.get()


@pytest.mark.parametrize("late", [0, 1, 2, 3, 4])
def test_late_events_never_open_what_is_over(late: int) -> None:
    """Whichever of five events arrives after the end, the finding is over, counts them all and was told once."""
    order = [("event", minute) for minute in range(5) if minute != late]
    row = tell([*order, ("end", 10), ("event", late)])

    assert (row.condition, row.seen_total, row.resolved_at) == ("resolved", 5, NOON + minutes(10))
    assert row.opened_at == NOON
    assert moves("1") == ["firing", "resolved"]


def test_late_events_join_the_finding_of_their_own_time() -> None:
    """Of two that are over, the one that ended first after them."""
    tell([("event", 0), ("end", 10)])
    report(NOON + minutes(20), found(severity="critical"), Place(None))
    end(found().fingerprint, NOON + minutes(30), "back")
    report(NOON + minutes(5), found(severity="critical"), Place(None))

    assert list(Finding.objects.order_by("opened_at").values_list("seen_total", flat=True)) == [2, 1]


def test_a_late_event_does_not_shorten_or_prolong_the_quiet_that_was_seen_since() -> None:
    """It is older than the windows that saw the device well."""
    report(NOON, found(severity="critical"), Place(None))
    quiet = Judged({RULE}, {("gpu", "1")}, quiet={RULE: minutes(30)})
    for step in range(1, 9):
        reconcile(NOON + minutes(4 * step), [], quiet, {})
    report(NOON + minutes(1), found(severity="critical"), Place(None))

    assert [t.after for t in reconcile(NOON + minutes(34), [], quiet, {})] == ["resolved"]


def noisy() -> datetime:
    """A lost GPU that came back three times, and is lost again: noisy; the time."""
    for lost in range(4):
        report(NOON + minutes(2 * lost), found(severity="critical"), Place(None))
        if lost < 3:
            end(found().fingerprint, NOON + minutes(2 * lost + 1), "back")
    assert states() == {"1": "noisy"}
    return NOON + minutes(6)


def test_a_certain_word_does_not_end_what_comes_and_goes() -> None:
    """The alert is held open: it ends when the GPU has stayed for a quarter of an hour after the word, seen by windows."""
    at = noisy()
    assert end(found().fingerprint, at + minutes(1), "back")
    assert states() == {"1": "noisy"}
    well = Judged({RULE}, {("gpu", "1")}, quiet={RULE: timedelta(days=7)})

    became = [t.after for step in range(1, 5) for t in reconcile(at + minutes(4 * step), [], well, {})]
    assert became == ["resolved"]


def test_a_word_that_was_taken_back_ends_nothing() -> None:
    """Lost again after the word: the seven days of quiet count, not the quarter of an hour."""
    at = noisy()
    end(found().fingerprint, at + minutes(1), "back")
    report(at + minutes(2), found(severity="critical"), Place(None))
    well = Judged({RULE}, {("gpu", "1")}, quiet={RULE: timedelta(days=7)})

    for step in range(1, 10):
        assert reconcile(at + minutes(4 * step), [], well, {}) == []


def test_people_are_told_once_that_it_is_held_open() -> None:
    """One transition to noisy with the reason, and none more while it goes on."""
    at = noisy()
    for step in range(1, 10):
        end(found().fingerprint, at + timedelta(seconds=20 * step), "back")
        report(at + timedelta(seconds=20 * step + 10), found(severity="critical"), Place(None))

    held = Transition.objects.filter(after="noisy")
    assert [one.note for one in held] == ["It comes and goes: it is held open until it has kept still for 15 minutes."]
    assert moves("1")[-1] == "noisy"
