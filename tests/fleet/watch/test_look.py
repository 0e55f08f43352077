"""Alerts from the inventory: what opens them, what does not, and the one word that ends each."""

from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest
from django.conf import LazySettings

from advisor.xid_catalog import BY_RULE
from fleet.annotations.models import Annotation
from fleet.findings.content import render
from fleet.findings.models import Finding
from fleet.inventory.models import Absence, Engine, Gpu, Node
from fleet.jobs.models import Allocation, Job
from fleet.store.memory import MemorySeries
from fleet.tuning.changes import set_state
from fleet.watch.alerts import RULES
from fleet.watch.look import look
from fleet.watch.models import Watch
from tests.fleet.rows import NOON, gpu, node, person

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def readings(monkeypatch: pytest.MonkeyPatch) -> MemorySeries:
    """A store of its own."""
    made = MemorySeries()
    monkeypatch.setattr("fleet.store.clock.store", lambda: made)
    return made


@pytest.fixture(autouse=True)
def watching(settings: LazySettings) -> None:
    """A watch that has looked for an hour."""
    settings.FETTLE_NODE_SILENT_S, settings.FETTLE_WATCH_GRACE_S = 60, 90
    Watch.objects.create(pk=1, since=NOON - timedelta(hours=1), ran_at=NOON - 5 * SECOND)


def heard(name: str = "n1", ago_s: float = 1.0, **more: Any) -> Node:
    """A node that was heard so long before NOON, and whose newest sample is of then."""
    at = NOON - ago_s * SECOND
    return node(name, **{"last_seen_at": at, "last_received_at": at, "connected_at": NOON - timedelta(hours=2), **more})


def hears(one: Node, at: datetime) -> None:
    """It says something at `at`."""
    Node.objects.filter(pk=one.pk).update(last_seen_at=at, last_received_at=at)


def looks(*seconds: float) -> None:
    """The watch looks so long after NOON."""
    for after in seconds:
        look(NOON + after * SECOND)


def rows() -> list[tuple[str, str, str]]:
    """Rule, target and condition of all findings, in order."""
    return list(Finding.objects.order_by("id").values_list("rule", "target", "condition"))


def test_a_node_that_falls_silent_is_told_and_ends_when_it_is_heard() -> None:
    """Not before the time is over; not by time alone."""
    one = heard(ago_s=50)
    looks(0)
    assert rows() == []

    looks(15, 20, 4000)
    assert rows() == [("node-silent", str(one.pk), "firing")]
    hears(one, NOON + 4001 * SECOND)
    looks(4002)
    assert rows() == [("node-silent", str(one.pk), "resolved")]


@pytest.mark.parametrize("why", ["bye", "maintenance", "long gone", "never"])
def test_a_silence_that_was_to_be_expected_is_none(why: str) -> None:
    """An agent that was stopped in order, a node that somebody works on, one that was gone before the watch began, one that never spoke."""
    one = heard(ago_s=3600 * 26 if why == "long gone" else 300)
    if why == "bye":
        Node.objects.update(said_bye_at=NOON)
    elif why == "maintenance":
        Annotation.objects.create(scope="node", target=one.name, key="maintenance", value=True, at=NOON - SECOND)
    elif why == "never":
        Node.objects.update(last_seen_at=None, last_received_at=None)
    looks(0, 10)

    assert rows() == []


def test_maintenance_that_begins_ends_the_alert() -> None:
    """Somebody knows of it."""
    one = heard(ago_s=300)
    looks(0)
    Annotation.objects.create(scope="node", target=one.name, key="maintenance", value=True, at=NOON + SECOND)
    looks(5)

    assert rows() == [("node-silent", str(one.pk), "resolved")]


def test_a_silent_node_with_a_job_is_critical() -> None:
    """At once, or when the scheduler tells of the job."""
    first, second = heard("n1", 300), heard("n2", 300)
    job = Job.objects.create(cluster="c", job_id="1", started_at=NOON, source="slurm", state="running")
    Allocation.objects.create(job=job, node=first, node_name="n1", device="0", from_at=NOON)
    looks(0)
    assert dict(Finding.objects.values_list("target", "severity")) == {str(first.pk): "critical", str(second.pk): "warn"}

    Allocation.objects.create(job=job, node=second, node_name="n2", device="0", from_at=NOON)
    looks(5)
    assert set(Finding.objects.values_list("severity", flat=True)) == {"critical"}


def test_a_server_that_was_down_waits_for_its_agents() -> None:
    """After a gap in its own work nothing is silent for the grace; who is not back by then is."""
    back, lost = heard("n1", 3600), heard("n2", 3600)
    Watch.objects.update(ran_at=NOON - timedelta(hours=1))
    looks(0, 30, 60)
    assert rows() == []

    hears(back, NOON + 80 * SECOND)
    looks(85, 95)
    assert rows() == [("node-silent", str(lost.pk), "firing")]


