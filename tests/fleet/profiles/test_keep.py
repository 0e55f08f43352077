"""From a summary to a row."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.profiles import keep as keeping
from fleet.profiles.keep import KeepError, TooManyProfilesError, keep
from fleet.profiles.models import JobProfile
from tests.fleet.profiles.reports import report
from tests.fleet.rows import node
from wire.profile import TopKernel

pytestmark = pytest.mark.django_db


def test_the_row_has_what_rules_read() -> None:
    """Worked out once, when it comes."""
    kept = keep(report(node()), node("n2"), timezone.now())
    kept.profile.refresh_from_db()

    assert kept.is_new
    assert kept.profile.job == "n1/alice/python"
    assert kept.profile.features["profile_launch_gap_share"] == pytest.approx(0.5)
    assert kept.profile.features["profile_fp32_missed_share"] == pytest.approx(0.25)
    assert kept.profile.features["profile_data_wait_share"] is None
    assert kept.profile.summary["top"][0]["count"] == 300


def test_a_summary_that_comes_again_changes_nothing() -> None:
    """Whoever sends does not know whether the first one arrived; another trace of the same second is another one."""
    home, told = node(), report(node("n2"), at=1.79e9)
    first, second = (keep(told, home, timezone.now()) for _ in range(2))
    third = keep(report(home, at=1.79e9, rank=1), home, timezone.now())

    assert (first.is_new, second.is_new, third.is_new) == (True, False, True)
    assert first.profile == second.profile
    assert JobProfile.objects.count() == 2


def test_a_profile_of_the_future_is_refused() -> None:
    """It would be the newest for ever."""
    home = node()

    with pytest.raises(KeepError, match="future"):
        keep(report(home), home, timezone.now() - timedelta(hours=1))


@pytest.mark.parametrize("text", ["a\x00b", "a\nb", "\x1b[2J", "\u202eabc"])
def test_texts_that_steer_are_refused(text: str) -> None:
    """PostgreSQL could not keep a NUL, and a page would show what it should not."""
    home = node()

    for more in (
        {"top": (TopKernel(name=text, count=1, total_s=0.1, share=0.2),)},
        {"job": f"n1/{text}/python"},
        {"gpu_names": (text,)},
    ):
        with pytest.raises(KeepError, match="control characters"):
            keep(report(home, **more), home, timezone.now())
    assert not JobProfile.objects.exists()


def test_a_node_sends_no_more_than_a_day_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are not touched by it; a day later it may again."""
    monkeypatch.setattr(keeping, "MAX_A_DAY", 2)
    home, other = node(), node("n2")
    for number in range(2):
        keep(report(home, at=1.79e9 + number), home, timezone.now())
    with pytest.raises(TooManyProfilesError, match="2 profiles within a day"):
        keep(report(home), home, timezone.now())

    assert not keep(report(home, at=1.79e9), home, timezone.now()).is_new
    assert keep(report(other), other, timezone.now()).is_new
    assert keep(report(home), home, timezone.now() + timedelta(days=2)).is_new
