"""From recordings that play on a node to the verdict on the advice, through the store, the advisor and the rows."""

from datetime import timedelta

import pytest
from django.test import Client
from pytest_django import Settings

from fleet.findings.lifecycle import advise_transition
from fleet.findings.models import Finding, Transition
from fleet.verdicts.models import Verification
from fleet.verdicts.tasks import go_on
from tests.fleet.verdicts.site import FP32, Site

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
FOUND_S = 110


def followed(before: str, after: str, rule: str = FP32, seconds: int = 90) -> Verification:
    """The row of the advice of `rule` on `before`, after `after` was played."""
    site = Site(before)
    site.plays(FOUND_S)
    advise_transition(site.finding(rule), "applied", None, at=site.at())
    go_on(site.at())
    site.restarts(after)
    site.plays(seconds)
    go_on(site.at() + timedelta(minutes=10))
    return Verification.objects.get()


def test_advice_that_was_followed_helped(admin_client: Client) -> None:
    """fp32, then bf16 under the same name: 8 times, a verdict row with what was before and after, the finding's advice and pages say so."""
    row = followed("fp32_train", "bf16_train")

    assert row.verdict == "helped"
    assert row.ratio is not None
    assert row.ratio == pytest.approx(8.0, rel=0.1)
    assert row.ratio_low is not None
    assert row.ratio_high is not None
    assert row.ratio_low < row.ratio < row.ratio_high
    assert row.measure == "arithmetic"
    assert row.p is not None
    assert row.p < 0.01
    assert row.before_until is not None
    assert row.after_from is not None
    assert row.before_until <= row.applied_at <= row.after_from
    assert row.recovered_gpu_hours is not None
    assert row.recovered_gpu_hours == pytest.approx((row.ratio - 1) * 90 / 3600, rel=0.02)
    finding = Finding.objects.get(rule=FP32)
    assert finding.advice == "helped"
    last = Transition.objects.filter(finding=finding, axis="advice").last()
    assert last is not None
    assert (last.before, last.after) == ("applied", "helped")
    for path in ("/advice/", f"/findings/{finding.pk}/"):
        page = admin_client.get(path).content.decode()
        assert f"By arithmetic of the math pipes: {row.ratio:.2f} times as fast after the change" in page
    (figure,) = admin_client.get(f"/advice/{row.pk}/chart.json").json()["figures"]
    assert [line["name"] for line in figure["figure"]["data"]][::2] == ["before", "after"]


def test_a_program_that_runs_on_as_it_was_shows_no_effect() -> None:
    """Somebody said applied, and the next run is the same."""
    row = followed("fp32_train", "fp32_train")

    assert row.verdict == "no_effect"
    assert Finding.objects.filter(rule=FP32, advice="no_effect").exists()


def test_what_stays_short_waits_and_cannot_be_told_in_the_end(settings: Settings) -> None:
    """A crash soon after the start is no run; after two weeks nobody waits any more."""
    row = followed("fp32_train", "bf16_train", seconds=24)
    assert row.verdict == ""

    go_on(row.due_at)
    row.refresh_from_db()
    assert row.verdict == "cannot_tell"
    assert row.reason["id"].startswith("Nothing ran after the change")
