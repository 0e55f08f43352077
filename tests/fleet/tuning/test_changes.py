"""Changes of what a site sets of rules: what is refused and why, what is in force after them, and the trail that they leave."""

import re
from typing import Any

import pytest
from django.utils import timezone

from fleet.tuning import own_rules
from fleet.tuning.changes import TuneError, Wanted, remove_own, save_own, set_override, set_overrides, set_state, tried
from fleet.tuning.in_force import in_force
from fleet.tuning.models import Override, OwnRule, RuleChange
from fleet.tuning.own_rules import OwnRuleError
from tests.fleet.rows import person

pytestmark = pytest.mark.django_db
FULL = "memory-nearly-full"
OPENS, CLEARS = "mem_used_share_opens", "mem_used_share_clears"
OWN: dict[str, str] = {
    "scope": "gpu", "severity": "advice", "group": "performance", "opens": "busy >= 0.5 AND sm_active < 0.2", "clears": "",
    "title": "Busy and empty", "summary": "Busy {busy:.0%} of the time with {sm_active:.1f} of the SMs.", "change": "Ask {name}.",
}  # fmt: skip


def judged() -> set[str]:
    """The rules that the next judgement would use."""
    return {rule.id for rule in in_force().rules}


def try_it(slug: str) -> None:
    """A trial of the rule's present conditions that came to its end."""
    row = OwnRule.objects.get(slug=slug)
    row.trials.create(digest=own_rules.digest(row), by_name="x", windows_total=1, windows_with_data=1, ended_at=timezone.now())


def test_a_rule_is_off_in_shadow_or_on_as_somebody_says() -> None:
    """Each change is in force at once and in the trail with what was before; saying the same again is no change."""
    ann = person("ann")
    assert FULL in judged()

    assert set_state(FULL, "off", ann, "Too loud here.")
    assert FULL not in judged()
    assert FULL in in_force().off
    assert set_state(FULL, "shadow", ann)
    assert FULL in judged() & in_force().shadow
    assert set_state(FULL, "on", ann)
    assert not set_state(FULL, "on", ann)
    assert FULL in judged() - in_force().shadow

    trail = [(row.rule, row.what, row.before, row.after, row.by_name, row.comment) for row in RuleChange.objects.order_by("id")]
    assert trail == [
        (FULL, "state", {"state": "on"}, {"state": "off"}, "ann", "Too loud here."),
        (FULL, "state", {"state": "off"}, {"state": "shadow"}, "ann", ""),
        (FULL, "state", {"state": "shadow"}, {"state": "on"}, "ann", ""),
    ]


def test_what_is_in_force_is_kept_until_something_changes(django_assert_num_queries: Any) -> None:
    """A judgement asks for one small row."""
    in_force()
    with django_assert_num_queries(1):
        in_force()


def test_an_override_is_set_changed_and_taken_away() -> None:
    """One row for each threshold and what it holds for; the trail keeps every value, and no line where nothing changes."""
    ann = person("ann")
    where: Any = {"matcher": "gpu_model", "pattern": "*H200*"}
    set_override(FULL, OPENS, 0.95, ann, **where, comment="Big batches.")
    set_override(FULL, OPENS, 0.97, ann, **where)
    set_override(FULL, OPENS, 0.97, ann, **where)

    assert [(one.threshold, one.pattern, one.value) for one in in_force().settings[FULL]] == [(OPENS, "*H200*", 0.97)]
    set_override(FULL, OPENS, None, ann, **where)
    assert FULL not in in_force().settings
    with pytest.raises(TuneError, match="no such override"):
        set_override(FULL, OPENS, None, ann, **where)
    where["threshold"] = OPENS
    assert [(row.before, row.after, row.comment) for row in RuleChange.objects.order_by("id")] == [
        (None, {**where, "value": 0.95}, "Big batches."),
        ({**where, "value": 0.95}, {**where, "value": 0.97}, ""),
        ({**where, "value": 0.97}, None, ""),
    ]


def test_overrides_that_belong_together_are_set_together() -> None:
    """Either of them alone would cross the other's default; all are written or none is."""
    ann = person("ann")
    set_overrides(FULL, [Wanted(OPENS, 0.85), Wanted(CLEARS, 0.8)], ann)
    with pytest.raises(TuneError, match="would open at"):
        set_overrides(FULL, [Wanted(OPENS, 0.95), Wanted(CLEARS, 0.96)], ann)

    assert sorted(Override.objects.values_list("value", flat=True)) == [0.8, 0.85]
    assert RuleChange.objects.count() == 2
    set_overrides(FULL, [Wanted(OPENS, None), Wanted(CLEARS, None)], ann)
    assert not Override.objects.exists()


