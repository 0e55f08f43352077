"""Quantiles, idle hours, energy and coverage of what a job held."""

from datetime import timedelta

import polars as pl
import pytest

from fleet.inventory.models import Gpu
from fleet.jobs.models import Job
from fleet.reports.document import document
from fleet.reports.spans import held
from fleet.reports.usage import MOST_VALUES, resolution
from fleet.slow import power
from fleet.store.series import store
from tests.fleet.recorded import recording
from tests.fleet.reports.played import by_the_second, cards, give, job, play
from tests.fleet.rows import NOON
from wire.recording import readings

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("name", ["fp32_train", "bf16_train", "loader_starved"])
def test_the_energy_of_a_recording_is_its_integral(name: str, counted: bool) -> None:
    """By the card's own counter, and by power over time where there is no counter."""
    gpus = cards()
    seconds, joules = by_the_second(name, gpus[0], without=() if counted else ("energy_j_total",))
    found = document(job(gpus, seconds), NOON)

    assert found["energy_j"] == pytest.approx(joules, rel=0.05)
    assert found["energy_coverage"] == pytest.approx(1, abs=0.05)


def test_quantiles_are_those_of_the_samples() -> None:
    """Of each unit, over the time in which it held the card."""
    gpus = cards()
    play("fp32_train", gpus)
    told = [readings("gpu", sample.gpus[0])[0] for sample in recording("fp32_train").samples[-60:]]
    found = document(job(gpus), NOON)

    for name in ("sm_active", "tensor_active", "dram_active"):
        values = pl.Series([one[name] for one in told])
        for quantile in (5, 50, 95):
            expected = values.quantile(quantile / 100, "lower")
            assert found["quantiles"][name][f"p{quantile}"] == pytest.approx(expected, abs=0.02), (name, quantile)
    assert found["gpu_hours"] == pytest.approx(60 / 3600)
    assert found["coverage"] == 1


def test_a_counter_of_energy_counts_before_power_and_bridges_silence() -> None:
    """Read every fifteen seconds, it grew by 300 W while power says 100 W; in a gap of twenty seconds it goes on."""
    (card,) = cards()
    noon = int(NOON.timestamp())
    rows = [
        {"entity": card.pk, "ts": noon - 120 + second, "power_w": 100.0, "gr_engine_active": 0.5,
         "energy_j_total": 1000 + 300 * second if second % 15 == 0 else None}
        for second in range(120)
        if not 50 <= second < 70
    ]  # fmt: skip
    store().write("gpu", pl.DataFrame(rows))
    found = document(job([card], 120), NOON)

    # Readings at 15 to 105 seconds; before and after them power speaks.
    assert found["energy_j"] == pytest.approx(90 * 300 + 16 * 100 + 14 * 100, abs=100)
    assert found["coverage"] == pytest.approx(100 / 120)


def test_energy_that_was_not_read_is_absent_and_says_so() -> None:
    """A card without power has no joules, not zero joules; and of two cards of which one tells, half is covered."""
    first, second = cards(2)
    noon = int(NOON.timestamp())
    store().write("gpu", pl.DataFrame([{"entity": first.pk, "ts": noon - 60 + n, "gr_engine_active": 0.5} for n in range(60)]))
    alone = document(job([first]), NOON)
    store().write("gpu", pl.DataFrame([{"entity": second.pk, "ts": noon - 60 + n, "power_w": 200.0} for n in range(60)]))
    Job.objects.all().delete()
    both = document(job([first, second], job_id="4712"), NOON)

    assert alone["energy_j"] is None
    assert alone["absent"]["energy_j"] == "not_measured"
    assert both["energy_j"] == pytest.approx(200 * 60)
    assert both["energy_coverage"] == pytest.approx(0.5)


