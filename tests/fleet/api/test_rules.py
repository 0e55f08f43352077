"""`/api/v1/rules/`, `/own-rules/` and `/rule-changes/`: who may set what, what comes of it, and problems as problem documents."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone
from rest_framework.test import APIClient

from fleet.accounts.models import User
from fleet.findings.lifecycle import Judged, Place, reconcile
from fleet.findings.models import Finding
from fleet.findings.permitted import Permitted
from fleet.tuning import own_rules
from fleet.tuning.models import Override, OwnRule, RuleChange, RuleState, Trial
from tests.fleet.api.conftest import caller
from tests.fleet.api.test_commands import problem
from tests.fleet.rows import NOON, found, person, token

pytestmark = pytest.mark.django_db
FULL = "/api/v1/rules/memory-nearly-full/"
OWN: dict[str, str] = {
    "slug": "site-empty", "scope": "gpu", "severity": "advice", "group": "performance", "opens": "busy >= 0.5 AND sm_active < 0.2",
    "title": "Busy and empty", "summary": "Busy {busy:.0%} of the time.",
}  # fmt: skip


def member(role: str, name: str) -> User:
    """Somebody of that group."""
    user = person(name)
    user.groups.add(Group.objects.get(name=role))
    return user


@pytest.fixture
def olga() -> APIClient:
    """An operator's token that may write."""
    return caller(token(member("operator", "olga"), write=True))


@pytest.fixture
def vera() -> APIClient:
    """A viewer's token that may write; she may not."""
    return caller(token(member("viewer", "vera"), write=True))


def told(rule: str = "power-cap-limited", *, shadow: bool = False, target: str = "1") -> None:
    """A finding of the rule that fires, in shadow or not."""
    may = Permitted(frozenset([rule]), frozenset(), frozenset([rule] if shadow else []))
    for step in range(2):
        at = NOON + step * timedelta(seconds=10)
        reconcile(at, [found(target, rule)], Judged(may=may), {("gpu", target): Place(None)})
    assert Finding.objects.filter(rule=rule, shadow=shadow, condition="firing").exists()


def test_every_rule_is_listed_with_what_it_says_and_found(vera: APIClient) -> None:
    """With its conditions as they are in force, and what it found in shadow counted by itself."""
    told("memory-nearly-full")
    told("host-memory-pressure", shadow=True)
    rules = {rule["id"]: rule for rule in vera.get("/api/v1/rules/").json()}

    full = rules["memory-nearly-full"]
    assert (full["kind"], full["state"], full["findings_open"], full["opened_total"]) == ("shipped", "on", 1, 1)
    assert full["conditions"]["opens"] == "mem_used_share >= 0.91"
    assert [one["name"] for one in full["thresholds"]] == [
        "mem_used_share_opens",
        "mem_used_share_clears",
        "fires_after_warn_s",
    ]
    assert full["sources"]
    assert (rules["host-memory-pressure"]["shadow_open"], rules["host-memory-pressure"]["findings_open"]) == (1, 0)
    assert vera.get(FULL).json() == full


def test_lists_narrow_by_state_group_and_kind(olga: APIClient) -> None:
    """As the page does."""
    olga.patch(FULL, {"state": "off"}, format="json")

    assert [rule["id"] for rule in olga.get("/api/v1/rules/?state=off").json()] == ["memory-nearly-full"]
    assert {rule["group"] for rule in olga.get("/api/v1/rules/?group=health&kind=shipped").json()} == {"health"}
    refused = problem(olga.get("/api/v1/rules/?state=broken"))
    assert (refused["status"], list(refused["errors"])) == (400, ["state"])


