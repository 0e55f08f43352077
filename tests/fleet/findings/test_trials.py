"""An own rule against the last day: how often it would have fired and where, in pieces, whatever changes meanwhile."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from advisor.finding import Scope
from fleet.findings import trials
from fleet.findings.models import Finding
from fleet.findings.tasks import try_rules
from fleet.inventory.models import Gpu
from fleet.slow import frames
from fleet.store.series import StoreError
from fleet.tuning.changes import TuneError, save_own, set_state, tried
from fleet.tuning.models import OwnRule, Trial
from tests.fleet.findings.test_judge import CARD
from tests.fleet.findings.test_site_control import OWN
from tests.fleet.recorded import fill, recording
from tests.fleet.rows import gpu, node, person
from tests.fleet.slow.past import process

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
PIDS = {int(pid) for sample in recording("fp32_train").samples for raw in sample.gpus for pid in raw.get("pids") or {}}
"""The processes of the recording."""


@pytest.fixture(autouse=True)
def short_windows(settings: Settings) -> None:
    """A minute, as long as the recordings last."""
    settings.FETTLE_ADVISOR_WINDOW_S = 60
    settings.FETTLE_ADVISOR_PATIENCE_S = 2


def on_two_nodes(trial: Trial) -> tuple[Gpu, Gpu]:
    """One that plays FP32 training now and 23.5 hours ago, and one that never did; both there."""
    busy, calm = (gpu(node(name, last_seen_at=timezone.now(), mem_total_bytes=256 << 30), **CARD) for name in ("n1", "n2"))
    now = int(trial.asked_at.timestamp())
    for end in (now, now - 47 * 1800):
        fill("fp32_train", [busy], end)
        fill("bf16_train", [calm], end)
    return busy, calm


def asked() -> Trial:
    """A trial of the rule on FP32 work."""
    ann = person()
    row, _off = save_own("site-fp32", OWN, ann)
    return trials.ask(row, ann)


def test_a_pair_that_would_flap_in_a_window_ends_the_trial_and_cannot_come_on() -> None:
    """Features that no rule of logic ties together: the first window with a target that opens and clears at once tells."""
    ann = person()
    row, _off = save_own("site-fp32", OWN | {"clears": "busy > 0.1 AND sm_active > 0.1"}, ann)
    trial = trials.ask(row, ann)
    busy, _calm = on_two_nodes(trial)
    trials.go_on(piece_s=60.0)
    trial.refresh_from_db()

    says, what = trial.error.split("\n")
    assert says == trials.FLAPS
    assert what.startswith(f"gpu {busy.pk}: fp32_active_when_busy = 0.")
    assert tried(row) is None
    with pytest.raises(TuneError, match="try it against the last day"):
        set_state("site-fp32", "on", ann)


def test_a_trial_says_where_the_rule_would_have_fired(settings: Settings) -> None:
    """Of 48 windows two hold telemetry: it fires on one GPU in both, and opens no finding."""
    trial = asked()
    busy, _calm = on_two_nodes(trial)
    looked = 0
    while Trial.objects.filter(ended_at=None).exists():
        looked += trials.go_on(piece_s=0.0)
    trial.refresh_from_db()

    assert looked == trial.windows_looked_at == trial.windows_total == 48
    assert (trial.windows_with_data, trial.judged_total, trial.fired_total) == (2, 4, 2)
    assert trial.targets == {str(busy.pk): 2}
    assert trial.error == ""
    assert not Finding.objects.exists()
    assert tried(OwnRule.objects.get()) == trial
    assert set_state("site-fp32", "on", person("bob"))


def ended(condition: str, scope: str) -> Trial:
    """A trial of two windows of a rule with the condition, at its end: a node played FP32 training in both, by two runs."""
    ann = person()
    row, _off = save_own("site-told", OWN | {"summary": "Told.", "change": "", "scope": scope, "opens": condition}, ann)
    trial = trials.ask(row, ann)
    now = trial.asked_at.replace(second=50, microsecond=0)  # the recording is in whole minutes, of which processes are read
    Trial.objects.update(windows_total=2, asked_at=now)
    card = gpu(node("n1", last_seen_at=now, mem_total_bytes=256 << 30), **CARD)
    old = now - trials.APART
    for end in (now, old):
        fill("fp32_train", [card], int(end.timestamp()))
    for pid in PIDS:
        process(card.node, pid, old - timedelta(hours=1), old, **{"flag.micro-batch-size": "4", "flag.bf16": "false"})
        process(card.node, pid, old + timedelta(minutes=9), now, **{"flag.micro-batch-size": "8"})
    known: dict[Scope, Any] = {
        "node": {card.node_id: {"note_power_policy": True}},
        "job": {"n1/demo/fp32_train": {"base_runs": 5}},
    }
    for of, rows in known.items():
        frames.keep(of, "now", now, frames.framed(of, "now", rows))
    trials.go_on(piece_s=60.0)
    trial.refresh_from_db()
    return trial


def test_flags_are_those_of_the_processes_that_were_there_then() -> None:
    """Each of the two windows has its own: one of them fires."""
    trial = ended("flag_micro_batch_size < 5 AND NOT flag_bf16", "job")

    assert (trial.windows_with_data, trial.fired_total, trial.of_now) == (1, 1, [])
    assert trial.targets == {"n1/demo/fp32_train": 1}


@pytest.mark.parametrize(
    ("scope", "condition", "feature"),
    [("node", "note_power_policy", "note_power_policy"), ("job", "base_runs >= 5", "base_runs")],
)
def test_what_is_known_of_now_alone_stands_for_then(scope: str, condition: str, feature: str) -> None:
    """Both windows fire on the one target of which it is known, and the trial names it."""
    trial = ended(condition, scope)

    assert (trial.windows_with_data, trial.judged_total, trial.fired_total, trial.of_now) == (2, 2, 2, [feature])


def test_a_trial_goes_on_where_a_piece_left_it() -> None:
    """Each piece looks at one window at least; the periodic task does the next, and nothing when none is under way."""
    trial = asked()
    assert trials.go_on(piece_s=0.0) == 1
    trial.refresh_from_db()
    assert (trial.windows_looked_at, trial.ended_at) == (1, None)

    try_rules()
    trial.refresh_from_db()
    assert trial.windows_looked_at > 1
    Trial.objects.update(ended_at=timezone.now())
    try_rules()
    assert trials.go_on() == 0


def test_a_trial_over_nothing_is_no_trial() -> None:
    """A site without telemetry of the last day cannot know what the rule would do."""
    trial = asked()
    trials.go_on(piece_s=60.0)
    trial.refresh_from_db()

    assert (trial.windows_looked_at, trial.windows_with_data, trial.error) == (48, 0, "")
    assert tried(OwnRule.objects.get()) is None
    with pytest.raises(TuneError, match="try it"):
        set_state("site-fp32", "on", person("bob"))


def test_one_trial_of_a_rule_at_a_time_and_ten_are_kept() -> None:
    """The second waits for the end of the first; old ones make room."""
    trial = asked()
    row, ann = trial.rule, person("bob")
    with pytest.raises(TuneError, match="under way"):
        trials.ask(row, ann)
    for _ in range(12):
        Trial.objects.update(ended_at=timezone.now())
        trials.ask(row, ann)

    assert Trial.objects.count() == 10
    assert not Trial.objects.filter(pk=trial.pk).exists()


def test_a_rule_that_changes_while_it_is_tried_ends_the_trial() -> None:
    """What was found is of other conditions."""
    trial = asked()
    trials.go_on(piece_s=0.0)
    save_own("site-fp32", OWN | {"opens": "busy > 0.5"}, person("bob"))
    trials.go_on(piece_s=0.0)
    trial.refresh_from_db()

    assert trial.ended_at is not None
    assert trial.error == trials.CHANGED


def test_a_store_that_fails_ends_the_trial_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ever; it may be asked again."""
    trial = asked()

    def fail(*_: Any) -> None:
        raise StoreError("/secret/path is damaged")

    monkeypatch.setattr(trials, "look", fail)
    trials.go_on()
    trial.refresh_from_db()

    assert trial.error == trials.STORE_FAILED
    assert "secret" not in trial.error


def test_a_trial_that_takes_too_long_ends_with_what_it_has() -> None:
    """On a fleet so large that 48 windows do not fit, fewer say something too."""
    trial = asked()
    Trial.objects.update(asked_at=timezone.now() - timedelta(minutes=21))
    trials.go_on(piece_s=0.0)
    trial.refresh_from_db()

    assert trial.ended_at is not None
    assert (trial.windows_looked_at, trial.error) == (1, "")
