"""The life cycle of findings: when they open, fire, turn noisy and resolve, and what changes nothing."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from advisor.finding import Finding as Found
from advisor.finding import Severity
from fleet.findings import lifecycle
from fleet.findings.lifecycle import Judged, MoveError, Place, advise_transition, reconcile, report
from fleet.findings.models import Finding, Transition
from fleet.tuning.durations import Durations
from tests.fleet.rows import NOON, found, gpu, minutes, node, person

pytestmark = pytest.mark.django_db
RULE = "power-cap-limited"
TEN_S = timedelta(seconds=10)


def judged(*targets: str, missing: tuple[str, ...] = (), rules: tuple[str, ...] = (RULE,)) -> Judged:
    """A fresh window in which the rule judged these GPUs, less those that lacked a metric."""
    return Judged(
        rules=frozenset(rules),
        targets=frozenset(("gpu", target) for target in targets),
        missing=frozenset((RULE, target) for target in missing),
        fresh_nodes=frozenset(),
    )


def see(at: datetime, *findings: Found, judging: Judged | None = None) -> list[tuple[str, str]]:
    """One judgement; its transitions as (before, after)."""
    return [(t.before, t.after) for t in reconcile(at, findings, judging or judged("1"), {})]


def see_many(at: datetime, times: int, *findings: Found) -> datetime:
    """So many judgements ten seconds apart; the time of the next one."""
    for _ in range(times):
        see(at, *findings)
        at += TEN_S
    return at


def see_for(at: datetime, span: timedelta, *findings: Found) -> list[tuple[str, str]]:
    """Judgements from `at` to `at` + `span`, so near each other that they leave no gap; the transitions of all."""
    became, until = [], at + span
    while at < until:
        became += see(at, *findings)
        at = min(until, at + minutes(4))
    return became + see(until, *findings)


def test_it_fires_when_two_judgements_in_a_row_saw_it() -> None:
    """One window is a suspicion, two are a finding."""
    first = see(NOON, found())
    second = see(NOON + TEN_S, found())

    assert first == [("", "pending")]
    assert second == [("pending", "firing")]
    assert Finding.objects.get().condition == "firing"


def lasting(severity: str, seconds: float) -> Judged:
    """A window of a site where what the rule says at this severity must last so long."""
    return replace(judged("1"), durations=Durations({(RULE, severity): seconds}))


@pytest.mark.parametrize("severity", ["warn", "critical"])
def test_it_fires_when_it_has_lasted_as_long_as_the_site_wants(severity: Severity) -> None:
    """Not before, however many windows saw it; the judgement that completes the minimum duration fires."""
    minute = lasting(severity, 60)
    for step in range(6):
        assert ("pending", "firing") not in see(NOON + step * TEN_S, found(severity=severity), judging=minute)

    assert see(NOON + 6 * TEN_S, found(severity=severity), judging=minute) == [("pending", "firing")]


def test_what_grows_critical_has_the_duration_of_what_is_critical() -> None:
    """A warning that has to last an hour fires at once when it becomes critical."""
    hour = lasting("warn", 3600)
    see(NOON, found(severity="warn"), judging=hour)

    assert see(NOON + TEN_S, found(severity="critical"), judging=hour) == [("pending", "firing")]


def test_time_that_no_window_saw_does_not_count_as_lasting() -> None:
    """A worker that was down for an hour: the hour is neither for it nor against it, and the minutes before it count."""
    ten = lasting("warn", 600)
    for minute in range(8):
        see(NOON + minutes(minute), found(), judging=ten)
    back = NOON + minutes(67)  # 7 minutes had been seen; of the hour since, the window covers its last 5

    assert see(back, found(), judging=ten) == [("pending", "firing")]
    assert Finding.objects.get().streak_since == NOON + minutes(55)


def test_a_gap_alone_does_not_complete_the_duration() -> None:
    """Seen twice with an hour between: that is not an hour of it."""
    ten = lasting("warn", 600)
    see(NOON, found(), judging=ten)

    assert see(NOON + minutes(60), found(), judging=ten) == []
    assert see(NOON + minutes(64), found(), judging=ten) == []
    assert see(NOON + minutes(65), found(), judging=ten) == [("pending", "firing")]


def test_a_clock_that_was_set_back_freezes_nothing() -> None:
    """The server ran a day ahead for a while: what was judged then is judged again at once, and resolves and opens as ever."""
    ended_tomorrow = see_many(see_many(NOON + timedelta(days=1), 2, found()), 2)
    see_many(ended_tomorrow, 2, found())

    see(NOON)
    assert see(NOON + TEN_S) == [("firing", "resolved")]
    assert see(NOON + minutes(1), found()) == [("", "pending")]


def test_a_severity_that_goes_up_and_down_is_told_once() -> None:
    """A warning that turns critical again and again is one piece of news within the hour."""
    at = see_many(NOON, 2, found(severity="warn"))
    for _ in range(3):
        at = see_many(see_many(at, 2, found(severity="critical")), 2, found(severity="warn"))

    assert Transition.objects.filter(before="firing", after="firing").count() == 1


def test_a_critical_finding_fires_at_once() -> None:
    """What is critical does not wait for a second window."""
    assert see(NOON, found(severity="critical")) == [("", "pending"), ("pending", "firing")]


def test_it_resolves_after_two_judgements_that_saw_it_clear() -> None:
    """One clear window may be chance."""
    at = see_many(NOON, 2, found())

    assert see(at) == []
    assert see(at + TEN_S) == [("firing", "resolved")]
    row = Finding.objects.get()
    assert (row.condition, row.resolved_at) == ("resolved", at + TEN_S)


def test_a_clear_judgement_between_two_that_saw_it_keeps_it_open() -> None:
    """The count of clear judgements begins anew."""
    at = see_many(NOON, 2, found())
    see(at)
    see(at + TEN_S, found())

    assert see(at + 2 * TEN_S) == []
    assert Finding.objects.get().condition == "firing"


@pytest.mark.parametrize(
    "silent",
    [
        pytest.param(judged(), id="the node is stale, so its GPU is no target"),
        pytest.param(judged("1", missing=("1",)), id="the rule lacked a metric"),
        pytest.param(judged("1", rules=("another-rule",)), id="the rule is gone"),
        pytest.param(judged("2"), id="only another GPU was judged"),
    ],
)
def test_no_judgement_changes_nothing(silent: Judged) -> None:
    """A gap neither raises nor clears, however long it lasts."""
    at = see_many(NOON, 2, found())
    before = Finding.objects.values().get()
    for step in range(5):
        assert see(at + step * TEN_S, judging=silent) == []

    assert Finding.objects.values().get() == before


def test_judging_one_window_twice_changes_nothing_more() -> None:
    """A task that is repeated after a crash finds its work done."""
    see(NOON, found())
    see(NOON + TEN_S, found())
    before = list(Finding.objects.values()), list(Transition.objects.values())

    assert see(NOON + TEN_S, found()) == []
    assert (list(Finding.objects.values()), list(Transition.objects.values())) == before


def test_one_clear_window_judged_twice_does_not_resolve() -> None:
    """Two judgements means two windows."""
    at = see_many(NOON, 2, found())
    see(at)

    assert see(at) == []
    assert Finding.objects.get().condition == "firing"


def test_an_older_window_opens_nothing_that_a_newer_one_closed() -> None:
    """Backlog that is judged late does not fire what is over (T03)."""
    at = see_many(NOON, 2, found())
    see_many(at, 2)
    assert Finding.objects.get().condition == "resolved"

    assert see(NOON + TEN_S / 2, found()) == []
    assert Finding.objects.count() == 1


def test_one_that_returns_is_a_new_row() -> None:
    """The old row keeps its history."""
    at = see_many(NOON, 2, found())
    at = see_many(at, 2)
    see_many(at, 2, found())

    assert sorted(Finding.objects.values_list("condition", flat=True)) == ["firing", "resolved"]


def test_the_fourth_opening_within_an_hour_is_noisy() -> None:
    """Three times people are told; then it is quiet until it keeps still."""
    at = NOON
    for _ in range(4):
        at = see_many(at, 2, found())
        newest = Finding.objects.latest("opened_at")
        if newest.condition == "firing":
            at = see_many(at, 2)

    assert Transition.objects.filter(after="firing").count() == 3
    assert Finding.objects.latest("opened_at").condition == "noisy"


def noisy() -> tuple[datetime, Finding]:
    """A noisy finding and the time of the next judgement."""
    at = NOON
    for _ in range(3):
        at = see_many(see_many(at, 2, found()), 2)
    at = see_many(at, 2, found())
    return at, Finding.objects.get(condition="noisy")


def test_a_noisy_one_stays_open_while_it_flaps() -> None:
    """It neither resolves nor opens more rows."""
    at, row = noisy()
    for _ in range(6):
        at = see_many(see_many(at, 3), 3, found())

    row.refresh_from_db()
    assert row.condition == "noisy"
    assert Finding.objects.count() == 4


def test_a_noisy_one_resolves_after_a_quiet_while() -> None:
    """A quarter of an hour without it ends it."""
    at, row = noisy()
    assert see_for(at, lifecycle.QUIET - TEN_S) == []
    row.refresh_from_db()
    assert row.condition == "noisy"

    assert see(at + lifecycle.QUIET) == [("noisy", "resolved")]


def test_a_noisy_one_that_stays_fires_again() -> None:
    """A quarter of an hour of it without a break is no flapping."""
    at, _row = noisy()
    assert see_for(at, lifecycle.QUIET - 4 * TEN_S, found()) == []

    assert see(at + lifecycle.QUIET, found()) == [("noisy", "firing")]


def test_a_pending_one_that_clears_never_fires() -> None:
    """Its end is recorded too, and was never announced."""
    see(NOON, found())
    see(NOON + TEN_S)

    assert see(NOON + 2 * TEN_S) == [("pending", "resolved")]


def test_it_takes_over_what_the_rule_says_now() -> None:
    """Numbers, severity and advice are those of the newest window."""
    see(NOON, found())
    see(NOON + TEN_S, found(recoverable=0.4, confidence="low"))

    row = Finding.objects.get()
    assert (row.recoverable, row.confidence, row.seen_total, row.last_seen_at) == (0.4, "low", 2, NOON + TEN_S)


def test_growing_worse_while_it_fires_is_a_transition() -> None:
    """People hear of a warning that became critical; getting milder is not news."""
    at = see_many(NOON, 2, found(severity="warn"))

    assert see(at, found(severity="critical")) == [("firing", "firing")]
    assert see(at + TEN_S, found(severity="warn")) == []
    assert Transition.objects.latest("id").note == "warn -> critical"


JOB = "n1/demo/train"


class Job:
    """A job on two GPUs of a node, and windows in which it runs, is gone, or runs without its trouble."""

    def __init__(self) -> None:
        self.home = node()
        self.cards = gpu(self.home, 0).pk, gpu(self.home, 1).pk
        self.places = {("job", JOB): Place(self.home.pk, self.cards)}
        self.at = NOON

    def runs(self, times: int = 2, *, trouble: bool = True) -> list[str]:
        """So many judgements of the running job; what its finding became."""
        found_ = [found(target=JOB, scope="job")] if trouble else []
        seen = Judged(frozenset([RULE]), self.places.keys(), fresh_nodes=frozenset([self.home.pk]), gpus=frozenset(self.cards))
        return self._judge(times, found_, seen, self.places)

    def is_gone(self, times: int = 2, *, nodes: int = 1, cards: int = 2) -> list[str]:
        """So many judgements without the job, in which its node and so many of its GPUs report."""
        reporting = frozenset([self.home.pk][:nodes])
        return self._judge(times, [], Judged(frozenset([RULE]), fresh_nodes=reporting, gpus=frozenset(self.cards[:cards])), {})

    def _judge(self, times: int, found_: list[Found], seen: Judged, places: dict[tuple[str, str], Place]) -> list[str]:
        became = []
        for _ in range(times):
            became += [t.after for t in reconcile(self.at, found_, seen, places)]
            self.at += TEN_S
        return became


def test_a_job_that_comes_back_goes_on_with_its_finding() -> None:
    """Restarted five times within the hour: one row, its advice as people left it, one announcement, nothing noisy."""
    job = Job()
    assert job.runs() == ["pending", "firing"]
    advise_transition(Finding.objects.get(), "accepted", None)
    for _ in range(5):
        assert job.is_gone(50) == []
        assert job.runs(3) == []

    row = Finding.objects.get()
    assert (row.condition, row.advice) == ("firing", "accepted")


def test_a_job_that_stays_away_has_ended() -> None:
    """Its finding stays open for the grace period, then resolves with the reason."""
    job = Job()
    job.runs()
    last = job.at - TEN_S
    waiting = int(lifecycle.JOB_GRACE / TEN_S) - 1
    assert job.is_gone(waiting) == []

    assert job.is_gone(1) == ["resolved"]
    ended = Transition.objects.get(after="resolved")
    assert (ended.at, ended.note) == (last + lifecycle.JOB_GRACE, "the job ended")


@pytest.mark.parametrize(("nodes", "cards"), [pytest.param(0, 2, id="its node"), pytest.param(1, 1, id="one of its GPUs")])
def test_a_job_on_something_silent_has_not_ended(nodes: int, cards: int) -> None:
    """Nothing is known of it, however long that lasts."""
    job = Job()
    job.runs()

    assert job.is_gone(200, nodes=nodes, cards=cards) == []


def test_ends_of_a_job_are_no_flapping() -> None:
    """A job started every quarter of an hour is announced each time; the fourth is not muted."""
    job = Job()
    for _ in range(5):
        assert job.runs() == ["pending", "firing"]
        assert job.is_gone(61) == ["resolved"]


def test_a_job_judged_and_found_without_the_trouble_flaps() -> None:
    """Only what was judged clear counts: the fourth opening is noisy."""
    job = Job()
    for _ in range(3):
        assert job.runs() == ["pending", "firing"]
        assert job.runs(trouble=False) == ["resolved"]

    assert job.runs() == ["pending", "noisy"]


def test_a_row_knows_its_node_and_gpus() -> None:
    """The place of the target is kept, for pages and messages."""
    home = node()
    card = gpu(home)
    reconcile(NOON, [found(target=str(card.pk))], judged(), {("gpu", str(card.pk)): Place(home.pk, (card.pk,))})

    row = Finding.objects.get()
    assert row.node == home
    assert list(row.gpus.all()) == [card]


def test_many_rows_are_refreshed_in_one_upsert(django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    """The number of queries does not grow with the number of findings."""
    many = [found(target=str(number)) for number in range(150)]
    see(NOON, *many)
    see(NOON + TEN_S, *many)

    with django_assert_max_num_queries(18):
        see(NOON + 2 * TEN_S, *many)
    assert Finding.objects.filter(condition="firing", seen_total=3).count() == 150


def test_what_an_event_reported_is_not_cleared_by_a_quiet_window() -> None:
    """An XID is over when the device ran long enough without it, not when a counter stands still."""
    report(NOON, found(severity="critical"), Place(None))
    hour = replace(judged("1"), quiet={RULE: minutes(60)})
    for step in range(1, 16):
        assert see(NOON + step * minutes(4), judging=hour) == []

    assert see(NOON + minutes(64), judging=hour) == [("firing", "resolved")]


def test_time_that_nobody_saw_is_no_quiet_of_a_device() -> None:
    """A node that was off for the day did not run a day without a repeat."""
    report(NOON, found(severity="critical"), Place(None))
    hour = replace(judged("1"), quiet={RULE: minutes(60)})
    see(NOON + TEN_S, judging=hour)

    for hours in range(1, 10):
        assert see(NOON + minutes(60 * hours), judging=hour) == []


def test_repeated_events_join_one_finding() -> None:
    """Duplicates of one trouble on one GPU are one row and one announcement."""
    for step in range(5):
        report(NOON + step * TEN_S, found(severity="critical"), Place(None))

    row = Finding.objects.get()
    assert row.seen_total == 5
    assert Transition.objects.filter(after="firing").count() == 1


def test_an_event_from_before_the_end_joins_the_closed_finding() -> None:
    """Backlog does not open again what is over (T03)."""
    report(NOON, found(severity="critical"), Place(None))
    assert lifecycle.end(found().fingerprint, NOON + minutes(5), "back")

    report(NOON + minutes(1), found(severity="critical"), Place(None))

    row = Finding.objects.get()
    assert (row.condition, row.seen_total) == ("resolved", 2)


def test_advice_moves_as_people_say() -> None:
    """Each move is a row with who made it and why."""
    alice = person()
    see(NOON, found())
    row = Finding.objects.get()
    advise_transition(row, "accepted", alice, "will do")
    advise_transition(row, "applied", alice)

    assert [(t.before, t.after, t.by, t.note) for t in row.transitions.filter(axis="advice")] == [
        ("proposed", "accepted", alice, "will do"),
        ("accepted", "applied", alice, ""),
    ]
    row.refresh_from_db()
    assert row.advice == "applied"


@pytest.mark.parametrize("after", ["helped", "no_effect", "worse", "cannot_tell", "proposed", "nonsense"])
def test_nobody_may_give_a_verdict(after: str) -> None:
    """Verdicts are measured; a move that is not legal is refused and leaves no row."""
    see(NOON, found())
    row = Finding.objects.get()

    with pytest.raises(MoveError):
        advise_transition(row, after, None)
    assert not row.transitions.filter(axis="advice").exists()


def test_of_two_people_who_move_at_once_one_is_told() -> None:
    """The second holds an old row: the move is refused."""
    see(NOON, found())
    first, second = Finding.objects.get(), Finding.objects.get()
    advise_transition(first, "accepted", None)

    with pytest.raises(MoveError, match="Somebody else"):
        advise_transition(second, "dismissed", None)


def test_advice_on_an_ended_finding_stays_as_it_is() -> None:
    """Whoever asks, page or API, and also when it ended after they had looked."""
    see(NOON, found())
    looked = Finding.objects.get()
    see_many(NOON + TEN_S, 2)
    ended = Finding.objects.get()
    assert ended.condition == "resolved"

    with pytest.raises(MoveError, match="has ended"):
        advise_transition(ended, "accepted", None)
    with pytest.raises(MoveError, match="ended"):
        advise_transition(looked, "accepted", None)
    assert Finding.objects.get().advice == "proposed"
    assert not ended.transitions.filter(axis="advice").exists()
