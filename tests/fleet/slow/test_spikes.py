"""Latency spikes over a day, and the noise of the host about them."""

from typing import Any

import polars as pl
import pytest

from fleet.inventory.models import Engine
from fleet.slow import spikes
from fleet.store.series import store
from tests.fleet.rows import node
from tests.fleet.slow.past import LATE, NOON, minutes

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]


@pytest.fixture
def engine() -> Engine:
    """One that is there."""
    return Engine.objects.create(node=node("n1"), name="http://h:1", kind="vllm", first_seen_at=NOON, last_seen_at=NOON)


def served(one: Engine, first: int, slow: dict[int, float], loud: dict[int, dict[str, Any]], count: int = 60) -> None:
    """Minutes from `first` on after noon, two samples each; requests take 1 s but for those of `slow`; `loud` is what its host says."""
    t = int(NOON.timestamp())
    numbers = [(number, second) for number in range(first, first + count) for second in (0, 30)]
    engine = [
        {"entity": one.pk, "ts": t + number * 60 + second, "e2e_mean_s": slow.get(number, 1.0)} for number, second in numbers
    ]
    host = [
        {"entity": one.node_id, "ts": t + number * 60 + second, "psi_cpu_some_pct": 1.0, "psi_io_some_pct": 1.0,
         "disk_write_bytes_total": second * loud.get(number, {}).get("writes", 0.0)}
        | {name: value for name, value in loud.get(number, {}).items() if name != "writes"}
        for number, second in numbers
    ]  # fmt: skip
    store().write("engine", pl.DataFrame(engine))
    store().write("host", pl.DataFrame(host))


def told(one: Engine, minute: int) -> dict[str, Any]:
    """Its features, so many minutes after noon."""
    found = spikes.of_day(NOON + minutes(minute) + LATE, [one])
    return found.row(0, named=True) if found.height else {}


def test_spikes_are_counted_once_with_the_noise_about_them(engine: Engine) -> None:
    """One of three minutes beside a busy CPU, one next to a minute of writes, one in silence; what is not five times the median is none."""
    served(engine, 0, {10: 9.0, 11: 8.0, 12: 7.0, 30: 6.0, 50: 4.9}, {10: {"psi_cpu_some_pct": 25.0}, 31: {"writes": 500e6}})
    first = told(engine, 60)
    served(engine, 60, {100: 5.0}, {50: {"psi_io_some_pct": 90.0}, 103: {"psi_io_some_pct": 90.0}})

    assert first == {}  # an hour is too little to know what is usual
    assert told(engine, 120) == {
        "service": engine.pk, "latency_spikes": 3, "spikes_with_noise_share": pytest.approx(2 / 3),
    }  # fmt: skip


def test_minutes_are_read_once(engine: Engine) -> None:
    """Looking again adds nothing, and what was read stays known when the store has it no longer."""
    served(engine, 0, {10: 9.0}, {})
    told(engine, 60)
    served(engine, 60, {}, {})
    first = told(engine, 120)
    again = told(engine, 120)
    store.cache_clear()

    assert first == again == told(engine, 121)
    assert first["latency_spikes"] == 1


def test_no_spike_has_no_share(engine: Engine) -> None:
    """None is known to have come with noise; zero spikes is known."""
    for first in (0, 60):
        served(engine, first, {}, {5: {"psi_cpu_some_pct": 99.0}})
        last = told(engine, first + 60)

    assert last == {"service": engine.pk, "latency_spikes": 0, "spikes_with_noise_share": None}


def test_what_is_older_than_a_day_is_over(engine: Engine) -> None:
    """The minutes of yesterday noon are gone in the afternoon."""
    served(engine, 0, {10: 9.0}, {})
    told(engine, 60)
    for first in (60, 1380):
        served(engine, first, {}, {})
        told(engine, first + 60)
    served(engine, 1440, {}, {})

    assert told(engine, 1500)["latency_spikes"] == 0


def test_after_a_pause_the_last_hour_is_read(engine: Engine) -> None:
    """What came before stays unknown; nothing is made up for it."""
    served(engine, 0, {5: 9.0, 65: 9.0, 125: 9.0}, {}, 180)
    told(engine, 60)

    assert told(engine, 180)["latency_spikes"] == 2


def test_nobody_is_nothing() -> None:
    """A site without engines."""
    assert spikes.of_day(NOON, []).is_empty()
