"""/api/v1/findings/ and the moves of their advice"""

from datetime import timedelta

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries, Settings
from rest_framework.test import APIClient

from fleet.findings.lifecycle import JOB_ENDED, Place, end, report
from fleet.findings.models import Finding, Transition
from tests.fleet.api.conftest import caller
from tests.fleet.rows import found, gpu, node, person, token

pytestmark = pytest.mark.django_db


def make(target: str = "1", name: str = "n1", **more: object) -> Finding:
    """A finding that fires, on a GPU of a node."""
    home = node(name)
    card = gpu(home)
    return report(timezone.now(), found(target=target, **more), Place(home.pk, (card.pk,)))  # type: ignore[arg-type]


def test_it_says_what_to_do_about_what(bob: APIClient) -> None:
    """Texts are rendered, numbers keep their units' names, the place is named."""
    row = make()
    got = bob.get(f"/api/v1/findings/{row.pk}/").json()

    assert got["node_name"] == "n1"
    assert got["gpus"] == [row.gpus.get().pk]
    assert got["gpus_left_out"] == 0
    assert got["state"] == "ok"
    assert got["says"]["title"] == "The power limit takes the speed"
    assert got["says"]["evidence"][0] == {
        "name": "sm_active", "value": 0.913, "unit": "ratio", "threshold": 0.5, "comparison": ">=",
    }  # fmt: skip
    assert got["says"]["change"] == [{"kind": "command", "text": "nvidia-smi -i GPU-1 -pl 700", "placeholders": []}]
    assert got["says"]["expected_gain"] == {"low": 1.05, "high": 1.2, "basis": "Measured on one card."}
    assert (got["condition"], got["advice"], got["severity"]) == ("firing", "proposed", "warn")


def test_targets_have_names_beside_their_ids(bob: APIClient) -> None:
    """In lists and alone: of a node, a GPU, a job."""
    home = node("n7")
    card = gpu(home, 2)
    for scope, target in (("node", str(home.pk)), ("gpu", str(card.pk)), ("job", "west/4711")):
        report(timezone.now(), found(target=target, scope=scope), Place(home.pk, (card.pk,)))
    told = bob.get("/api/v1/findings/").json()["results"]

    assert {one["scope"]: one["target_name"] for one in told} == {"node": "n7", "gpu": "n7 GPU 2", "job": "west/4711"}
    assert {bob.get(f"/api/v1/findings/{one['id']}/").json()["target_name"] for one in told} == {"n7", "n7 GPU 2", "west/4711"}


def test_the_strongest_come_first(bob: APIClient) -> None:
    """Critical ones, then by the GPU-hours that they would win back, then by severity."""
    rows = [
        make("1", "n1", severity="advice", recoverable=0.2, gpus=64),
        make("2", "n2", severity="critical", recoverable=0.0, gpus=1),
        make("3", "n3", severity="warn", recoverable=0.1, gpus=1),
        make("4", "n4", severity="warn", recoverable=0.6, gpus=1),
    ]

    got = [row["id"] for row in bob.get("/api/v1/findings/").json()["results"]]
    assert got == [rows[1].pk, rows[0].pk, rows[3].pk, rows[2].pk]