def test_two_values_for_one_threshold_in_one_place_are_refused() -> None:
    """Which was meant, nobody can say; two places are two overrides."""
    ann = person("ann")
    for matcher, pattern, where in (("site", "", "the whole site"), ("node", "a-*", "a-*")):
        with pytest.raises(TuneError, match=f"{OPENS} is given twice for {re.escape(where)}"):
            set_overrides(FULL, [Wanted(OPENS, 0.95, matcher, pattern), Wanted(OPENS, 0.96, matcher, pattern)], ann)

    assert not Override.objects.exists()
    set_overrides(FULL, [Wanted(OPENS, 0.95), Wanted(OPENS, 0.96, "node", "a-*")], ann)
    assert Override.objects.count() == 2


def test_of_an_own_rule_only_how_long_it_must_last_can_be_set() -> None:
    """The other numbers stand in its conditions; removing the rule takes the setting along."""
    ann = person("ann")
    row, _ = save_own("site-empty", OWN, ann)
    name = f"fires_after_{OWN['severity']}_s"
    with pytest.raises(TuneError, match=f"has no threshold busy_opens; it has: {name}"):
        set_override("site-empty", "busy_opens", 0.7, ann)
    set_override("site-empty", name, 30.0, ann)
    assert Override.objects.get().value == 30.0
    remove_own(row, ann)
    assert not Override.objects.exists()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"rule": "no-such-rule"}, "no rule no-such-rule"),
        ({"rule": "row-remap-failed"}, "row-remap-failed has no threshold mem_used_share_opens; it has: fires_after_critical_s"),
        ({"threshold": "busy_opens"}, f"it has: {OPENS}, {CLEARS}"),
        ({"value": 1.5}, f"{OPENS} can be from 0 to 1, not 1.5"),
        ({"value": float("nan")}, "not nan"),
        ({"value": float("inf")}, "not inf"),
        ({"value": 0.8}, f"On the whole site it would open at 0.8 and clear at 0.88: {CLEARS} must stay below {OPENS}"),
        ({"value": 0.8, "matcher": "node", "pattern": "a-*"}, "On a-* it would open at 0.8 and clear at 0.88"),
        ({"matcher": "rack"}, "one of: site, gpu_model, partition, node, job_family, job"),
        ({"matcher": "node"}, "Say which by a pattern"),
        ({"matcher": "node", "pattern": "x" * 301}, "up to 300 characters"),
        ({"matcher": "node", "pattern": "a\x00b"}, "control characters"),
        ({"pattern": "a-*"}, "takes no pattern"),
        ({"comment": "x" * 301}, "up to 300 characters"),
        ({"comment": "a\nb"}, "control characters"),
    ],
)
def test_an_override_that_cannot_be_is_refused_with_a_sentence(asked: dict[str, Any], says: str) -> None:
    """Nothing of it is written, and the trail says nothing."""
    whole: dict[str, Any] = {"rule": FULL, "threshold": OPENS, "value": 0.95, "user": person("ann"), **asked}
    with pytest.raises(TuneError) as refused:
        set_override(**whole)

    assert says in str(refused.value)
    assert not Override.objects.exists()
    assert not RuleChange.objects.exists()


def test_a_half_of_a_pair_cannot_be_left_behind_crossing_the_default() -> None:
    """Opening at 0.85 needs the clearing at 0.8: the second cannot go first."""
    ann = person("ann")
    set_override(FULL, CLEARS, 0.8, ann)
    set_override(FULL, OPENS, 0.85, ann)
    with pytest.raises(TuneError, match=r"would open at 0\.85 and clear at 0\.88"):
        set_override(FULL, CLEARS, None, ann)

    set_override(FULL, OPENS, None, ann)
    set_override(FULL, CLEARS, None, ann)
    assert not Override.objects.exists()


def test_the_trail_is_only_ever_added_to() -> None:
    """Neither a row nor a set of rows can be changed or deleted; who wrote it may go, and leaves a name."""
    ann = person("ann")
    set_state(FULL, "off", ann)
    line = RuleChange.objects.get()
    line.comment = "It was not me."
    for tamper in (
        line.save,
        line.delete,
        RuleChange.objects.all().delete,
        lambda: RuleChange.objects.filter(pk=line.pk).update(by_name="bob"),
    ):
        with pytest.raises(TypeError, match="only ever added to"):
            tamper()
    ann.delete()

    assert [(row.by, row.by_name, row.comment) for row in RuleChange.objects.all()] == [(None, "ann", "")]


