"""How GPUs compare with their peers."""

import time
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from fleet.benches import peers
from fleet.benches.keep import keep
from fleet.benches.models import BenchRun
from fleet.benches.peers import FEATURES, bench_features, of_gpu
from fleet.inventory.models import Gpu, Node
from tests.fleet.benches.reports import BF16, report
from tests.fleet.rows import gpu, node

pytestmark = pytest.mark.django_db


def fleet(gpus: int = 8, name: str = "n1") -> Node:
    """A node with so many H200."""
    home = node(name)
    for index in range(gpus):
        gpu(home, index)
    return home


def ran(home: Node, *teraflops: float, hours_ago: float = 1, **more: object) -> BenchRun:
    """A run that gave these scores, by GPU index."""
    uuids = home.gpus.order_by("index").values_list("uuid", flat=True)
    values = {uuid: value * 1e12 for uuid, value in zip(uuids, teraflops, strict=False)}
    told = report(home, values, **{"at": time.time() - hours_ago * 3600, **more})  # type: ignore[arg-type]
    return keep(told, home, timezone.now()).run


def features() -> dict[int, dict[str, object]]:
    """Now's, by GPU index."""
    index = dict(Gpu.objects.values_list("pk", "index"))
    return {index[row["gpu"]]: row for row in bench_features(timezone.now()).iter_rows(named=True)}


def test_a_gpu_that_is_slow_in_two_of_three_runs_stands_out() -> None:
    """Its newest score over the median of the newest of all; the runs that were slow are counted, the newest tells the age."""
    home = fleet()
    ran(home, *[700] * 7, 630, hours_ago=50)
    ran(home, *[700] * 7, 700, hours_ago=26)
    ran(home, *[700] * 7, 637, hours_ago=2)
    found = features()

    assert found[7]["bench_ratio"] == pytest.approx(0.91)
    assert (found[7]["bench_slow_runs"], found[7]["bench_runs"], found[7]["bench_name"]) == (2, 3, BF16)
    assert found[7]["bench_age_s"] == pytest.approx(7200, abs=60)
    assert (found[0]["bench_ratio"], found[0]["bench_slow_runs"]) == (1.0, 0)
    assert len(found) == 8


def test_only_the_last_three_runs_count() -> None:
    """What was slow before is past."""
    home = fleet()
    for hours in (100, 90):
        ran(home, *[700] * 7, 600, hours_ago=hours)
    for hours in (80, 70, 60):
        ran(home, *[700] * 8, hours_ago=hours)
    found = features()

    assert (found[7]["bench_slow_runs"], found[7]["bench_runs"]) == (0, 3)


def test_the_worst_test_speaks_and_one_that_was_slow_again_before_one_that_is_slower_once() -> None:
    """A single dip may be chance."""
    home = fleet()
    for hours in (40, 20):
        ran(home, *[4.0] * 7, 3.6, hours_ago=hours, name="memory_copy")
    ran(home, *[700] * 7, 560, hours_ago=10)
    found = features()

    assert (found[7]["bench_name"], found[7]["bench_slow_runs"]) == ("memory_copy", 2)
    assert found[7]["bench_ratio"] == pytest.approx(0.9)
    assert found[0]["bench_ratio"] == 1.0


@pytest.mark.parametrize(
    "more", [{"shared": True}, {"name": "h2d_pinned_256mib"}, {"name": "all_reduce_1mib_8gpus"}, {"hours_ago": 15 * 24}]
)
def test_what_says_nothing_of_the_gpu_is_left_out(more: dict[str, object]) -> None:
    """Runs beside others, copies to the host, latencies, and what is older than two weeks."""
    home = fleet()
    ran(home, *[700] * 7, 500, **more)  # type: ignore[arg-type]

    assert features() == {}


def test_three_gpus_are_too_few_to_compare() -> None:
    """Absent, not healthy; with a fourth of the same kind, on another node, it can be told."""
    ran(fleet(3), 700, 700, 500)
    assert features() == {}
    ran(fleet(1, "n2"), 700)

    ratios = sorted(row["bench_ratio"] for row in bench_features(timezone.now()).iter_rows(named=True))
    assert ratios == pytest.approx([5 / 7, 1, 1, 1])


