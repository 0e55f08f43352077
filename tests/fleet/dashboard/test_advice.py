"""The page of advice with its verdicts, and a verdict on its finding's page."""

from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from django.test import Client
from django.utils import timezone

from advisor.verification.stretch import Stretch
from fleet.findings.models import Finding
from fleet.verdicts.models import Verification
from fleet.verdicts.stretches import packed
from tests.fleet.dashboard.fleet_rows import make_finding, make_node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
REASON = "By {measure}: {ratio:.2f} times as fast after the change, with {level:.0%} confidence between {low:.2f} and {high:.2f} times."


def samples(level: float) -> bytes:
    """A minute of SM clock."""
    frame = pl.DataFrame({"t": [float(k) for k in range(60)], "sm_clock_mhz": [level + k % 3 for k in range(60)]})
    return packed(Stretch("", frame, "NVIDIA H200", 1))


def verified(finding: Finding | None = None, **more: Any) -> Verification:
    """Advice on clocks that helped 1.8 times."""
    now = timezone.now()
    defaults: dict[str, Any] = {
        "finding": finding, "rule": finding.rule if finding else "clocks-locked-low", "scope": "gpu", "target": "1", "applied_at": now,
        "due_at": now, "verdict": "helped", "measure": "sm_clock_mhz", "before": 1000.0, "after": 1800.0, "ratio": 1.8,
        "ratio_low": 1.7, "ratio_high": 1.9, "p": 0.001, "recovered_gpu_hours": 40.0, "measured_at": now,
        "rollback": {"id": "Set the batch size back.", "params": {}}, "before_samples": samples(1000), "after_samples": samples(1800),
        "reason": {"id": REASON, "params": {"level": 0.95, "measure": "SM clock", "ratio": 1.8, "low": 1.7, "high": 1.9}},
    }  # fmt: skip
    return Verification.objects.create(**defaults | more)


def text(client: Client, path: str) -> str:
    """The page's HTML."""
    answer = client.get(path)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_the_page_shows_each_verdict_and_each_rules_record(viewer: Client) -> None:
    """With what was recovered, the ratio, its interval and the reason; worse with the way back."""
    verified()
    verified(verdict="worse", ratio=0.5, ratio_low=0.4, ratio_high=0.6, recovered_gpu_hours=-3.0)
    verified(verdict="", ratio=None, reason={}, recovered_gpu_hours=None)
    page = text(viewer, "/advice/")

    assert "1.80×" in page
    assert "By SM clock: 1.80 times as fast after the change" in page
    assert "40.0 GPU-hours" in page
    assert "-3.0" in page or "-3.00" in page
    assert page.count("Set the batch size back.") == 1
    assert "waiting for a run" in page
    assert "3 verdicts" in page
    assert "clocks-locked-low" in page


def test_targets_are_named_and_linked(viewer: Client) -> None:
    """Not by the ids that the database gave them; what is gone, and jobs, by what was kept."""
    node = make_node("n1", 2)
    card = node.gpus.get(index=1)
    verified(scope="node", target=str(node.pk))
    verified(scope="gpu", target=str(card.pk))
    verified(scope="gpu", target="987654")
    verified(scope="job", target="west/4711")
    page = text(viewer, "/advice/")

    assert '<a href="/nodes/n1/">n1</a></span>' in page
    assert f'<a href="/gpus/{card.pk}/">n1 GPU 1</a></span>' in page
    assert ">987654</span>" in page
    assert ">west/4711</span>" in page


@pytest.mark.parametrize(("query", "total"), [("verdict=helped", 1), ("verdict=waiting", 1), ("rule=clocks-locked-low", 2)])
def test_the_list_is_narrowed(viewer: Client, query: str, total: int) -> None:
    """By verdict and by rule."""
    verified()
    verified(verdict="", ratio=None, reason={})

    assert f"{total} verdict" in text(viewer, f"/advice/?{query}")


def test_a_filter_that_names_nothing_is_said(viewer: Client) -> None:
    """And shows what there is of the rest."""
    verified()

    assert "Not understood: Verdict “bogus”" in text(viewer, "/advice/?verdict=bogus")
    assert "0 verdicts" in text(viewer, "/advice/?rule=%00")


def test_without_any_the_page_says_how_to_begin(viewer: Client) -> None:
    """Nothing was applied."""
    assert "Nothing was applied yet" in text(viewer, "/advice/")


def test_the_findings_page_shows_its_verdict_the_chart_and_the_sites_record(viewer: Client) -> None:
    """Beside the promise stands what came of it here."""
    finding = make_finding(make_node("n1", 1), rule="power-cap-limited")
    row = verified(finding)
    verified(finding, applied_at=timezone.now() - timedelta(days=1), verdict="no_effect", ratio=1.0)
    page = text(viewer, f"/findings/{finding.pk}/")

    assert "Did it help?" in page
    assert "here: helped 1 of 2 times, median 1.40×" in page
    assert f"/advice/{row.pk}/chart.json" in page
    assert "Measured by" in page


def test_the_chart_has_a_line_before_and_one_after_with_their_middles(viewer: Client) -> None:
    """Up to the change on the left, from the run after it on the right."""
    row = verified()
    (one,) = viewer.get(f"/advice/{row.pk}/chart.json").json()["figures"]
    before, middle, after, _ = one["figure"]["data"]

    assert one["metric"] == "verdict"
    assert (before["x"][0], before["x"][-1]) == (-59, 0)
    assert (after["x"][0], after["x"][-1]) == (0, 59)
    assert middle["y"] == [1000, 1000]
    assert after["y"][:3] == [1800, 1801, 1802]


def test_a_verdict_without_a_measure_has_no_chart(viewer: Client) -> None:
    """Nothing was compared."""
    row = verified(measure="", verdict="cannot_tell", ratio=None)

    assert viewer.get(f"/advice/{row.pk}/chart.json").json()["figures"][0]["figure"]["data"] == []


def test_nobody_sees_it_without_logging_in(client: Client) -> None:
    """Led to the login."""
    assert client.get("/advice/").status_code == 302


def test_an_ended_finding_can_still_be_marked_as_applied(operator: Client) -> None:
    """Its job was restarted to apply the change."""
    finding = make_finding(make_node("n1", 1), rule="power-cap-limited")
    Finding.objects.filter(pk=finding.pk).update(resolved_at=timezone.now(), condition="resolved")

    assert 'value="applied"' in text(operator, f"/findings/{finding.pk}/")
    operator.post(f"/findings/{finding.pk}/decide/", {"before": "proposed", "after": "applied"})
    finding.refresh_from_db()
    assert finding.advice == "applied"