def test_idle_hours_and_those_that_nobody_used_are_told_apart() -> None:
    """A card that does nothing is idle; only where no memory is held either, nobody used it."""
    holds, empty = cards(2)
    noon = int(NOON.timestamp())
    for card, memory in ((holds, 40 << 30), (empty, 600 << 20)):
        rows = [
            {
                "entity": card.pk,
                "ts": noon - 60 + n,
                "gr_engine_active": 0.0 if n < 45 or card == empty else 0.9,
                "mem_used_bytes": memory,
            }
            for n in range(60)
        ]
        store().write("gpu", pl.DataFrame(rows))
    found = document(job([holds, empty]), NOON)

    assert found["idle_gpu_hours"] == pytest.approx((45 + 60) / 3600)
    assert found["unheld_gpu_hours"] == pytest.approx(60 / 3600)


def _learned(model: str, watts: tuple[float, ...]) -> None:
    """A site on whose days idle cards of the model drew so much."""
    for ago, one in reversed(list(enumerate(watts))):
        rows = [(gpu, model, 1.0, one, 1.0) for gpu in (1, 2, 3) for _ in range(8)]
        hours = pl.DataFrame(rows, schema=["gpu", "model", "hours", "power_w", "idle"], orient="row")
        power.learn(NOON - timedelta(days=ago), hours)


def _half_idle(card: Gpu) -> None:
    """Forty seconds at 90 W without work, twenty at 600 W with it."""
    noon = int(NOON.timestamp())
    rows = [
        {"entity": card.pk, "ts": noon - 60 + n, "gr_engine_active": 0.0 if n < 40 else 0.9, "power_w": 90.0 if n < 40 else 600.0}
        for n in range(60)
    ]
    store().write("gpu", pl.DataFrame(rows))


def test_energy_spent_idle_is_the_sites_idle_power_by_the_idle_hours() -> None:
    """Days of 70 to 90 W, their middle half 72 to 76: 40 idle seconds are 2,880 to 3,040 J, though the cards drew 90 W."""
    (card,) = cards()
    _half_idle(card)
    _learned(card.model, (70.0, 90.0, 72.0, 76.0, 74.0))
    found = document(job([card]), NOON)

    assert found["idle_gpu_hours"] == pytest.approx(40 / 3600)
    assert found["energy_j"] == pytest.approx(40 * 90 + 20 * 600)
    assert (found["idle_energy_low_j"], found["idle_energy_high_j"]) == (pytest.approx(72 * 40), pytest.approx(76 * 40))
    assert found["idle_power_w"] == pytest.approx(90)
    assert found["idle_power_floors"] == [
        {"model": card.model, "watts": 74.0, "low_w": 72.0, "high_w": 76.0, "gpus": 3, "days": 5}
    ]


def test_without_a_learned_floor_the_energy_spent_idle_is_unknown() -> None:
    """What the cards drew is told all the same."""
    (card,) = cards()
    _half_idle(card)
    found = document(job([card]), NOON)

    assert (found["idle_energy_low_j"], found["idle_energy_high_j"], found["idle_power_floors"]) == (None, None, [])
    assert found["absent"]["idle_energy_low_j"] == "no_floor"
    assert found["idle_power_w"] == pytest.approx(90)


def test_a_job_that_was_never_idle_spent_nothing_idle() -> None:
    """Zero by measurement, whatever the floor is; it has no idle power."""
    (card,) = cards()
    noon = int(NOON.timestamp())
    store().write("gpu", pl.DataFrame([{"entity": card.pk, "ts": noon - 60 + n, "gr_engine_active": 0.5} for n in range(60)]))
    found = document(job([card]), NOON)

    assert (found["idle_energy_low_j"], found["idle_energy_high_j"], found["idle_power_w"]) == (0, 0, None)
    assert found["absent"]["idle_power_w"] == "not_idle"


def test_shared_devices_are_named_and_in_no_sum() -> None:
    """What is read of a shared card is nobody's own."""
    own, shared = cards(2)
    play("fp32_train", [own])
    play("fp32_train", [shared])
    row = job([own])
    alone = document(row, NOON)
    give(row, shared, shared=True)
    found = document(row, NOON)

    assert (found["energy_j"], found["gpu_hours"], found["gpus"]) == (alone["energy_j"], alone["gpu_hours"], 1)
    assert found["shared_gpu_hours"] == pytest.approx(60 / 3600)
    assert found["shared"] == [["n1", "1"]]