def test_other_models_limits_and_protocols_are_no_peers() -> None:
    """A GPU at 500 W is slower by design, and a quick run is no full one."""
    ran(fleet(4), 700, 700, 700, 700)
    ran(fleet(4, "n2"), *[600] * 4, limit_w=500.0)
    ran(fleet(4, "n3"), *[650] * 4, protocol="full")
    other = fleet(4, "n4")
    other.gpus.update(model="NVIDIA H100 PCIe")
    ran(other, *[500] * 4)

    assert {row["bench_ratio"] for row in bench_features(timezone.now()).iter_rows(named=True)} == {1.0}


def test_a_gpu_that_is_gone_is_neither_judged_nor_a_peer() -> None:
    """It is no longer listed by its agent."""
    home = fleet(5)
    ran(home, *[700] * 5)
    home.gpus.filter(index__gte=3).update(present=False)
    BenchRun.objects.update(received_at=timezone.now())  # a new run would do the same: what is there is looked at anew

    assert features() == {}


def test_an_empty_fleet_has_columns() -> None:
    """So that whoever joins them needs no case of its own."""
    found = bench_features(timezone.now())

    assert found.is_empty()
    assert dict(found.schema) == FEATURES


def test_the_fleet_takes_one_query_and_one_that_looks_for_news(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """However many GPUs; the second time the comparison is there."""
    for number in range(5):
        ran(fleet(8, f"n{number}"), *[700] * 8)
    with django_assert_num_queries(2):
        first = bench_features(timezone.now())
    with django_assert_num_queries(1):
        second = bench_features(timezone.now() + timedelta(seconds=5))

    assert first.height == second.height == 40
    assert (second["bench_age_s"] - first["bench_age_s"]).min() == pytest.approx(5, abs=1)


def test_a_dear_comparison_is_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run every minute must not cost each cycle the comparison of a large fleet."""
    monkeypatch.setattr(peers, "_compared", peers._Compared())
    monkeypatch.setattr(peers, "DEAR_S", 0.0)
    monkeypatch.setattr(peers, "KEPT_TIMES", 1e9)
    home = fleet(4)
    ran(home, *[700] * 4, hours_ago=5)
    first = features()
    ran(home, *[700] * 4, hours_ago=1)

    assert first[0]["bench_runs"] == 1
    assert features()[0]["bench_runs"] == 1


def test_a_page_compares_with_the_other_gpus_of_the_newest_runs() -> None:
    """The median leaves the GPU itself out; a test that nobody else has has none."""
    home = fleet(4)
    ran(home, 700, 690, 710, 630)
    ran(fleet(1, "n2"), 720)
    slow = home.gpus.get(index=3)
    alone = gpu(node("n3"), 0, model="Voodoo 2")
    ran(alone.node, 1.0)
    (found,) = of_gpu(slow, timezone.now())
    (single,) = of_gpu(alone, timezone.now())

    assert (found.median, found.peers) == (705e12, 4)
    assert found.share == pytest.approx(630 / 705)
    assert (single.median, single.share, single.peers) == (None, None, 0)


def test_a_page_has_the_newest_score_of_each_test(django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    """In the order in which they were measured, by few queries."""
    home = fleet(4)
    for hours, value in ((30, 600), (2, 700)):
        ran(home, *[value] * 4, hours_ago=hours)
    card = home.gpus.get(index=0)
    with django_assert_max_num_queries(3):
        (found,) = of_gpu(card, timezone.now())

    assert found.score.value == 700e12
    assert of_gpu(gpu(home, 9), timezone.now()) == []


def test_times_are_those_of_the_run() -> None:
    """Not of its arrival: a report may come later, by hand."""
    home = fleet(4)
    run = ran(home, *[700] * 4, hours_ago=24)

    assert run.at < datetime.now(UTC) - timedelta(hours=23)
    assert isinstance(bench_features(timezone.now()), pl.DataFrame)
    assert features()[0]["bench_age_s"] == pytest.approx(86_400, abs=60)
