"""What cards draw idle and busy: right values, on how much they rest, and nothing where that is too little."""

from datetime import timedelta

import polars as pl
import pytest

from fleet.slow import power
from fleet.slow.power import Floor, floors, learn
from tests.fleet.slow.past import NOON

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
H200, L4 = "NVIDIA H200", "NVIDIA L4"


def hours(cards: dict[int, tuple[float, float]], model: str = H200) -> pl.DataFrame:
    """A day by card: eight hours idle and eight busy at these powers, and eight of both."""
    rows = [
        (gpu, model, 1.0, power_w, idle)
        for gpu, (low, high) in cards.items()
        for power_w, idle in ((low, 1.0), (high, 0.01), ((low + high) / 2, 0.5))
        for _ in range(8)
    ]
    return pl.DataFrame(rows, schema=["gpu", "model", "hours", "power_w", "idle"], orient="row")


def learned(days: int, cards: dict[int, tuple[float, float]]) -> dict[str, Floor]:
    """What is known after so many days."""
    for ago in range(days, 0, -1):
        learn(NOON - ago * DAY, hours(cards))
    return floors(NOON)


def test_floors_are_medians_of_cards_and_days() -> None:
    """Of 75, 78 and 90 W idle: 78; of 600, 640 and 700 busy: 640. A hot day moves neither, nor does a day told twice."""
    learned(4, {1: (75.0, 600.0), 2: (78.0, 640.0), 3: (90.0, 700.0)})
    for _ in range(2):
        learn(NOON, hours({1: (750.0, 6000.0), 2: (780.0, 6400.0), 3: (900.0, 7000.0)}))
    found = floors(NOON)[H200]

    assert (found.idle.watts, found.idle.gpus, found.idle.days) == (78.0, 3, 5)
    assert (found.busy.watts, found.busy.gpus, found.busy.days) == (640.0, 3, 5)
    assert power.features(found) == {"usual_idle_power_w": 78.0, "usual_busy_power_w": 640.0}


def test_the_range_is_the_middle_half_of_the_days() -> None:
    """Of 70, 72, 74, 76 and a hot 90 W: 72 to 76."""
    for ago, watts in reversed(list(enumerate((70.0, 90.0, 72.0, 76.0, 74.0)))):
        learn(NOON - ago * DAY, hours(dict.fromkeys((1, 2, 3), (watts, 600.0))))
    found = floors(NOON)[H200].idle

    assert (found.low, found.watts, found.high) == (72.0, 74.0, 76.0)


@pytest.mark.parametrize(("days", "gpus"), [(2, 3), (3, 2)])
def test_few_days_or_cards_are_too_little(days: int, gpus: int) -> None:
    """How many there are is told, the watts are not."""
    found = learned(days, dict.fromkeys(range(gpus), (75.0, 600.0)))[H200]

    assert (found.idle.watts, found.idle.gpus, found.idle.days) == (None, gpus, days)
    assert power.features(found) == {"usual_idle_power_w": None, "usual_busy_power_w": None}
    assert power.features(None) == {}


def test_models_do_not_mix_and_old_days_go() -> None:
    """A fortnight counts."""
    cards = {1: (75.0, 600.0), 2: (75.0, 600.0), 3: (75.0, 600.0)}
    for ago in (16, 15, 14):
        learn(NOON - ago * DAY, hours(cards))
    for ago in (3, 2, 1):
        learn(NOON - ago * DAY, hours({4: (15.0, 70.0), 5: (15.0, 70.0), 6: (15.0, 70.0)}, L4))
    found = floors(NOON)

    assert found.keys() == {L4}
    assert (found[L4].idle.watts, found[L4].busy.watts) == (15.0, 70.0)


def test_hours_of_neither_kind_say_nothing() -> None:
    """A half-busy hour, one that is half missing, and one without a reading of power."""
    rows = [(1, H200, 1.0, 300.0, 0.5), (2, H200, 0.2, 75.0, 1.0), (3, H200, 1.0, None, 1.0)]
    learn(NOON, pl.DataFrame(rows, schema=["gpu", "model", "hours", "power_w", "idle"], orient="row"))
    found = floors(NOON)[H200]

    assert (found.idle.gpus, found.idle.days, found.busy.gpus) == (0, 0, 0)