def test_it_says_what_a_finding_costs(bob: APIClient, settings: Settings) -> None:
    """GPU-hours always, money at the site's price, null without one."""
    row = make("1", "n1", recoverable=0.5, gpus=8)
    settings.FETTLE_GPU_HOUR_PRICE, settings.FETTLE_CURRENCY = 2.5, "EUR"

    got = bob.get(f"/api/v1/findings/{row.pk}/").json()
    assert (got["gpus_total"], got["gpu_hours_a_day"], got["cost_a_day"], got["currency"]) == (8, 96.0, 240.0, "EUR")

    settings.FETTLE_GPU_HOUR_PRICE = None
    got = bob.get(f"/api/v1/findings/{row.pk}/").json()
    assert (got["gpu_hours_a_day"], got["cost_a_day"], got["currency"]) == (96.0, None, None)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("open=true", 1), ("open=false", 1), ("condition=firing", 1), ("condition=firing&condition=resolved", 2),
        ("severity=critical", 1), ("min_severity=warn", 2), ("min_severity=critical", 1), ("rule=other-rule", 1),
        ("scope=gpu", 2), ("scope=job", 0), ("node=n2", 1), ("node=none", 0), ("advice=proposed", 2), ("advice=applied", 0),
        ("bottleneck=clocks", 2), ("target=2", 1), ("opened_after=2020-01-01T00:00:00Z", 2), ("opened_before=2020-01-01T00:00:00Z", 0),
    ],
)  # fmt: skip
def test_it_can_be_narrowed(bob: APIClient, query: str, count: int) -> None:
    """Each filter by itself."""
    make("1", "n1")
    other = make("2", "n2", severity="critical", rule="other-rule")
    end(other.fingerprint, timezone.now() + timedelta(seconds=1), "over")

    assert bob.get(f"/api/v1/findings/?{query}").json()["count"] == count


@pytest.mark.parametrize("query", ["severity=bad", "condition=broken", "gpu=x", "opened_after=never", "open=maybe&scope=x"])
def test_a_filter_that_makes_no_sense_is_bad_input(bob: APIClient, query: str) -> None:
    """400, never an unfiltered list."""
    assert bob.get(f"/api/v1/findings/?{query}").status_code == 400


def test_the_gpu_filter_finds_its_findings(bob: APIClient) -> None:
    """By the GPU's id."""
    row = make("1", "n1")
    make("2", "n2")
    card = row.gpus.get()

    assert [one["id"] for one in bob.get(f"/api/v1/findings/?gpu={card.pk}").json()["results"]] == [row.pk]


def test_the_number_of_queries_does_not_grow(bob: APIClient, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """Token, count, page, its GPUs, its acknowledgements."""
    bob.get("/api/v1/findings/")
    for number in range(15):
        make(str(number), f"n{number}")

    with django_assert_num_queries(7):
        assert len(bob.get("/api/v1/findings/").json()["results"]) == 15


def test_advice_can_be_moved(alice: APIClient) -> None:
    """The move is a row that names who made it, and the history shows it."""
    row = make()
    path = f"/api/v1/findings/{row.pk}/transitions/"
    answer = alice.post(path, {"after": "accepted", "note": "tonight"}, format="json")

    assert answer.status_code == 201
    assert {**answer.json(), "id": 0, "at": ""} == {
        "id": 0, "axis": "advice", "before": "proposed", "after": "accepted", "at": "", "by": "alice", "note": "tonight",
    }  # fmt: skip
    history = alice.get(path).json()
    assert [one["after"] for one in history] == ["pending", "firing", "accepted"]
    row.refresh_from_db()
    assert row.advice == "accepted"


def test_a_move_that_is_not_legal_is_a_conflict(alice: APIClient) -> None:
    """409 with where it can go; nothing is written."""
    row = make()
    path = f"/api/v1/findings/{row.pk}/transitions/"
    alice.post(path, {"after": "applied"}, format="json")
    answer = alice.post(path, {"after": "dismissed"}, format="json")

    assert answer.status_code == 409
    assert answer.json()["detail"] == "The advice is applied."


def test_the_advice_of_a_finding_that_has_ended_is_not_moved(alice: APIClient) -> None:
    """409, as the page refuses it too."""
    row = make()
    Finding.objects.update(condition="resolved", resolved_at=timezone.now())
    answer = alice.post(f"/api/v1/findings/{row.pk}/transitions/", {"after": "accepted"}, format="json")

    assert answer.status_code == 409
    assert answer.json()["detail"] == "The finding has ended; its advice stays proposed."


def test_what_the_server_says_comes_in_the_language_that_is_asked_for(alice: APIClient) -> None:
    """The reason of a refusal, and the note of a change that the server made; a person's note stays as written."""
    row = make()
    path = f"/api/v1/findings/{row.pk}/transitions/"
    asked = {"Accept-Language": "zh-hans"}
    alice.post(path, {"after": "accepted", "note": "the job ended"}, format="json")
    Transition.objects.create(finding=row, axis="condition", before="firing", after="resolved", note=JOB_ENDED)
    refused = alice.post(path, {"after": "proposed"}, format="json", headers=asked)

    assert refused.json()["detail"] == "建议当前状态为 accepted；可改为：applied, dismissed。"
    notes = {(one["axis"], one["note"]) for one in alice.get(path, headers=asked).json() if one["note"]}
    assert notes == {("advice", "the job ended"), ("condition", "作业已结束")}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"after": "helped"},
        {"after": "fixed"},
        {"after": "accepted", "note": "x" * 501},
        {"after": "accepted", "note": "a\x1b[2J"},
        [],
    ],
)
def test_a_move_that_makes_no_sense_is_bad_input(alice: APIClient, body: object) -> None:
    """Verdicts are measured and cannot be posted."""
    row = make()

    assert alice.post(f"/api/v1/findings/{row.pk}/transitions/", body, format="json").status_code == 400
    assert not row.transitions.filter(axis="advice").exists()


