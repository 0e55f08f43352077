"""Ranks, model FLOP utilisation, cost, events and findings of a report."""

from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from pytest_django import Settings

from fleet.findings.lifecycle import Place
from fleet.findings.lifecycle import report as told
from fleet.findings.models import Finding
from fleet.inventory.models import Gpu, Process
from fleet.reports.document import document
from fleet.reports.happened import findings
from fleet.store.series import store
from tests.fleet.reports.played import cards, job, play
from tests.fleet.rows import NOON, event, found

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]


def steps(gpus: list[Gpu], **values: list[float]) -> None:
    """Let a process on each GPU report its value of each metric for a minute."""
    noon = int(NOON.timestamp())
    rows = [
        {"entity": card.pk, "pid": 100 + place, "ts": noon - 60 + n, "name": "train.py", "user": "ada", "gpu_mem_bytes": 1 << 30,
         **{name: each[place] for name, each in values.items()}}
        for place, card in enumerate(gpus)
        for n in range(60)
    ]  # fmt: skip
    store().write("process", pl.DataFrame(rows))


def busy(gpus: list[Gpu], shares: list[float]) -> None:
    """Let each GPU be that busy for a minute."""
    noon = int(NOON.timestamp())
    rows = [
        {"entity": card.pk, "ts": noon - 60 + n, "gr_engine_active": share, "power_w": 300.0}
        for card, share in zip(gpus, shares, strict=True)
        for n in range(60)
    ]
    store().write("gpu", pl.DataFrame(rows))


def test_ranks_differ_by_their_step_time_where_they_report_it() -> None:
    """The slowest first, whatever their engines say."""
    gpus = cards(4)
    busy(gpus, [0.9, 0.5, 0.9, 0.9])
    steps(gpus, step_time_s=[0.5, 0.5, 0.8, 0.5])
    spread = document(job(gpus), NOON)["ranks"]

    assert (spread["by"], spread["ranks"]) == ("step_time_s", 4)
    assert (spread["low"], spread["high"], spread["ratio"]) == pytest.approx((0.5, 0.8, 1.6))
    assert [row["index"] for row in spread["rows"]] == [2, 0, 1, 3]
    assert spread["rows"][2]["busy"] == 0.5


def test_ranks_differ_by_their_engine_where_one_alone_reports_steps() -> None:
    """A script that reports on its first rank only says nothing of the others."""
    gpus = cards(4)
    busy(gpus, [0.9, 0.5, 0.9, 0.9])
    steps(gpus[:1], step_time_s=[0.5])
    made = document(job(gpus), NOON)

    assert made["ranks"]["by"] == "busy"
    assert [row["index"] for row in made["ranks"]["rows"]] == [1, 0, 2, 3]
    assert made["quantiles"]["step_time_s"]["p50"] == 0.5


def test_one_gpu_has_no_spread_and_the_report_says_why() -> None:
    """Absent, with the reason."""
    gpus = cards()
    busy(gpus, [0.9])
    made = document(job(gpus), NOON)

    assert made["ranks"] is None
    assert made["absent"]["ranks"] == "one_rank"
    assert made["absent"]["quantiles.step_time_s"] == "no_steps"


def test_model_flop_utilisation_is_that_of_the_planner() -> None:
    """Seven billion parameters, 2 x 9,000 tokens a second, bf16 on two H200 (PL-3): 6 N tokens over the peak of both."""
    gpus = cards(2)
    busy(gpus, [0.9, 0.9])
    steps(gpus, tokens_per_s=[9000.0, 9000.0])
    row = job(gpus)
    assert (document(row, NOON)["mfu"], document(row, NOON)["absent"]["mfu"]) == (None, "no_model")
    labels = {"told.params": "7000000000", "told.dtype": "bf16"}
    Process.objects.create(
        node=gpus[0].node,
        pid=100,
        name="train.py",
        labels=labels,
        told_at=NOON,
        first_seen_at=NOON - timedelta(seconds=50),
        last_seen_at=NOON,
    )
    made = document(row, NOON)

    assert made["tokens_per_s"] == pytest.approx(18_000)
    assert made["mfu"] == pytest.approx(6 * 7e9 * 18_000 / (2 * 989.4e12), rel=0.01)
    assert "mfu" not in made["absent"]


def test_a_price_that_nobody_told_makes_the_cost_unknown(settings: Settings) -> None:
    """Not nothing; the price of the time is kept with the report."""
    gpus = cards()
    row = job(gpus, 7200)
    settings.FETTLE_GPU_HOUR_PRICE = None
    without = document(row, NOON)
    settings.FETTLE_GPU_HOUR_PRICE = 2.5
    priced = document(row, NOON)

    assert (without["price"], without["currency"], without["absent"]["cost"]) == (None, None, "no_price")
    assert (priced["price"], priced["currency"], priced["gpu_hours"]) == (2.5, "USD", 2.0)


def test_events_are_those_of_its_gpus_while_it_ran() -> None:
    """Neither those of the card beside it, nor those of the day before."""
    mine, other = cards(2)
    event(mine, 79, at=NOON - timedelta(seconds=30))
    event(mine, 13, at=NOON - timedelta(days=1))
    event(other, 48, at=NOON - timedelta(seconds=20))
    made = document(job([mine]), NOON)

    assert [(one["code"], one["node"], one["index"]) for one in made["events"]] == [(79, "n1", 0)]
    assert made["events_total"] == 1


def test_findings_that_were_deleted_stay_in_the_report() -> None:
    """With their texts, as they were."""
    (card,) = cards()
    row = job([card])
    about: Any = found(target=str(card.pk))
    told(NOON - timedelta(seconds=30), about, Place(card.node_id, (card.pk,)))
    made = document(row, NOON)
    there = findings(row, made["findings"])
    Finding.objects.all().delete()
    gone = findings(row, made["findings"])

    assert [one.rule for one in there] == [one.rule for one in gone] == ["power-cap-limited"]
    assert gone[0].content == there[0].content


def test_a_job_of_devices_that_no_agent_knows_has_hours_and_nothing_else() -> None:
    """They were given: they count as GPU-hours, with a coverage of nothing."""
    row = job([], 3600)
    row.allocations.create(node_name="g9", device="0", from_at=row.started_at, until_at=row.ended_at)
    made = document(row, NOON)

    assert (made["gpu_hours"], made["unknown_gpu_hours"], made["coverage"], made["energy_j"]) == (1, 1, 0, None)
    assert made["unknown"] == [["g9", "0"]]
    assert made["absent"]["bottleneck"] == "unknown_devices"


def test_a_job_that_only_just_began_has_a_report() -> None:
    """No time has passed: no figure, no error."""
    gpus = cards()
    play("fp32_train", gpus)
    row = job(gpus, 0, running=True)
    made = document(row, NOON)

    assert (made["gpu_hours"], made["bins"], made["coverage"]) == (0, [], 0)