def test_a_job_on_shared_devices_alone_has_no_figures_and_says_why() -> None:
    """Neither zero energy nor a bottleneck."""
    gpus = cards()
    play("fp32_train", gpus)
    found = document(job(gpus, shared=True), NOON)

    assert (found["energy_j"], found["bottleneck"], found["gpu_hours"], found["quantiles"]) == (None, "", 0, {})
    assert found["absent"]["energy_j"] == found["absent"]["bottleneck"] == "shared"


def test_time_that_two_jobs_held_a_card_is_in_neithers_figures() -> None:
    """Else each would have all of its hours and energy."""
    (card,) = cards()
    play("fp32_train", [card])
    mine = job([card])
    mine.allocations.update(until_at=NOON - timedelta(seconds=30))
    alone = document(mine, NOON)
    mine.allocations.update(until_at=NOON)
    other = document(job([card], 30, job_id="4712"), NOON)
    found = document(mine, NOON)

    assert found["gpu_hours"] == found["shared_gpu_hours"] == pytest.approx(30 / 3600)
    assert found["energy_j"] == alone["energy_j"] > 0
    assert (other["gpu_hours"], other["energy_j"], other["models"]) == (0, None, [])
    assert other["absent"]["energy_j"] == other["absent"]["bottleneck"] == "shared"


def test_only_the_time_that_it_held_a_card_counts() -> None:
    """Before the card was given to it, others used it."""
    (card,) = cards()
    play("fp32_train", [card])
    row = job([], 60)
    give(row, card, from_s=30)
    found = document(row, NOON)
    row.delete()

    assert found["gpu_hours"] == pytest.approx(30 / 3600)
    assert found["energy_j"] == pytest.approx(document(job([card], job_id="4712"), NOON)["energy_j"] / 2, rel=0.1)


def test_a_month_of_512_cards_is_read_by_the_hour() -> None:
    """However long and large a job is, the buckets that are read keep within their bound."""
    gpus = cards(1)
    row = job(gpus, 30 * 86_400)
    one = held(row, NOON)
    many = type(one)(one.job, one.start, one.end, one.spans * 512, 0, 0, (), (), ("n1",))

    assert resolution(many, NOON.timestamp()) == 3600
    assert sum(span.seconds for span in many.spans) / 3600 <= MOST_VALUES
    assert resolution(held(job(gpus, 600, job_id="2"), NOON), NOON.timestamp()) == 1


@pytest.mark.parametrize(("step_s", "few"), [(60, 16), (3600, 16), (3600, 0)])
def test_roll_ups_give_the_same_sums(step_s: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the minute, by the hour, and by hours of all GPUs at once: energy, coverage and idle hours are those of the seconds."""
    (card,) = cards()
    noon = int(NOON.timestamp())
    rows = [
        {"entity": card.pk, "ts": noon - 7200 + n, "power_w": 300.0, "gr_engine_active": 0.0 if n < 3600 else 0.8,
         "energy_j_total": 300 * n if n % 15 == 0 else None}
        for n in range(7200)
    ]  # fmt: skip
    store().write("gpu", pl.DataFrame(rows))
    row = job([card], 7200)
    monkeypatch.setattr("fleet.reports.usage.FEW_GPUS", few)
    monkeypatch.setattr("fleet.reports.usage.resolution", lambda *_: step_s)
    found = document(row, NOON)

    assert found["energy_j"] == pytest.approx(300 * 7200, rel=0.01)
    assert found["coverage"] == pytest.approx(1, abs=0.01)
    assert found["idle_gpu_hours"] == pytest.approx(1, abs=0.02)
    assert found["quantiles"]["busy"]["p95"] == pytest.approx(0.8)
