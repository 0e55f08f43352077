"""From a report to rows."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.benches import keep as keeping
from fleet.benches.keep import KeepError, keep
from fleet.benches.models import BenchRun, BenchScore
from tests.fleet.benches.reports import report, score
from tests.fleet.rows import gpu, node
from wire.bench import Missing

pytestmark = pytest.mark.django_db


def test_scores_stand_beside_the_peak_of_the_card_that_the_agent_told() -> None:
    """A report that calls a card another one changes no peak; a test without one has no share."""
    home = node()
    card = gpu(home)
    told = report(home, {card.uuid: 700e12})
    extra = (score(card.uuid, 60e12, "matmul_fp64_8192"), score("", 2e9, "disk_random_read", "bytes_per_second"))
    told = report(home, {card.uuid: 700e12}, scores=(*told.scores, *extra), missing=(Missing(name="memory_copy", reason="no"),))
    kept = keep(told, home, timezone.now())
    rows = {row.name: row for row in kept.run.scores.all()}

    assert kept.is_new
    assert rows["matmul_bf16_8192"].peak_share == pytest.approx(700 / 989)
    assert (rows["matmul_bf16_8192"].judged, rows["matmul_bf16_8192"].power_limit_w) == (True, 700.0)
    assert (rows["matmul_fp64_8192"].peak_share, rows["matmul_fp64_8192"].judged) == (None, False)
    assert (rows["disk_random_read"].gpu, rows["disk_random_read"].judged) == (None, False)
    assert kept.run.missing == [{"name": "memory_copy", "gpu": "", "reason": "no"}]
    assert kept.run.versions == {"torch": "2.11.0"}


def test_a_report_that_comes_again_changes_nothing() -> None:
    """Whoever sends does not know whether the first one arrived."""
    home = node()
    gpu(home)
    told = report(home)
    first, second = (keep(told, home, timezone.now()) for _ in range(2))

    assert (first.is_new, second.is_new) == (True, False)
    assert first.run == second.run
    assert BenchScore.objects.count() == 1


def test_gpus_that_the_node_does_not_have_are_named_and_left_out() -> None:
    """One that was swapped does not cost the others' scores; a report of none that is known is refused."""
    home = node()
    gpu(home)
    kept = keep(report(home, {"GPU-n1-0": 700e12, "GPU-gone": 700e12}), home, timezone.now())
    assert kept.unknown == ("GPU-gone",)
    assert kept.run.scores.count() == 1

    with pytest.raises(KeepError, match="start its agent once"):
        keep(report(home, {"GPU-gone": 700e12}), home, timezone.now())


def test_another_nodes_gpu_is_not_the_nodes() -> None:
    """Its score would be the other's."""
    gpu(node("n2"))

    with pytest.raises(KeepError, match="None of the report's GPUs"):
        keep(report(node(), {"GPU-n2-0": 1e12}), node("n3"), timezone.now())


def test_a_run_of_the_future_is_refused() -> None:
    """It would be the newest for ever."""
    home = node()
    gpu(home)

    with pytest.raises(KeepError, match="future"):
        keep(report(home), home, timezone.now() - timedelta(hours=1))


@pytest.mark.parametrize("text", ["a\x00b", "a\nb", "\x1b[2J", "\u202eabc"])
def test_texts_that_steer_are_refused(text: str) -> None:
    """PostgreSQL could not keep a NUL, and a page would show what it should not."""
    home = node()
    gpu(home)

    with pytest.raises(KeepError, match="control characters"):
        keep(report(home, versions={"torch": text}), home, timezone.now())
    assert not BenchRun.objects.exists()


def test_a_node_sends_no_more_than_a_day_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are not touched by it; a day later it may again."""
    monkeypatch.setattr(keeping, "MAX_RUNS_A_DAY", 2)
    home, other = node(), node("n2")
    for one in (home, other):
        gpu(one)
    for number in range(2):
        keep(report(home, at=1.79e9 + number), home, timezone.now())
    with pytest.raises(keeping.TooManyRunsError, match="2 runs within a day"):
        keep(report(home), home, timezone.now())

    assert keep(report(other), other, timezone.now()).is_new
    assert keep(report(home), home, timezone.now() + timedelta(days=2)).is_new


def test_runs_beside_others_judge_nobody() -> None:
    """Their rows are kept and marked."""
    home = node()
    gpu(home)
    kept = keep(report(home, shared=True), home, timezone.now())

    assert kept.run.shared
    assert not kept.run.scores.filter(judged=True).exists()