def test_an_operator_sets_state_and_thresholds_and_the_trail_tells(olga: APIClient, vera: APIClient) -> None:
    """The answer is the rule as it now stands."""
    overrides = [
        {"threshold": "mem_used_share_opens", "value": 0.8},
        {"threshold": "mem_used_share_clears", "value": 0.7},
        {"threshold": "mem_used_share_opens", "matcher": "gpu_model", "pattern": "*H200*", "value": 0.96},
    ]
    answer = olga.patch(FULL, {"state": "shadow", "overrides": overrides, "comment": "Watching."}, format="json")

    said = answer.json()
    assert answer.status_code == 200
    assert (said["state"], said["conditions"]["opens"]) == ("shadow", "mem_used_share >= 0.8")
    assert [(one["threshold"], one["pattern"], one["value"], one["by_name"]) for one in said["overrides"]] == [
        ("mem_used_share_clears", "", 0.7, "olga"),
        ("mem_used_share_opens", "*H200*", 0.96, "olga"),
        ("mem_used_share_opens", "", 0.8, "olga"),
    ]
    trail = vera.get("/api/v1/rule-changes/?rule=memory-nearly-full").json()["results"]
    assert [(line["what"], line["by_name"], line["comment"]) for line in trail] == [
        ("state", "olga", "Watching."), *[("override", "olga", "Watching.")] * 3,
    ]  # fmt: skip
    assert (trail[0]["before"], trail[0]["after"]) == ({"state": "on"}, {"state": "shadow"})
    assert vera.get("/api/v1/rule-changes/?what=state").json()["count"] == 1
    assert vera.get("/api/v1/rule-changes/?by=nobody").json()["count"] == 0
    assert vera.get(f"/api/v1/rule-changes/{trail[0]['id']}/").json() == trail[0]


def test_all_of_a_change_is_taken_or_none(olga: APIClient) -> None:
    """The state does not change where the threshold cannot."""
    overrides = [{"threshold": "mem_used_share_opens", "value": 0.5}]
    answer = olga.patch(FULL, {"state": "off", "overrides": overrides}, format="json")

    said = problem(answer)
    assert said["status"] == 400
    assert "mem_used_share_clears must stay below mem_used_share_opens" in said["detail"]
    assert not RuleState.objects.exists()
    assert not RuleChange.objects.exists()


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"state": "sleeping"}, "state"),
        ({"overrides": [{"threshold": "mem_used_share_opens"}]}, "overrides.0.value"),
        ({"overrides": [{"threshold": "mem_used_share_opens", "value": "much"}]}, "overrides.0.value"),
        ({"overrides": [{"threshold": "mem_used_share_opens", "value": 0.9, "matcher": "rack"}]}, "overrides.0.matcher"),
        ({"overrides": [{"threshold": "mem_used_share_opens", "value": True}]}, "overrides.0.value"),
        ({"overrides": {}}, "overrides"),
        ({"comment": "a\x00b"}, "comment"),
        ({"comment": "x" * 301}, "comment"),
    ],
)
def test_a_request_that_does_not_fit_is_answered_by_field(olga: APIClient, body: dict[str, Any], where: str) -> None:
    """400 with the field's name."""
    said = problem(olga.patch(FULL, body, format="json"))

    assert said["status"] == 400
    assert where in said["errors"]
    assert not Override.objects.exists()


def test_who_may_not_change_rules_is_told_what_it_takes(vera: APIClient, stranger: APIClient) -> None:
    """A viewer, an operator's token that may only read, and nobody's; of an own rule as of others."""
    olga = member("operator", "olga")
    reads = caller(token(olga))
    writes = caller(token(olga, write=True))
    assert writes.post("/api/v1/own-rules/", OWN, format="json").status_code == 201
    before = RuleChange.objects.count()
    asked = [
        ("patch", FULL, {"state": "off"}),
        ("post", "/api/v1/own-rules/", OWN | {"slug": "site-other"}),
        ("put", "/api/v1/own-rules/site-empty/", OWN | {"title": "Other"}),
        ("delete", "/api/v1/own-rules/site-empty/", None),
        ("post", "/api/v1/own-rules/site-empty/trials/", {}),
    ]
    for method, path, body in asked:
        for client in (vera, reads):
            assert "--write" in problem(getattr(client, method)(path, body, format="json"))["detail"], (method, path)
        assert getattr(stranger, method)(path, body, format="json").status_code == 401
    for path in ("/api/v1/rules/", FULL, "/api/v1/own-rules/", "/api/v1/own-rules/site-empty/", "/api/v1/rule-changes/"):
        assert vera.get(path).status_code == reads.get(path).status_code == 200
        assert stranger.get(path).status_code == 401

    assert RuleChange.objects.count() == before
    assert OwnRule.objects.count() == 1
    assert not Trial.objects.exists()


