"""Witnesses that join the finding of another: the count of a node's devices, and the log of a job."""

from datetime import timedelta

import pytest

from advisor.finding import Evidence, Severity
from advisor.finding import Finding as Found
from fleet.annotations.models import Annotation
from fleet.findings.joined import OF_LOG
from fleet.findings.judged import Judged, Place
from fleet.findings.lifecycle import reconcile, report
from fleet.findings.models import Finding
from fleet.inventory.models import Gpu, Node
from tests.fleet.jobs.given import give, job
from tests.fleet.rows import NOON, found, gpu, minutes, node

pytestmark = pytest.mark.django_db
TEN_S = timedelta(seconds=10)


def event(card: Gpu, rule: str = "xid-fallen-off-bus", severity: Severity = "critical") -> Finding:
    """What the kernel's log said of the card at noon."""
    return report(NOON, found(str(card.pk), rule, severity), Place(card.node_id, (card.pk,)))


def count(home: Node, there: int, all_: int = 8) -> Found:
    """The node lists so many of its cards."""
    evidence = (Evidence("node_gpus_present", there, "gpus"), Evidence("node_gpus", all_, "gpus"))
    return found(str(home.pk), "xid-fallen-off-bus", "critical", "node", evidence=evidence)


def look(at_s: float, *seen: Found) -> None:
    """One window."""
    reconcile(NOON + timedelta(seconds=at_s), seen, Judged(), {})


def test_a_missing_card_that_is_known_to_be_lost_is_no_second_alert() -> None:
    """The count is a witness of the loss."""
    card = gpu(node())
    row = event(card)
    look(10, count(card.node, 7))
    look(20, count(card.node, 7))

    row.refresh_from_db()
    assert Finding.objects.count() == 1
    assert {kind: one["count"] for kind, one in row.witnesses.items()} == {"kernel_log": 1, "device_count": 2}


def test_a_card_more_that_is_missing_is_an_alert() -> None:
    """Two are gone, and the log told of one."""
    card = gpu(node())
    row = event(card)
    look(10, count(card.node, 6))

    assert Finding.objects.filter(scope="node").count() == 1
    row.refresh_from_db()
    assert set(row.witnesses) == {"kernel_log"}


def test_a_count_that_was_first_follows_from_the_loss_that_is_told_later() -> None:
    """It stays open, as the card's consequence."""
    card = gpu(home := node())
    reconcile(NOON - TEN_S, [count(home, 7)], Judged(), {("node", str(home.pk)): Place(home.pk)})
    row = event(card)
    counted = Finding.objects.get(scope="node")

    assert (counted.cause, counted.cause_place) == (row, "node")


def test_a_jobs_log_is_a_witness_of_what_its_card_did() -> None:
    """The job held the card, and its log says ECC: once, however often it is read."""
    card = gpu(node())
    give(job("4711", NOON - minutes(60)), card)
    row = event(card, "uncorrectable-ecc")
    Annotation.objects.create(scope="job", target="west/4711", key="log_error", value="ecc_error", at=NOON + minutes(1))
    look(70)
    look(80)

    row.refresh_from_db()
    assert row.witnesses["job_log"] == {
        "first_at": "2026-11-30T12:01:00+00:00",
        "last_at": "2026-11-30T12:01:00+00:00",
        "count": 1,
    }


@pytest.mark.parametrize(
    ("target", "word"),
    [pytest.param("west/4712", "ecc_error", id="another job"), pytest.param("west/4711", "cuda_oom", id="another word")],
)
def test_another_log_is_no_witness(target: str, word: str) -> None:
    """Of a job that held other cards, or of another trouble."""
    card = gpu(node())
    give(job("4711", NOON - minutes(60)), card)
    row = event(card, "uncorrectable-ecc")
    Annotation.objects.create(scope="job", target=target, key="log_error", value=word, at=NOON + minutes(1))
    look(70)

    row.refresh_from_db()
    assert "job_log" not in row.witnesses


def test_a_jobs_log_is_a_witness_of_the_jobs_own_trouble() -> None:
    """A collective that timed out."""
    reconcile(NOON, [found("west/4711", "collective-hang", "critical", "job")], Judged(), {})
    Annotation.objects.create(scope="job", target="west/4711", key="log_error", value="nccl_timeout", at=NOON + minutes(1))
    look(70)

    assert "job_log" in Finding.objects.get().witnesses


def test_every_word_of_a_log_is_some_rules() -> None:
    """The words that may be told are those that are read."""
    from advisor.annotations import BY_KEY
    from advisor.rule import load

    assert set(OF_LOG) == set(BY_KEY["log_error"].words)
    assert {rule for rules in OF_LOG.values() for rule in rules} <= {rule.id for rule in load()}
