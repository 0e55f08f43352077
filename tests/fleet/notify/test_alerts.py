"""What an alert becomes on its way: grouped, held, kept quiet, told again, escalated."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from fleet.annotations.models import Annotation
from fleet.findings.lifecycle import Judged, Place, reconcile, released, report
from fleet.findings.models import Finding
from fleet.jobs.models import Allocation, Job
from fleet.notify import acknowledging, dry_run, recurring, routing, sayings
from fleet.notify.alert_labels import labels_of
from fleet.notify.models import Delivery, Group, Inhibition, Route, Silence
from tests.fleet.notify.telling import tell
from tests.fleet.rows import found, gpu, node

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def route(name: str = "a", **more: Any) -> Route:
    """A route that takes everything."""
    return Route.objects.create(**{"name": name, "url": "json://127.0.0.1:9/", "min_severity": "info", **more})


def fire(target: str = "1", *, place: Place | None = None, **more: Any) -> Finding:
    """An alert that fires now, by an event."""
    return report(timezone.now(), found(target, **{"severity": "warn", **more}), place or Place(None))


def matcher(label: str, *values: str, op: str = "in") -> dict[str, Any]:
    """A matcher."""
    return {"label": label, "op": op, "values": list(values)}


def resolve(finding: Finding) -> None:
    """It ends."""
    from fleet.findings.lifecycle import end

    assert end(finding.fingerprint, timezone.now(), "over")


def sent() -> None:
    """What left was sent."""
    Delivery.objects.filter(state="pending").update(state="sent", sent_at=timezone.now())


def later(**by: float) -> Any:
    """A time from now on."""
    return timezone.now() + timedelta(**by)


def why(delivery: Delivery) -> str:
    """Why it was told to nobody."""
    said = sayings.read(delivery.why_muted)
    return "" if said is None else said.name


def test_labels_are_those_of_place_job_and_notes() -> None:
    """The owner is who holds the card at the time; what nobody told is absent."""
    home = node("n1")
    card = gpu(home, 0)
    now = timezone.now()
    job = Job.objects.create(
        cluster="alpha", job_id="7", started_at=now - HOUR, source="slurm", user="ann", partition="prod", family="f"
    )
    Allocation.objects.create(job=job, node=home, node_name="n1", gpu=card, device="0", from_at=now - HOUR)
    Annotation.objects.create(scope="node", target="n1", key="rack", value="r07", at=now - HOUR)
    Annotation.objects.create(scope="job", target="alpha/7", key="team", value="vision", at=now - HOUR)
    of_card = fire(str(card.pk), place=Place(home.pk, (card.pk,)))
    of_job = fire("alpha/7", scope="job", rule="step-time-regression")
    bare = fire("fleet", scope="fleet", rule="power-limit-sweet-spot")

    labels = labels_of([of_card, of_job, bare], later())

    assert labels[of_card.pk] == {
        "severity": ("warn",), "rule": ("power-cap-limited",), "group": ("clocks",), "scope": ("gpu",), "cluster": ("alpha",),
        "partition": ("prod",), "node": ("n1",), "gpu_model": ("NVIDIA H200",), "rack": ("r07",), "owner": ("ann",),
        "team": ("vision",), "job": ("alpha/7",),
    }  # fmt: skip
    assert labels[of_job.pk]["owner"] == ("ann",)
    assert set(labels[bare.pk]) == {"severity", "rule", "group", "scope"}


def test_labels_of_many_take_as_many_queries_as_of_one(django_assert_max_num_queries: Any) -> None:
    """A storm does not make a query an alert."""
    home = node("n1")
    cards = [gpu(home, index) for index in range(40)]
    rows = [fire(str(card.pk), place=Place(home.pk, (card.pk,))) for card in cards]

    with django_assert_max_num_queries(12):
        assert len(labels_of(rows, timezone.now())) == 40


def test_alerts_of_a_group_leave_together_after_the_wait() -> None:
    """The first waits for the others; one of another group leaves by itself."""
    route(group_wait_s=10, group_by=["node"])
    one, two = node("n1"), node("n2")
    fire("1", place=Place(one.pk))
    routing.route()
    fire("2", rule="clocks-locked-low", place=Place(one.pk))
    fire("3", place=Place(two.pk))
    routing.route()

    assert routing.release(later(seconds=5)) == []
    leads = routing.release(later(seconds=11))
    assert len(leads) == 2
    assert sorted(Delivery.objects.filter(lead=None).values_list("group__labels", flat=True), key=str) == [
        {"node": "n1"},
        {"node": "n2"},
    ]
    assert Delivery.objects.exclude(lead=None).get().lead_id in leads


def test_the_next_message_of_a_group_keeps_the_interval() -> None:
    """What comes meanwhile waits for it."""
    route(group_wait_s=10, group_interval_s=300)
    fire("1")
    routing.route()
    assert len(routing.release(later(seconds=11))) == 1
    fire("2")
    routing.route()

    assert routing.release(later(seconds=280)) == []
    assert len(routing.release(later(seconds=320))) == 1


def test_a_critical_alert_waits_for_nothing() -> None:
    """Neither for its group nor for the interval; it takes along what waited."""
    route(group_wait_s=600, group_interval_s=600, group_by=["scope"])
    fire("1")
    routing.route()
    fire("2", severity="critical")
    routing.route()
    (lead,) = routing.release()
    fire("3", severity="critical")
    routing.route()

    assert Delivery.objects.get(pk=lead).transition.finding.target == "2"
    assert Delivery.objects.get(lead=lead).transition.finding.target == "1"
    assert len(routing.release()) == 1


def test_above_its_rate_a_route_sends_digests() -> None:
    """Of 60 rules that fire at once, twelve lines and not sixty messages; nothing is left out."""
    route(max_per_minute=12)
    for number in range(60):
        fire(rule=f"rule-{number}", severity="critical")
    routing.route()
    (digest,) = routing.release()

    assert Delivery.objects.get(pk=digest).is_digest
    assert Delivery.objects.filter(lead=digest).count() == 59
    fire(rule="one-more", severity="critical")
    routing.route()
    assert len(routing.release()) == 1, "there is room again: one message left within the minute"


def test_a_route_without_room_waits_for_its_next_digest() -> None:
    """Half a minute later all that came leaves at once."""
    route(max_per_minute=1)
    fire(rule="first", severity="critical")
    assert len(tell()) == 1
    fire(rule="second", severity="critical")
    (digest,) = tell()
    assert Delivery.objects.get(pk=digest).is_digest
    fire(rule="third", severity="critical")
    fire(rule="fourth", severity="critical")

    assert tell() == []
    assert len(routing.release(later(seconds=31))) == 1


def test_a_silence_keeps_quiet_what_it_fits_and_says_so() -> None:
    """The row stays, with the reason; once the silence has ended, what still fires is told."""
    route()
    Silence.objects.create(matchers=[matcher("rule", "power-*")], ends_at=later(hours=1), comment="known", by_name="ann")
    fire("1")
    fire("2", rule="clocks-locked-low")
    assert len(tell()) == 1
    quiet = Delivery.objects.get(state="muted")
    assert str(sayings.read(quiet.why_muted)) == "It is silenced: known"

    recurring.recur()
    assert Delivery.objects.get(pk=quiet.pk).state == "muted"
    Silence.objects.update(ends_at=timezone.now())
    assert recurring.recur() == 1
    assert tell() == [quiet.pk]


def test_a_silence_that_comes_while_an_alert_waits_holds_too() -> None:
    """It is asked again when the group leaves."""
    route(group_wait_s=60)
    fire("1")
    routing.route()
    Silence.objects.create(matchers=[matcher("severity", "warn")], ends_at=later(hours=1), comment="known", by_name="ann")

    assert tell() == []
    assert Delivery.objects.get().state == "muted"


def test_the_end_of_what_was_told_is_told_through_a_silence() -> None:
    """A pager waits for it; the end of what nobody was told of is not."""
    route()
    told = fire("1")
    tell()
    sent()
    Silence.objects.create(matchers=[matcher("severity", "warn")], ends_at=later(hours=1), comment="known", by_name="ann")
    untold = fire("2")
    tell()
    resolve(told)
    resolve(untold)
    tell()

    ends = Delivery.objects.filter(transition__after="resolved")
    assert {one.transition.finding.target: (one.state, why(one)) for one in ends} == {
        "1": ("pending", ""), "2": ("muted", "beginning_untold"),
    }  # fmt: skip


def test_what_is_over_before_it_was_told_is_not_told() -> None:
    """Neither its beginning, which still waited, nor its end."""
    route(group_wait_s=60)
    finding = fire("1")
    routing.route()
    resolve(finding)

    assert tell() == []
    assert sorted(map(why, Delivery.objects.all())) == ["beginning_untold", "over"]


def test_a_node_in_maintenance_is_quiet() -> None:
    """As its annotation says; other nodes are not."""
    route()
    Annotation.objects.create(scope="node", target="n1", key="maintenance", value=True, at=timezone.now())
    fire("1", place=Place(node("n1").pk))
    fire("2", place=Place(node("n2").pk))

    assert len(tell()) == 1
    assert why(Delivery.objects.get(state="muted")) == "maintenance"


def test_an_inhibition_keeps_quiet_what_has_the_labels_in_common() -> None:
    """Of the same node only, while the source fires, and never the source itself."""
    route()
    Inhibition.objects.create(
        name="node down",
        source=[matcher("rule", "site-node-down")],
        target=[matcher("severity", "warn", "critical")],
        equal=["node"],
    )
    one, two = node("n1"), node("n2")
    source = fire("n1", rule="site-node-down", severity="critical", scope="node", place=Place(one.pk))
    fire("1", place=Place(one.pk))
    fire("2", place=Place(two.pk))
    tell()

    # The source fits the target too: an alert that both fit inhibits nothing, or two of them would silence each other.
    assert not Delivery.objects.filter(state="muted").exists()
    Inhibition.objects.update(target=[matcher("severity", "warn")])
    fire("3", rule="clocks-locked-low", place=Place(one.pk))
    tell()
    quiet = Delivery.objects.get(state="muted")
    assert (quiet.transition.finding.target, why(quiet)) == ("3", "inhibition")
    resolve(source)
    assert recurring.recur() == 1


def test_a_consequence_is_told_with_its_cause_and_by_itself_once_that_is_over() -> None:
    """While the cause fires the row says so."""
    route()
    cause = fire("1", severity="critical")
    consequence = fire("2")
    Finding.objects.filter(pk=consequence.pk).update(cause=cause)
    tell()
    quiet = Delivery.objects.get(transition__finding=consequence)
    assert (quiet.state, why(quiet)) == ("muted", "consequence")

    resolve(cause)
    assert recurring.recur() == 0  # as a rule it ends with its cause
    released(later(minutes=2))
    assert recurring.recur() == 1
    assert quiet.pk in tell()


def test_a_milder_cause_keeps_nothing_quiet() -> None:
    """A route for what is critical would tell of neither."""
    route()
    cause = fire("1", severity="advice")
    consequence = fire("2", severity="critical")
    Finding.objects.filter(pk=consequence.pk).update(cause=cause)
    tell()

    assert not Delivery.objects.filter(state="muted", transition__finding=consequence).exists()


def test_outside_its_hours_a_route_holds_what_comes() -> None:
    """It leaves when they begin, critical or not; what is over by then does not."""
    now = timezone.now()
    other = (now + timedelta(days=2)).weekday()
    route(active_times=[{"days": [other], "from": "00:00", "to": "24:00", "timezone": "UTC"}])
    fire("1", severity="critical")
    short = fire("2")
    routing.route()
    resolve(short)
    routing.route()

    assert routing.release(later(hours=20)) == []
    (lead,) = routing.release(later(days=2))
    assert Delivery.objects.get(pk=lead).transition.finding.target == "1"
    assert not Delivery.objects.filter(lead=lead).exists()


def test_routes_choose_by_matchers_and_position() -> None:
    """A route that is last keeps what it takes from those after it."""
    route("clocks", position=1, matchers=[matcher("group", "clocks")], last=True)
    route("rest", position=2)
    route("pager", position=0, min_severity="critical")
    fire("1")
    fire("2", rule="gpu-memory-leak")
    tell()

    told = sorted(Delivery.objects.values_list("route__name", "transition__finding__target"))
    assert told == [("clocks", "1"), ("rest", "2")]


def test_an_alert_repeats_until_somebody_acknowledges_it() -> None:
    """Each repeat is a row of its own; an acknowledged one stays quiet until it grows worse."""
    route(repeat_every_s=3600)
    finding = fire("1")
    tell()
    sent()
    assert recurring.recur(later(minutes=59)) == 0
    assert recurring.recur(later(minutes=61)) == 1
    assert recurring.recur(later(minutes=61)) == 0, "it waits already"
    (lead,) = routing.release(later(minutes=61))
    assert (Delivery.objects.get(pk=lead).kind, Delivery.objects.get(pk=lead).round) == ("repeat", 0)
    sent()

    acknowledging.acknowledge(finding, via="page", by_name="ann")
    assert recurring.recur(later(hours=3)) == 0
    judged = Judged(rules=frozenset(["power-cap-limited"]), targets=frozenset([("gpu", "1")]))
    Finding.objects.filter(pk=finding.pk).update(origin="rule")
    reconcile(later(hours=3), [found("1", severity="critical")], judged, {})
    tell()
    sent()
    assert recurring.recur(later(hours=5)) == 1


def test_an_alert_that_nobody_acknowledges_goes_to_another_route_once() -> None:
    """Not what was acknowledged, and not again by every look."""
    boss = route("boss", min_severity="critical")
    route("team", escalate_after_s=600, escalate_to=boss)
    fire("1")
    fire("2", rule="clocks-locked-low")
    tell()
    sent()
    acknowledging.acknowledge(Finding.objects.get(target="2"), via="link", by_name="team")

    assert recurring.recur(later(minutes=9)) == 0
    assert recurring.recur(later(minutes=11)) == 1
    (lead,) = routing.release(later(minutes=11))
    row = Delivery.objects.get(pk=lead)
    assert (row.route, row.kind, row.transition.finding.target) == (boss, "escalation", "1")
    assert recurring.recur(later(minutes=30)) == 0


def test_acknowledging_twice_is_once_and_of_what_has_ended_refused() -> None:
    """Whoever was first stays named."""
    finding = fire("1")
    first = acknowledging.acknowledge(finding, via="page", by_name="ann")
    assert acknowledging.acknowledge(finding, via="api", by_name="bob") == first
    assert first.by_name == "ann"
    assert acknowledging.take_back(finding) == 1
    resolve(finding)
    finding.refresh_from_db()
    with pytest.raises(acknowledging.AcknowledgeError, match="does not fire"):
        acknowledging.acknowledge(finding, via="page", by_name="ann")


def test_the_dry_run_says_where_an_alert_would_go_and_why_not_elsewhere() -> None:
    """As the router decides it, without a row."""
    route("off", enabled=False, position=0)
    route("critical", min_severity="critical", position=1)
    route("team", matchers=[matcher("team", "vision")], position=2)
    route("all", position=3, last=True, group_wait_s=30)
    route("rest", position=4)
    finding = fire("1", place=Place(node("n1").pk))
    now = timezone.now()

    labels, ways = dry_run.of_finding(finding, now)

    assert labels["node"] == ("n1",)
    assert [(way.decision.route.name, way.decision.what, str(way.decision.why or "")) for way in ways] == [
        ("off", "not_taken", "The route is switched off."),
        ("critical", "not_taken", "The route takes critical and above; this is warn."),
        ("team", "not_taken", "The route's matcher on team does not fit: the alert has –."),
        ("all", "told", ""),
        ("rest", "not_taken", "The route all before it is the last one for what it takes."),
    ]
    assert ways[3].leaves_at == now + timedelta(seconds=30)
    assert not Delivery.objects.exists()
    assert not Group.objects.exists()


def test_a_reason_is_kept_whatever_its_length() -> None:
    """In the row there is room for 300 characters, in any script and with any signs."""
    for comment in ("x" * 300, '"\\' * 150, "静" * 300):
        kept = sayings.said("silence", comment=comment).kept()
        assert len(kept) <= 300
        assert sayings.read(kept) is not None


def test_a_route_that_is_switched_off_tells_nothing_that_waits() -> None:
    """The row says why."""
    row = route(group_wait_s=60)
    fire("1")
    routing.route()
    row.enabled = False
    row.save()

    assert tell() == []
    assert why(Delivery.objects.get()) == "route_off"


def test_a_route_that_does_not_take_the_cause_tells_of_the_consequence() -> None:
    """Ops hear of the node alone; the team that owns the job, whose route takes no nodes, hears of its job."""
    route("ops")
    route("team", matchers=[matcher("scope", "job")])
    cause = fire("n1", severity="critical", scope="node", rule="nvlink-fault")
    consequence = fire("west/7", scope="job", rule="step-time-regression")
    Finding.objects.filter(pk=consequence.pk).update(cause=cause)
    tell()

    told = Delivery.objects.filter(transition__finding=consequence).order_by("route__name")
    assert [(one.route.name, one.state, why(one)) for one in told] == [("ops", "muted", "consequence"), ("team", "pending", "")]
    _, ways = dry_run.of_finding(Finding.objects.select_related("cause").get(pk=consequence.pk), timezone.now())
    assert [way.decision.what for way in ways] == ["muted", "told"]