def test_the_trail_cannot_be_written_or_deleted(olga: APIClient) -> None:
    """There is no such method."""
    olga.patch(FULL, {"state": "off"}, format="json")
    line = f"/api/v1/rule-changes/{RuleChange.objects.get().pk}/"

    for method in ("put", "patch", "delete"):
        assert getattr(olga, method)(line, {"comment": "x"}, format="json").status_code == 405
    assert olga.post("/api/v1/rule-changes/", {}, format="json").status_code == 405


@pytest.mark.parametrize("name", ["no-such-rule", "site-nothing", "x%00y", "..%2f..%2fetc", "MEMORY-NEARLY-FULL"])
def test_a_rule_that_is_not_there_is_not_found(olga: APIClient, name: str) -> None:
    """Whatever its name holds."""
    assert olga.get(f"/api/v1/rules/{name}/").status_code == 404
    assert olga.patch(f"/api/v1/rules/{name}/", {"state": "off"}, format="json").status_code == 404


def test_an_own_rule_is_written_tried_and_set_on(olga: APIClient, vera: APIClient) -> None:
    """Its way from draft to on, and back off when its conditions change."""
    made = olga.post("/api/v1/own-rules/", OWN, format="json")
    assert made.status_code == 201
    assert (made.json()["state"], made.json()["clears"]) == ("off", f"NOT ({OWN['opens']})")
    early = problem(olga.patch("/api/v1/rules/site-empty/", {"state": "on"}, format="json"))
    assert (early["status"], "try it against the last day first" in early["detail"]) == (409, True)

    assert olga.post("/api/v1/own-rules/site-empty/trials/", {}, format="json").status_code == 202
    assert problem(olga.post("/api/v1/own-rules/site-empty/trials/", {}, format="json"))["status"] == 409
    Trial.objects.update(ended_at=timezone.now(), windows_with_data=3, judged_total=9, fired_total=2, targets={"1": 2})
    (trial,) = vera.get("/api/v1/own-rules/site-empty/trials/").json()
    assert (trial["fired_total"], trial["targets"]) == (2, {"1": 2})
    assert olga.patch("/api/v1/rules/site-empty/", {"state": "on"}, format="json").json()["state"] == "on"
    assert vera.get("/api/v1/rules/site-empty/").json()["conditions"]["opens"] == OWN["opens"]

    changed = olga.put("/api/v1/own-rules/site-empty/", OWN | {"opens": "busy >= 0.7"}, format="json")
    assert (changed.status_code, changed.json()["state"]) == (200, "off")
    assert problem(olga.post("/api/v1/own-rules/", OWN, format="json"))["status"] == 409
    assert olga.delete("/api/v1/own-rules/site-empty/").status_code == 204
    assert olga.get("/api/v1/own-rules/site-empty/").status_code == 404
    assert vera.get("/api/v1/rule-changes/?what=removed").json()["count"] == 1


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"opens": "x IN (SELECT * FROM read_csv('/etc/passwd'))"}, "opens"),
        ({"opens": "busy > 1; DROP TABLE findings_finding"}, "opens"),
        ({"opens": "busy > '1' OR '1'='1' --"}, "opens"),
        ({"opens": "(" * 60 + "busy" + ")" * 60 + " > 1"}, "opens"),
        ({"opens": "b" * 3000}, "opens"),
        ({"opens": ["busy > 1"]}, "opens"),
        ({"summary": "{busy.__class__.__mro__}"}, "summary"),
        ({"slug": "memory-nearly-full"}, "slug"),
        ({"slug": "site-x/../y"}, "slug"),
        ({"severity": "fatal"}, "severity"),
    ],
)
def test_hostile_text_is_refused_by_field(olga: APIClient, body: dict[str, Any], where: str) -> None:
    """As a problem document, with nothing written."""
    said = problem(olga.post("/api/v1/own-rules/", OWN | body, format="json"))

    assert said["status"] == 400
    assert list(said["errors"]) == [where]
    assert not OwnRule.objects.exists()


def test_a_megabyte_of_condition_is_refused(olga: APIClient) -> None:
    """By its length, before it is read."""
    said = problem(olga.post("/api/v1/own-rules/", OWN | {"opens": "busy > 1 OR " * 90_000 + "busy > 1"}, format="json"))

    assert "opens" in said["errors"]