def test_moving_needs_the_right_and_a_token_that_may_write(bob: APIClient) -> None:
    """Bob lacks the right; Alice's reading token lacks the word."""
    row = make()
    path = f"/api/v1/findings/{row.pk}/transitions/"
    reading = caller(token(person("alice", changes=True)))

    assert bob.post(path, {"after": "accepted"}, format="json").status_code == 403
    assert reading.post(path, {"after": "accepted"}, format="json").status_code == 403
    assert reading.get(path).status_code == 200
    row.refresh_from_db()
    assert row.advice == "proposed"


def test_a_session_needs_the_csrf_token_to_move() -> None:
    """A foreign page cannot move advice with somebody's cookie."""
    from rest_framework.test import APIClient as Browser

    row = make()
    browser = Browser(enforce_csrf_checks=True)
    browser.force_login(person("alice", changes=True))

    assert browser.post(f"/api/v1/findings/{row.pk}/transitions/", {"after": "accepted"}, format="json").status_code == 403


def test_findings_themselves_cannot_be_written(alice: APIClient) -> None:
    """Telemetry writes them."""
    row = make()

    assert alice.delete(f"/api/v1/findings/{row.pk}/").status_code == 405
    assert alice.post("/api/v1/findings/", {}, format="json").status_code == 405


NAMES = ["open", "rule", "severity", "min_severity", "condition", "advice", "scope", "target", "bottleneck", "node", "gpu", "opened_after", "opened_before", "page", "page_size"]  # fmt: skip


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.dictionaries(st.sampled_from(NAMES), st.text(max_size=20) | st.integers().map(str) | st.datetimes().map(str)))
def test_no_query_breaks_it(bob: APIClient, query: dict[str, str]) -> None:
    """Whatever is asked, the answer is a list, a sentence, or not found."""
    assert bob.get("/api/v1/findings/", query).status_code in (200, 400, 404)


def test_it_says_what_explains_what_and_who_saw_it(bob: APIClient) -> None:
    """The cause by its id with what the two share, how many follow from it, and each witness with first, last and how often."""
    home = node("n1")
    card = gpu(home)
    at = timezone.now()
    cause = report(at, found(str(card.pk), "xid-fallen-off-bus", "critical"), Place(home.pk, (card.pk,)), count=3)
    effect = report(at, found(str(card.pk), "correctable-ecc-rate"), Place(home.pk, (card.pk,)))
    alone = make("7", "n2")
    got = {row["id"]: row for row in bob.get("/api/v1/findings/").json()["results"]}

    said = {key: (row["cause"], row["cause_place"], row["consequences_total"]) for key, row in got.items()}
    assert said == {cause.pk: (None, "", 1), effect.pk: (cause.pk, "gpu", 0), alone.pk: (None, "", 0)}
    (witness,) = got[cause.pk]["witnesses"]
    assert (witness["kind"], witness["count"]) == ("kernel_log", 3)
    assert got[effect.pk] == bob.get(f"/api/v1/findings/{effect.pk}/").json()
