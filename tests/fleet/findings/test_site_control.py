"""What a site sets of rules, through judgements of a store that holds recordings: off, shadow, thresholds, rules of its own."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from fleet.findings import events
from fleet.findings.judge import judge
from fleet.findings.models import Finding, Opened, Transition
from fleet.inventory.models import Gpu
from fleet.notify import sending
from fleet.notify.models import Delivery, Route
from fleet.slow import frames
from fleet.tuning import own_rules
from fleet.tuning.changes import Wanted, remove_own, save_own, set_override, set_overrides, set_state
from fleet.tuning.in_force import in_force
from fleet.tuning.models import OwnRule
from tests.fleet.findings.test_judge import CARD
from tests.fleet.notify.receiver import Receiver, receiving
from tests.fleet.notify.telling import tell
from tests.fleet.recorded import fill, recording
from tests.fleet.rows import event, gpu, node, person
from tests.fleet.slow.past import process

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
NOW = (timezone.now() + timedelta(minutes=5)).replace(second=50, microsecond=0)
"""Ahead of the clock: what ends findings at once does so by the clock, and the judgements of a test come after it. Late in its minute: most of
the recording is in the whole minutes that the rarer features are folded from."""
FP32 = "fp32-without-tensor-cores"
OPENS, CLEARS = "fp32_active_when_busy_opens", "fp32_active_when_busy_clears"
TITLE = "FP32 arithmetic on a GPU with tensor cores"
OWN = {
    "scope": "gpu", "severity": "warn", "group": "capacity", "opens": "fp32_active_when_busy >= 0.4", "clears": "",
    "title": "Our own trouble", "summary": "FP32 at {fp32_active_when_busy:.0%} on {name}.", "change": "Ask whoever runs {pid}.",
}  # fmt: skip


@pytest.fixture(autouse=True)
def short_windows(settings: Settings) -> None:
    """A minute, as long as the recordings last."""
    settings.FETTLE_ADVISOR_WINDOW_S = 60
    settings.FETTLE_ADVISOR_PATIENCE_S = 2


def playing(recording: str = "fp32_train", name: str = "n1", **more: Any) -> Gpu:
    """A node that reported the recording until now."""
    card = gpu(node(name, last_seen_at=NOW, mem_total_bytes=256 << 30), **{**CARD, **more})
    fill(recording, [card], int(NOW.timestamp()))
    return card


def judge_times(times: int, start: int = 0) -> None:
    """So many judgements of the same minute, a second apart."""
    for step in range(start, start + times):
        judge(NOW + timedelta(seconds=step))


def still_open(rule: str = FP32) -> list[Finding]:
    """The rule's open findings."""
    return list(Finding.objects.filter(rule=rule, resolved_at=None))


def last_note(rule: str = FP32) -> str:
    """Why the rule's newest finding ended."""
    return Transition.objects.filter(finding__rule=rule, after="resolved").latest("id").note


def test_a_rule_that_is_switched_off_ends_what_it_found(django_capture_on_commit_callbacks: Any) -> None:
    """At once, with the reason; it finds nothing more until it is on again."""
    playing()
    judge_times(2)
    assert [one.condition for one in still_open()] == ["firing"]

    with django_capture_on_commit_callbacks(execute=True):
        set_state(FP32, "off", person())
    assert still_open() == []
    assert last_note() == "the rule was switched off"
    judge_times(2, 2)
    assert still_open() == []

    set_state(FP32, "on", person("bob"))
    judge_times(2, 4)
    assert [one.condition for one in still_open()] == ["firing"]


def test_a_judgement_ends_it_too_where_nobody_was_told() -> None:
    """The worker that hears nothing of the change looks for itself."""
    playing()
    judge_times(2)
    set_state(FP32, "off", person())
    judge_times(1, 2)

    assert still_open() == []


def test_switching_a_rule_off_and_on_is_no_flapping(django_capture_on_commit_callbacks: Any) -> None:
    """Four openings within the hour would make a noisy finding; these are somebody's doing."""
    playing()
    ann = person()
    for step in range(0, 20, 4):
        judge_times(2, step)
        for state in ("off", "on"):
            with django_capture_on_commit_callbacks(execute=True):
                set_state(FP32, state, ann)
    judge_times(2, 20)

    assert [one.condition for one in still_open()] == ["firing"]


