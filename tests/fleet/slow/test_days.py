"""Means over days from roll-ups of an hour: right values, and unknown where nothing is."""

from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from fleet.inventory.models import Gpu
from fleet.slow import days, node_facts
from fleet.store.series import store
from tests.fleet.rows import gpu, node
from tests.fleet.slow.past import NOON, run

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
HOUR = timedelta(hours=1)
AT = NOON + timedelta(minutes=10)
"""The hour that began at noon is not over."""


def hour(card: Gpu, ago: int, samples: int = 60, **values: Any) -> None:
    """One hour of the GPU, a sample a minute."""
    t = int((NOON - ago * HOUR).timestamp())
    rows = [{"entity": card.pk, "ts": t + minute * 60} for minute in range(samples)]
    made = [pl.Series(name, value if isinstance(value, list) else [value] * samples) for name, value in values.items()]
    store().write("gpu", pl.DataFrame(rows).with_columns(made))


def of_day(*cards: Gpu) -> dict[int, dict[str, Any]]:
    """By GPU its features; a sample stands for a minute."""
    intervals = {card.node_id: 60.0 for card in cards}
    found = days.of_gpus(AT, node_facts.cards(intervals), intervals)
    assert found is not None
    return {row["gpu"]: row for row in days.days(found).iter_rows(named=True)}


def test_a_day_is_the_mean_of_its_hours_by_their_samples() -> None:
    """A full hour and a half one; what is older than a day, or not over, does not count."""
    card = gpu(node("n1"), power_limit_w=700.0)
    hour(card, 1, power_w=350.0, gr_engine_active=0.9, sm_active=0.6, dram_active=0.3, clocks_event_reasons=4)
    hour(card, 2, 30, power_w=700.0, gr_engine_active=0.0, sm_active=0.0, dram_active=0.0, clocks_event_reasons=0)
    hour(card, 25, power_w=1.0, gr_engine_active=0.0, sm_active=0.0)
    hour(card, 0, 5, power_w=1.0, gr_engine_active=0.0, sm_active=0.0)
    told = of_day(card)[card.pk]

    assert told["day_hours"] == pytest.approx(1.5)
    assert told["day_power_share"] == pytest.approx(0.75)  # the median of its hours
    assert told["day_sm_active"] == pytest.approx(0.4)
    assert told["day_dram_active"] == pytest.approx(0.2)
    assert told["day_idle_share"] == pytest.approx(1 - 0.6)
    assert told["day_cap_share"] == pytest.approx(2 / 3)
    assert told["day_energy_j"] == pytest.approx(350 * 3600 + 700 * 1800)
    assert told["day_tensor_active"] is None
    assert told["ecc_corrected_day"] is None


def test_energy_is_the_counters_growth_where_there_is_one() -> None:
    """Power is only what stands for it."""
    card = gpu(node("n1"))
    hour(card, 1, power_w=500.0, energy_j_total=[1000.0 + 10 * minute for minute in range(60)])

    assert of_day(card)[card.pk]["day_energy_j"] == pytest.approx(590)


def test_a_module_s_limit_is_not_the_cards() -> None:
    """Its CPU takes of it too."""
    card = gpu(node("n1"), power_limit_w=700.0, power_scope="module")
    hour(card, 1, power_w=350.0)

    assert of_day(card)[card.pk]["day_power_share"] is None


def test_a_card_without_gpm_is_idle_by_its_utilisation() -> None:
    """The share of time without a kernel."""
    card = gpu(node("n1"))
    hour(card, 1, gpu_util_pct=25)

    assert of_day(card)[card.pk]["day_idle_share"] == pytest.approx(0.75)
    assert of_day(card)[card.pk]["day_hours"] == pytest.approx(1.0)


def test_corrected_errors_are_their_growth_over_restarts_and_between_hours() -> None:
    """5 within the first hour, 2 until the next, 1 within it; then the driver is loaded anew and counts 3 from zero."""
    card = gpu(node("n1"))
    counts = {3: [0] * 30 + [5] * 30, 2: [7] * 59 + [8], 1: [0] * 10 + [3] * 50}
    for ago, values in counts.items():
        hour(card, ago, power_w=1.0, ecc_corrected_volatile_total=values)

    assert of_day(card)[card.pk]["ecc_corrected_day"] == 5 + 2 + 1 + 3


def test_errors_stand_beside_the_fleets_cards_of_the_model() -> None:
    """Of ten cards and more; other models and unknown ones do not count."""
    home = node("n1")
    cards = [gpu(home, index) for index in range(11)]
    for number, card in enumerate(cards):
        hour(card, 1, power_w=1.0, ecc_corrected_volatile_total=[0] * 59 + [number])
    other = gpu(home, 11, model="NVIDIA L4")
    hour(other, 1, power_w=1.0, ecc_corrected_volatile_total=[0] * 59 + [1000])
    told = of_day(*cards, other)

    assert told[cards[0].pk]["ecc_corrected_day_p99"] == pytest.approx(9.9)
    assert told[other.pk]["ecc_corrected_day"] == 1000
    assert told[other.pk]["ecc_corrected_day_p99"] is None


def test_a_job_has_the_hours_since_it_began_over_its_cards() -> None:
    """The hour in which it began is another job's too."""
    home = node("n1")
    cards = [gpu(home, index) for index in range(2)]
    for ago, active in ((1, 0.8), (2, 0.4), (3, 0.0)):
        for card in cards:
            hour(card, ago, gr_engine_active=active, sm_active=active, power_w=100.0)
    one = run(home, NOON - 2.5 * HOUR, AT, gpu_ids=[card.pk for card in cards], gpus=2)
    found = days.of_gpus(AT, node_facts.cards([home.pk]), {home.pk: 60.0})
    assert found is not None
    told = days.of_jobs(found, [one]).row(0, named=True)

    assert told["job"] == one.job
    assert told["day_hours"] == pytest.approx(2)
    assert told["day_sm_active"] == pytest.approx(0.6)
    assert told["day_idle_share"] == told["idle_share_day"] == pytest.approx(0.4)
    assert told["day_energy_j"] == pytest.approx(2 * 2 * 3600 * 100)


def test_a_node_has_the_share_of_hours_with_a_full_cpu() -> None:
    """Two of three hours of a week; how long a disk request takes is the median."""
    home = node("n1", cores=100)
    for ago, busy, wait in ((1, 95.0, 0.01), (30, 90.0, 0.02), (100, 20.0, 0.5), (200, 99.0, 9.0)):
        t = int((NOON - ago * HOUR).timestamp())
        rows = [{"entity": home.pk, "ts": t + minute * 60, "cpu_busy_cores": busy, "disk_await_s": wait} for minute in range(60)]
        store().write("host", pl.DataFrame(rows))
    found = days.of_nodes(AT, {home.pk: home.cores}, {home.pk: 60.0})
    assert found is not None

    assert found.row(0, named=True) == {
        "node": home.pk,
        "day_hours": pytest.approx(1),
        "day_cpu_saturated_share": pytest.approx(2 / 3),
        "base_disk_await_s": pytest.approx(0.02),
    }


def test_a_node_of_unknown_size_has_no_such_share() -> None:
    """Null, not zero."""
    home = node("n1", cores=None)
    t = int((NOON - HOUR).timestamp())
    store().write("host", pl.DataFrame({"entity": [home.pk], "ts": [t], "cpu_busy_cores": [3.0]}))
    found = days.of_nodes(AT, {home.pk: None}, {})
    assert found is not None

    assert found["day_cpu_saturated_share"].to_list() == [None]