def test_most_nodes_at_once_are_one_alert_and_theirs_follow_from_it() -> None:
    """Thirty of forty within seconds: the network or this server."""
    many = [heard(f"n{number:02}", 100 + number % 5) for number in range(30)]
    for number in range(10):
        heard(f"up{number}", ago_s=0)
    looks(0)

    whole = Finding.objects.get(rule="many-nodes-silent")
    assert (whole.scope, whole.severity, whole.node) == ("fleet", "critical", None)
    assert "30 of 40 nodes" in render(whole).summary
    assert Finding.objects.filter(rule="node-silent", cause=whole).count() == 30
    for one in many[:25]:
        hears(one, NOON + 10 * SECOND)
    looks(11)
    whole.refresh_from_db()
    assert whole.condition == "resolved"
    assert Finding.objects.filter(rule="node-silent", resolved_at=None).count() == 5


def test_nodes_that_went_one_after_the_other_are_no_fault_of_the_network() -> None:
    """More than half are silent, but not since the same minute."""
    for number in range(6):
        heard(f"n{number}", ago_s=100 + 600 * number)
    looks(0)

    assert {rule for rule, _, _ in rows()} == {"node-silent"}


def test_a_gpu_that_is_not_listed_any_more_is_missing_until_it_is_back() -> None:
    """After two looks; the finding is of the node and names the card."""
    one = heard(ago_s=0)
    cards = [gpu(one, number) for number in range(4)]
    Gpu.objects.filter(pk=cards[3].pk).update(present=False)
    looks(0)
    assert rows() == []
    looks(9)

    row = Finding.objects.get()
    assert (row.rule, row.severity, list(row.gpus.all())) == ("gpu-missing", "critical", [cards[3]])
    assert "lists 3 GPU(s); before it listed 4" in render(row).summary
    Gpu.objects.update(present=True)
    looks(15)
    row.refresh_from_db()
    assert row.condition == "resolved"


def test_a_card_that_another_took_the_place_of_is_not_missing() -> None:
    """Swapped: the same index, another UUID."""
    one = heard(ago_s=0)
    gpu(one, 0, present=False)
    gpu(one, 0, uuid="GPU-new")
    looks(0, 10)

    assert rows() == []


def test_a_node_with_fewer_gpus_than_the_site_says_lacks_some() -> None:
    """The site's word counts, whatever its peers have."""
    one = heard(ago_s=0)
    gpu(one)
    Annotation.objects.create(scope="node", target="n1", key="expected_gpus", value=2, at=NOON - SECOND)
    looks(0, 10)

    assert "the site says that it has 2" in render(Finding.objects.get()).summary


@pytest.mark.parametrize(("others", "opens"), [(5, True), (3, False)])
def test_a_node_with_fewer_gpus_than_its_peers_may_lack_some(others: int, opens: bool) -> None:
    """Of enough nodes with the model that all list as many; a warning, for nobody said what it should have."""
    small = heard("small", ago_s=0)
    gpu(small)
    for number in range(others):
        peer = heard(f"p{number}", ago_s=0)
        gpu(peer, 0)
        gpu(peer, 1)
    looks(0, 10)

    assert [(row.target, row.severity) for row in Finding.objects.all()] == ([(str(small.pk), "warn")] if opens else [])


def test_of_a_silent_node_nothing_else_is_said() -> None:
    """Unknown: its cards neither missing nor back."""
    one = heard(ago_s=0)
    gpu(one, 0)
    card = gpu(one, 1, present=False)
    looks(0, 10, 50)
    Gpu.objects.filter(pk=card.pk).update(present=True)
    looks(65)

    assert rows() == [("gpu-missing", str(one.pk), "firing"), ("node-silent", str(one.pk), "firing")]


def test_samples_that_come_late_are_told_until_they_are_in_time() -> None:
    """The agent is heard; what it sends is old."""
    one = heard(ago_s=0, last_seen_at=NOON - 300 * SECOND)
    looks(0)
    assert rows() == []
    hears_late = Node.objects.filter(pk=one.pk)
    hears_late.update(last_received_at=NOON + 9 * SECOND)
    looks(10)
    assert rows() == [("source-lagging", str(one.pk), "firing")]

    hears(one, NOON + 20 * SECOND)
    looks(21)
    assert rows() == [("source-lagging", str(one.pk), "resolved")]