def test_a_rule_in_shadow_tells_nobody(django_capture_on_commit_callbacks: Any) -> None:
    """Its findings are kept as those of shadow and counted nowhere; what it found before ends, and so does this when it comes out."""
    with receiving() as chat:
        told = routes_to(chat)
        playing()
        ann = person()
        set_state(FP32, "shadow", ann)
        judge_times(3)
        send()

        assert [(one.condition, one.shadow) for one in still_open()] == [("firing", True)]
        assert not Opened.objects.filter(rule=FP32).exists()
        assert [one for one in told() if TITLE in one] == []
        assert not Transition.objects.filter(routed_at=None).exists()

        with django_capture_on_commit_callbacks(execute=True):
            set_state(FP32, "on", ann)
        assert last_note() == "the rule came out of shadow"
        judge_times(2, 3)
        send()

        assert [(one.condition, one.shadow) for one in still_open()] == [("firing", False)]
        assert len([one for one in told() if TITLE in one]) == 1
        with django_capture_on_commit_callbacks(execute=True):
            set_state(FP32, "shadow", ann)
        send()

        assert last_note() == "the rule was put into shadow"
        assert len([one for one in told() if TITLE in one]) == 2


def routes_to(chat: Receiver) -> Any:
    """A route to the chat; what it was told so far."""
    Route.objects.create(name="chat", url=chat.url(), min_severity="info")
    return lambda: [str(message) for message in chat.got]


def send() -> None:
    """Route what is news and send all of it."""
    for delivery in tell():
        assert sending.attempt(delivery) == "sent"
    assert not Delivery.objects.exclude(state="sent").exists()


def test_a_rule_in_shadow_takes_precedence_over_none() -> None:
    """What is not told cannot silence what is: the straggler's finding stays when contention is only watched."""
    playing("noisy_neighbour")
    judge_times(2)
    before = {one.rule for one in Finding.objects.filter(resolved_at=None, shadow=False)}
    set_state("gpu-co-tenant-contention", "shadow", person())
    Finding.objects.all().delete()
    judge_times(2, 2)
    after = {one.rule for one in Finding.objects.filter(resolved_at=None, shadow=False)}

    assert "gpu-co-tenant-contention" in before
    assert before - {"gpu-co-tenant-contention"} <= after
    assert "gpu-co-tenant-contention" not in after


def test_an_override_closes_an_open_finding() -> None:
    """A site that calls it trouble from 0.9 on has none at 0.66; the evidence shows the value in force, and taking it away opens anew."""
    playing()
    judge_times(2)
    ann = person()
    assert threshold_shown(still_open()[0]) == 0.2
    set_overrides(FP32, [Wanted(OPENS, 0.9), Wanted(CLEARS, 0.8)], ann)
    judge_times(2, 2)
    assert still_open() == []

    set_overrides(FP32, [Wanted(OPENS, 0.3), Wanted(CLEARS, None)], ann)
    judge_times(2, 4)
    assert threshold_shown(still_open()[0]) == 0.3


def threshold_shown(finding: Finding) -> float:
    """The threshold in the evidence."""
    lines = finding.content["evidence"]
    return float(next(line["threshold"] for line in lines if line["name"] == "fp32_active_when_busy"))


@pytest.mark.parametrize(
    ("matcher", "pattern"),
    [
        ("gpu_model", "*H200*"), ("node", "n1*"), ("job", "n1/*/fp32_train"), ("job", "*/demo/fp32_train"),
        ("job_family", "demo/fp32_train"), ("partition", "debug"),
    ],
)  # fmt: skip
def test_an_override_holds_for_what_it_matches_alone(matcher: str, pattern: str) -> None:
    """Two nodes play the same, one in Slurm's partition debug; the other keeps its finding, unless the pattern matches both."""
    home = playing(name="n1").node
    for pid in {int(pid) for sample in recording("fp32_train").samples for raw in sample.gpus for pid in raw.get("pids") or {}}:
        process(home, pid, NOW, NOW, slurm_job="7", slurm_partition="debug")
    playing(name="m2", model="NVIDIA H100 80GB HBM3")
    ann = person()
    for name, value in ((OPENS, 0.9), (CLEARS, 0.8)):
        set_override(FP32, name, value, ann, matcher=matcher, pattern=pattern)
    judge_times(2)

    expected = [] if pattern.startswith(("*/", "demo/")) else ["m2/demo/fp32_train"]
    assert [one.target for one in still_open()] == expected