def test_the_features_of_a_scope_are_told(vera: APIClient) -> None:
    """With their meaning, type and unit; a scope that is none is refused."""
    features = {one["name"]: one for one in vera.get("/api/v1/own-rules/features/?scope=job").json()}

    assert features["share_data"] == {
        "name": "share_data", "means": "Time lost waiting for data", "type": "number", "unit": "ratio", "of_now": False,
    }  # fmt: skip
    assert features["bottleneck"]["type"] == "text"
    assert features["talks"]["type"] == "boolean"
    assert (features["base_runs"]["of_now"], features["share_data"]["of_now"]) == (True, False)
    assert features["flag_tensor_parallel_size"]["means"] == "--tensor-parallel-size"
    assert features["told_dtype"]["means"] == "dtype, as the program says"
    assert features["note_deadline"]["means"] == "annotation deadline"
    assert vera.get("/api/v1/own-rules/features/?scope=fleet").status_code == 400


def test_findings_in_shadow_are_listed_only_where_they_are_asked_for(bob: APIClient) -> None:
    """A list leaves them out, one by its id is shown, and the node's count and the metrics know nothing of them."""
    told("power-cap-limited", shadow=True)
    told("host-memory-pressure", target="2")
    row = Finding.objects.get(shadow=True)

    def listed(query: str) -> list[str]:
        return [one["rule"] for one in bob.get(f"/api/v1/findings/{query}").json()["results"]]

    assert listed("") == ["host-memory-pressure"]
    assert listed("?shadow=false") == ["host-memory-pressure"]
    assert listed("?shadow=true") == ["power-cap-limited"]
    assert bob.get(f"/api/v1/findings/{row.pk}/").json()["shadow"] is True


def test_an_own_rule_of_an_older_release_is_shown_with_no_conditions(vera: APIClient) -> None:
    """A feature that is there no more makes a rule that is none, not a page that fails."""
    kept = own_rules.cleaned(OWN)
    OwnRule.objects.create(slug="site-old", by_name="x", **kept | {"opens": "gone_feature > 1"})

    assert vera.get("/api/v1/rules/site-old/").json()["conditions"] == {}
    assert vera.get("/api/v1/own-rules/site-old/").status_code == 200
    assert Override.objects.count() == 0


def test_an_own_rule_keeps_its_name_and_has_a_duration_alone_to_override(olga: APIClient) -> None:
    """The name may be sent along as it is; what is refused says what to do instead."""
    path = "/api/v1/own-rules/site-empty/"
    assert olga.post("/api/v1/own-rules/", OWN, format="json").status_code == 201
    assert olga.put(path, OWN | {"title": "Other"}, format="json").status_code == 200
    renamed = problem(olga.put(path, OWN | {"slug": "site-other"}, format="json"))
    overrides = [{"threshold": "busy_opens", "value": 0.7}]
    overridden = problem(olga.patch("/api/v1/rules/site-empty/", {"overrides": overrides}, format="json"))

    assert (renamed["status"], list(renamed["errors"])) == (400, ["slug"])
    assert overridden["status"] == 400
    assert "has no threshold busy_opens; it has: fires_after_" in overridden["detail"]


def test_a_pair_of_conditions_that_flaps_is_refused_with_the_row(olga: APIClient) -> None:
    """At the field that is to be changed."""
    said = problem(olga.post("/api/v1/own-rules/", OWN | {"opens": "busy > 0.5", "clears": "busy < 0.9"}, format="json"))

    assert said["status"] == 400
    assert said["errors"]["clears"][0].startswith("With busy = 0.7 both conditions hold")


def test_a_key_within_an_override_is_refused_by_its_place(olga: APIClient) -> None:
    """A matcher that is misspelled would set the whole site."""
    overrides = [{"threshold": "mem_used_share_opens", "value": 0.95, "matchr": "node"}]
    said = problem(olga.patch(FULL, {"overrides": overrides}, format="json"))

    assert said["errors"] == {
        "overrides.0.matchr": ["There is no key matchr here; there are: threshold, matcher, pattern, value."]
    }
    assert not Override.objects.exists()