def test_an_own_rule_is_off_until_it_was_tried() -> None:
    """A draft is judged nowhere; shadow needs no trial, on does; new conditions need a new one."""
    ann = person("ann")
    row, _off = save_own("site-empty", OWN, ann)
    assert row.clears == f"NOT ({OWN['opens']})"
    assert "site-empty" not in judged()
    with pytest.raises(TuneError, match="try it against the last day first"):
        set_state("site-empty", "on", ann)
    set_state("site-empty", "shadow", ann)
    assert "site-empty" in judged() & in_force().shadow & in_force().own

    try_it("site-empty")
    set_state("site-empty", "on", ann)
    assert "site-empty" in judged() - in_force().shadow
    _row, off = save_own("site-empty", OWN | {"title": "Busy but empty", "clears": row.clears}, ann)
    assert not off
    assert "site-empty" in judged()
    row, off = save_own("site-empty", OWN | {"opens": "busy >= 0.6"}, ann)

    assert off
    assert tried(row) is None
    assert "site-empty" not in judged()
    assert [(line.what, line.comment) for line in RuleChange.objects.all()[:2]] == [
        ("state", "Its conditions were changed: try it again."),
        ("rule", ""),
    ]


def test_an_own_rule_that_is_removed_leaves_its_trail() -> None:
    """Its state goes too, so that another of the name begins as a draft."""
    ann = person("ann")
    row, _off = save_own("site-empty", OWN, ann)
    set_state("site-empty", "shadow", ann)
    remove_own(row, ann, "Nobody reads it.")

    assert "site-empty" not in judged()
    assert RuleChange.objects.all()[0].what == "removed"
    save_own("site-empty", OWN, ann)
    assert "site-empty" in in_force().off


@pytest.mark.parametrize(
    ("asked", "field", "says"),
    [
        ({"opens": "bizy > 1"}, "opens", "There is no feature bizy (character 1). Do you mean busy"),
        ({"clears": "busy"}, "clears", "a condition is true or false"),
        ({"opens": "name = (SELECT 1)"}, "opens", "no feature SELECT"),
        ({"scope": "fleet"}, "scope", "gpu, job, node"),
        ({"severity": "fatal"}, "severity", "info, advice, warn, critical"),
        ({"group": "mine"}, "group", "health, clocks, performance, capacity"),
        ({"title": ""}, "title", "empty"),
        ({"title": "Of {busy}"}, "title", "A title holds no values: put busy into the summary."),
        ({"summary": "{bizy}"}, "summary", "There is no feature {bizy} to fill in."),
        ({"summary": "{busy.__class__}"}, "summary", "There is no feature {busy.__class__} to fill in."),
        ({"summary": "{0}"}, "summary", "There is no feature {0} to fill in."),
        ({"summary": "{}"}, "summary", "There is no feature {} to fill in."),
        ({"summary": "{busy!r}"}, "summary", "{busy:.1f}"),
        ({"summary": "{busy:>99999999}"}, "summary", "{busy:.1f}"),
        ({"summary": "{name:.1f}"}, "summary", "{name}"),
        ({"summary": "100 } of"}, "summary", "A brace stands alone"),
        ({"summary": "a\nb"}, "summary", "control characters"),
        ({"summary": "a\u202eb"}, "summary", "control characters"),
        ({"summary": "x" * 1001}, "summary", "longer than 1000"),
        ({"change": "run\x1b[31m"}, "change", "control characters"),
        ({"opens": "busy > 0.5", "clears": "busy > 0.1"}, "clears", "With busy = 0.75 both conditions hold"),
        ({"opens": "busy > 0.5", "clears": "busy < 0.9"}, "clears", "With busy = 0.7 both conditions hold"),
        ({"change": "awk '{print}'"}, "change", "There is no feature {print} to fill in."),
    ],
)
def test_what_is_no_rule_is_refused_by_field(asked: dict[str, str], field: str, says: str) -> None:
    """The sentence stands at the field that it is about, and nothing is written."""
    with pytest.raises(OwnRuleError) as refused:
        save_own("site-x", OWN | asked, person("ann"))

    assert list(refused.value.wrong) == [field]
    assert says in refused.value.wrong[field]
    assert not OwnRule.objects.exists()


@pytest.mark.parametrize(
    "slug", ["x", "memory-nearly-full", "site-", "site-A", "site-a_b", "site-a\n", "site-" + "a" * 60, "site--a"]
)
def test_an_own_rule_cannot_take_any_name(slug: str) -> None:
    """It can neither be taken for a shipped one nor break a line."""
    with pytest.raises(OwnRuleError) as refused:
        save_own(slug, OWN, person("ann"))

    assert "site-…" in refused.value.wrong["slug"]