def test_an_own_rule_finds_what_it_was_written_for() -> None:
    """With its texts filled in and its numbers as evidence; it ends when it is removed."""
    card = playing()
    ann = person()
    row, _off = save_own("site-fp32", OWN, ann)
    row.trials.create(digest=own_rules.digest(row), by_name="x", windows_total=1, windows_with_data=1, ended_at=timezone.now())
    set_state("site-fp32", "on", ann)
    judge_times(2)

    (finding,) = still_open("site-fp32")
    assert (finding.condition, finding.target, finding.severity) == ("firing", str(card.pk), "warn")
    assert finding.content["title"]["id"] == "Our own trouble"
    (line,) = finding.content["evidence"]
    assert (line["name"], line["comparison"], line["threshold"], line["unit"]) == ("fp32_active_when_busy", ">=", 0.4, "ratio")
    assert finding.content["summary"]["params"]["name"] == "NVIDIA H200"
    assert finding.content["change"][0]["text"].startswith("Ask whoever runs ")

    remove_own(OwnRule.objects.get(), ann)
    judge_times(1, 2)
    assert still_open("site-fp32") == []
    assert last_note("site-fp32") == "the rule is there no more"


def test_an_own_rule_may_ask_for_flags_descriptions_annotations_and_earlier_runs() -> None:
    """Each as it is known at the judgement; a rule that asks for another value of one of them stays silent."""
    card, job = playing(), "n1/demo/fp32_train"
    for pid in {int(pid) for sample in recording("fp32_train").samples for raw in sample.gpus for pid in raw.get("pids") or {}}:
        process(card.node, pid, NOW, NOW, **{"flag.micro-batch-size": "4", "told.dtype": "fp32"})
    frames.keep("job", "now", NOW, frames.framed("job", "now", {job: {"base_runs": 5, "note_deadline": True}}))
    condition = "flag_micro_batch_size = 4 AND told_dtype = 'fp32' AND note_deadline AND base_runs >= {runs}"
    ann = person()
    for slug, runs in (("site-known", 5), ("site-other", 6)):
        text = {
            "scope": "job",
            "opens": condition.format(runs=runs),
            "summary": "Batch {flag_micro_batch_size:.0f}.",
            "change": "",
        }
        save_own(slug, OWN | text, ann)
        set_state(slug, "shadow", ann)
    judge_times(2)

    assert [(one.rule, one.target) for one in Finding.objects.filter(rule__startswith="site-")] == [("site-known", job)]
    assert still_open("site-known")[0].content["summary"]["params"] == {"flag_micro_batch_size": 4.0}


def test_an_own_rule_that_fails_on_the_fleet_takes_nobody_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped rules are judged as ever, and its row says what went wrong."""
    import polars as pl

    from advisor import conditions

    playing()
    ann = person()
    save_own("site-fp32", OWN, ann)
    set_state("site-fp32", "shadow", ann)
    sound = conditions.condition
    broken = pl.col("name").cast(pl.Int64) > 1  # what a check that had a hole would let through
    monkeypatch.setattr(own_rules, "condition", lambda sql, scope: broken if "0.4" in sql else sound(sql, scope))
    judge_times(2)

    assert [one.condition for one in still_open()] == ["firing"]
    assert "conversion" in OwnRule.objects.get().error
    assert "site-fp32" in in_force().own


def test_events_heed_the_state_of_their_rule() -> None:
    """XID 79 of a rule that is off opens nothing; in shadow it opens what nobody is told of."""
    card = playing()
    ann = person()
    set_state("xid-fallen-off-bus", "off", ann)
    events.handle([event(card)])
    assert not Finding.objects.exists()

    set_state("xid-fallen-off-bus", "shadow", ann)
    events.handle([event(card)])
    assert [(one.condition, one.shadow) for one in still_open("xid-fallen-off-bus")] == [("firing", True)]
    judge_times(2)
    assert [one.shadow for one in still_open("xid-fallen-off-bus")] == [True]