def test_a_wrong_clock_is_told_until_it_is_right_and_not_while_it_is_unknown() -> None:
    """Two limits, and null is neither."""
    one = heard(ago_s=0, clock_skew_s=-42.5)
    looks(0, 10)
    assert "-42.5 s" in render(Finding.objects.get()).summary

    for skew, condition in ((None, "firing"), (4.0, "firing"), (0.1, "resolved")):
        Node.objects.filter(pk=one.pk).update(clock_skew_s=skew)
        looks(15)
        assert Finding.objects.get().condition == condition


def absent(
    one: Node, reason: str, metrics: int, card: Gpu | None = None, metric: str = "m", since: datetime | None = None
) -> None:
    """So many of its readings are absent, since two minutes."""
    for number in range(metrics):
        name = f"{metric}{number}" if card else metric
        Absence.objects.create(node=one, gpu=card, metric=name, reason=reason, since=since or NOON - timedelta(minutes=2))


@pytest.mark.parametrize(
    ("reason", "source", "says"), [("timeout", "driver", "The driver does not answer"), ("frozen", "dcgm", "dcgm-exporter tells")]
)
def test_a_source_that_stands_still_is_told_until_it_answers(reason: str, source: str, says: str) -> None:
    """Several readings of a GPU for a minute; one is no source."""
    one = heard(ago_s=0)
    card = gpu(one)
    absent(one, reason, 2, card)
    absent(one, "unsupported", 20, card)
    looks(0)
    assert rows() == []

    absent(one, reason, 1, card, metric="n")
    looks(5)
    assert rows() == [("source-frozen", f"{one.pk}/{source}", "firing")]
    assert says in render(Finding.objects.get()).summary
    Absence.objects.update(until=NOON)
    looks(10)
    assert rows() == [("source-frozen", f"{one.pk}/{source}", "resolved")]


@pytest.mark.parametrize(("after_connect_s", "opens"), [(5, False), (600, True)])
def test_a_kernel_log_that_closes_is_told_and_one_that_was_never_read_is_not(after_connect_s: float, opens: bool) -> None:
    """Whoever may not read it was set up so."""
    one = heard(ago_s=0)
    assert one.connected_at is not None
    absent(one, "not_found", 1, metric="kernel_log", since=one.connected_at + after_connect_s * SECOND)
    looks(0)

    assert [rule for rule, _, _ in rows()] == (["source-frozen"] if opens else [])


def test_an_engine_that_does_not_answer_is_told_after_a_while() -> None:
    """It starts, or it restarts: for two minutes that is nothing."""
    one = heard(ago_s=0)
    engine = Engine.objects.create(
        node=one, name="http://h:8000", kind="vllm", why_silent="timeout", first_seen_at=NOON, last_seen_at=NOON
    )
    for after in (0, 50, 100):
        hears(one, NOON + after * SECOND)
        looks(after)
    assert rows() == []
    Engine.objects.update(last_seen_at=NOON + 125 * SECOND)
    hears(one, NOON + 125 * SECOND)
    looks(130)
    assert rows() == [("source-frozen", f"{one.pk}/engine http://h:8000", "firing")]

    Engine.objects.filter(pk=engine.pk).update(why_silent="")
    looks(135)
    assert rows()[0][2] == "resolved"


def test_readings_that_do_not_move_while_others_do_are_told(readings: MemorySeries) -> None:
    """For ten minutes the energy counter of one card stands; the other card's runs."""
    one = heard(ago_s=0)
    stuck, live = gpu(one, 0), gpu(one, 1)
    for after in range(0, 721, 60):
        at = NOON + after * SECOND
        hears(one, at)
        ts = int(at.timestamp())
        readings.write("gpu", pl.DataFrame({"entity": [stuck.pk, live.pk], "ts": [ts, ts], "energy_j_total": [5.0, 5.0 + after]}))
        for step in range(0, 60, 30):
            looks(after + step)

    assert rows() == [("source-frozen", f"{one.pk}/cards", "firing")]
    assert "1 GPU(s)" in render(Finding.objects.get()).summary


def test_where_nothing_moves_nobody_knows_who_stands_still(readings: MemorySeries) -> None:
    """One card alone, or a store that stands: nothing to compare with."""
    one = heard(ago_s=0)
    card = gpu(one)
    for after in range(0, 721, 60):
        at = NOON + after * SECOND
        hears(one, at)
        readings.write("gpu", pl.DataFrame({"entity": [card.pk], "ts": [int(at.timestamp())], "energy_j_total": [5.0]}))
        looks(after)

    assert rows() == []


def test_a_rule_that_is_off_opens_nothing() -> None:
    """The site decides."""
    set_state("node-silent", "off", person("olga"))
    heard(ago_s=300)
    looks(0)

    assert rows() == []


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_of_the_watch_is_in_the_catalogue(rule: str) -> None:
    """With a title and what to do."""
    assert BY_RULE[rule].change
