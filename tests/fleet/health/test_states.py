"""How well GPUs and nodes are, from findings, events, silence and notes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from advisor.finding import Severity
from advisor.rule import load
from fleet.annotations.models import Annotation
from fleet.findings.lifecycle import Place, report
from fleet.findings.models import Finding
from fleet.health.signs import that_count
from fleet.health.states import NodeHealth, of_nodes, unheard
from fleet.inventory.models import Event, Gpu, Node
from fleet.tuning.models import OwnRule
from tests.fleet.rows import found, gpu, node

pytestmark = pytest.mark.django_db
AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


def fresh(name: str = "n1", **more: Any) -> Node:
    """A node that reported five seconds ago."""
    return node(name, **{"last_seen_at": AT - timedelta(seconds=5), **more})


def opened(
    card: Gpu | Node, rule: str, severity: Severity, *, since: datetime = AT - timedelta(hours=1), shadow: bool = False
) -> Finding:
    """An open finding of a GPU or of a node."""
    if isinstance(card, Node):
        return report(since, found(str(card.pk), rule, severity, "node"), Place(card.pk, ()), shadow=shadow)
    return report(since, found(str(card.pk), rule, severity), Place(card.node_id, (card.pk,)), shadow=shadow)


def health(of: Node, at: datetime = AT) -> NodeHealth:
    """Its health now."""
    (one,) = of_nodes([Node.objects.get(pk=of.pk)], at)
    return one


def test_a_node_that_reports_and_has_no_findings_is_usable() -> None:
    """With the age of what it said last."""
    n1 = fresh()
    gpu(n1, 0)
    one = health(n1)

    assert (one.health.state, one.health.reasons, one.health.since, one.health.age_s) == ("usable", (), None, 5.0)
    assert [(card.index, its.state) for card, its in one.gpus] == [(0, "usable")]


@pytest.mark.parametrize(
    ("rule", "severity", "state"),
    [
        ("row-remap-failed", "critical", "drain"),
        ("xid-fallen-off-bus", "critical", "drain"),
        ("hw-slowdown-active", "critical", "drain"),
        ("hw-slowdown-active", "warn", "avoid"),
        ("nvlink-fault", "warn", "avoid"),
        ("row-remap-pending", "warn", "avoid"),
        ("pcie-link-degraded", "warn", "avoid"),
        ("gpu-slow-outlier", "warn", "avoid"),
        ("clocks-locked-low", "warn", "avoid"),
        ("container-without-gpu", "critical", "avoid"),
        ("correctable-ecc-rate", "advice", "usable"),
        ("power-cap-limited", "advice", "usable"),
        ("app-fault-xid", "advice", "usable"),
        ("memory-nearly-full", "critical", "usable"),
        ("launch-bound-small-kernels", "warn", "usable"),
    ],
)  # fmt: skip
def test_a_finding_means_what_its_rule_asks_for(rule: str, severity: Severity, state: str) -> None:
    """Drain where a critical one says so, avoid where the card is worse than it should be, nothing where a program is."""
    n1 = fresh()
    card, other = gpu(n1, 0), gpu(n1, 1)
    row = opened(card, rule, severity)
    one = health(n1)

    assert [(its.pk, of.state) for its, of in one.gpus] == [(card.pk, state), (other.pk, "usable")]
    assert one.health.state == state
    if state != "usable":
        (reason,) = one.health.reasons
        assert (reason.rule, reason.finding, reason.since) == (rule, row.pk, AT - timedelta(hours=1))
        assert reason.text == "GPU 0: The power limit takes the speed"
        assert one.health.since == AT - timedelta(hours=1)


def test_every_rule_of_the_group_health_counts() -> None:
    """A new one must not be left out."""
    known = that_count()
    assert {rule.id for rule in load() if rule.group == "health"} <= set(known)
    critical = [
        rule.id for rule in load() if rule.group == "health" and isinstance(rule.severity, str) and rule.severity == "critical"
    ]
    assert {rule: known[rule].state("critical") for rule in critical} == dict.fromkeys(critical, "drain")
    assert "row-remap-failed" in critical


def test_what_is_stale_is_unknown_and_never_usable() -> None:
    """Half a minute of silence, or an agent that never spoke; how long ago it was is told."""
    late, never = fresh("late", last_seen_at=AT - timedelta(seconds=31)), fresh("never", last_seen_at=None)
    gpu(late, 0)
    gpu(never, 0)
    one, other = health(late), health(never)

    assert (one.health.state, one.health.age_s, one.health.since) == ("unknown", 31.0, AT - timedelta(seconds=31))
    assert (other.health.state, other.health.age_s) == ("unknown", None)
    assert [its.state for _card, its in (*one.gpus, *other.gpus)] == ["unknown", "unknown"]
    assert unheard("x").health.state == "unknown"


def test_silence_hides_no_finding_that_drains_and_covers_one_that_warns() -> None:
    """A node that fell silent after its GPU failed is not put back to unknown."""
    bad, poor = fresh("bad", last_seen_at=AT - timedelta(hours=1)), fresh("poor", last_seen_at=AT - timedelta(hours=1))
    opened(gpu(bad, 0), "row-remap-failed", "critical")
    opened(gpu(poor, 0), "clocks-locked-low", "warn")

    assert (health(bad).health.state, health(poor).health.state) == ("drain", "unknown")
    assert [reason.state for reason in health(bad).health.reasons] == ["drain", "unknown"]


def test_a_node_without_gpus_is_unknown_and_a_gpu_that_is_gone_says_nothing() -> None:
    """Cards are taken out; one that failed is told of by its finding."""
    empty, less = fresh("empty"), fresh("less")
    gpu(less, 0)
    gone = gpu(less, 1, present=False)

    assert health(empty).health.state == "unknown"
    assert (health(less).health.state, dict(health(less).gpus)[gone].state) == ("usable", "unknown")
    opened(gone, "xid-fallen-off-bus", "critical")
    assert health(less).health.state == "drain"


def test_what_is_over_in_shadow_or_pending_does_not_count() -> None:
    """Only what is told to people."""
    n1 = fresh()
    card = gpu(n1, 0)
    opened(card, "row-remap-failed", "critical", shadow=True)
    assert health(n1).health.state == "usable"
    Finding.objects.update(shadow=False, condition="pending")
    assert health(n1).health.state == "usable"
    Finding.objects.update(condition="noisy")
    assert health(n1).health.state == "drain"
    Finding.objects.update(resolved_at=AT)
    assert health(n1).health.state == "usable"


def test_findings_of_the_node_are_the_nodes() -> None:
    """Its GPUs are as well as they are."""
    n1 = fresh()
    gpu(n1, 0)
    opened(n1, "ib-port-errors-or-congestion", "warn")
    one = health(n1)

    assert (one.health.state, one.gpus[0][1].state) == ("avoid", "usable")


def test_a_mig_instance_shares_the_reasons_of_its_card() -> None:
    """The slice is on the silicon that fails; the node says it once."""
    n1 = fresh()
    card = gpu(n1, 0)
    slice_ = gpu(n1, 0, uuid="MIG-1", parent_uuid=card.uuid)
    opened(card, "uncorrectable-ecc", "critical")
    one = health(n1)

    assert dict(one.gpus)[slice_].state == "drain"
    assert len(one.health.reasons) == 1


def event(card: Gpu, **more: Any) -> Event:
    """An event a moment ago."""
    said = {
        "kind": "xid",
        "code": 79,
        "received_at": AT,
        "observed_at": AT - timedelta(seconds=1),
        "boot": "b",
        "seq": Event.objects.count(),
    }
    return Event.objects.create(node=card.node, gpu=card, **{**said, **more})


def test_an_event_counts_before_its_finding_opens() -> None:
    """Between the XID's arrival and its finding a scheduler must not place a job there."""
    n1 = fresh()
    row = event(gpu(n1, 0))
    (reason,) = health(n1).health.reasons
    assert (reason.state, reason.event, reason.rule, reason.since) == ("drain", "xid 79", "", AT - timedelta(seconds=1))

    Event.objects.filter(pk=row.pk).update(handled_at=AT)
    assert health(n1).health.state == "usable"


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"code": 13}, "usable"),
        ({"code": 9999}, "usable"),
        ({"code": 9999, "severity": "critical", "handled_at": AT}, "avoid"),
        ({"kind": "kmsg", "code": None, "severity": "critical", "text": "Machine check", "handled_at": AT}, "avoid"),
        ({"kind": "kmsg", "code": None, "severity": "critical", "received_at": AT - timedelta(hours=2)}, "usable"),
        ({"kind": "config", "code": None, "severity": "warn"}, "usable"),
    ],
)
def test_events_speak_by_what_they_are(more: dict[str, Any], state: str) -> None:
    """A program's fault does not; what its source calls critical and no rule knows does, for an hour."""
    n1 = fresh()
    event(gpu(n1, 0), **more)

    assert health(n1).health.state == state


def test_a_node_that_somebody_works_on_is_to_be_avoided() -> None:
    """As long as the note counts; a pattern may name it."""
    n1 = fresh()
    gpu(n1, 0)
    Annotation.objects.create(scope="node", target="n*", key="maintenance", value=True, at=AT, until=AT + timedelta(hours=1))

    assert health(n1).health.state == "avoid"
    assert health(n1, AT + timedelta(hours=1)).health.state == "unknown"


def test_a_rule_of_the_sites_own_counts_by_its_group() -> None:
    """One of the group health that is critical drains; one of another group says nothing."""
    for slug, group in (("site-smart", "health"), ("site-idle", "capacity")):
        OwnRule.objects.create(
            slug=slug, scope="gpu", severity="critical", group=group, opens="busy > 1.4", title="T", summary="S"
        )
    n1, n2 = fresh("n1"), fresh("n2")
    opened(gpu(n1, 0), "site-smart", "critical")
    opened(gpu(n2, 0), "site-idle", "critical")

    assert (health(n1).health.state, health(n2).health.state) == ("drain", "usable")
