"""What is read seldom holds between two readings, however it is read back."""

from typing import Any

import polars as pl
import pytest

from fleet.store import clock
from fleet.store.series import store
from wire.metrics import HELD, HELD_S

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
T = 1_760_000_000


def write(*rows: tuple[int, int, float | None, float | None]) -> None:
    """Rows of (entity, second, power, limit): the limit is read seldom."""
    schema = {"entity": pl.Int64, "ts": pl.Int64, "power_w": pl.Float64, "power_limit_w": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    store().write("gpu", frame.with_columns(ts=pl.col("ts") + T))


def limits(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Entity, second and limit."""
    return frame.select("entity", pl.col("ts") - T, "power_limit_w").rows()


def test_a_row_has_what_was_told_within_two_readings_before_it() -> None:
    """Also before the span asked for; never another GPU's, never from later, and power is not held."""
    write((1, 0, 100.0, 700.0), (1, 20, None, None), (1, HELD_S, 300.0, None), (1, HELD_S + 1, 300.0, None))
    write((2, 0, 100.0, None), (2, 5, 100.0, 500.0), (2, 6, 100.0, 450.0), (2, 7, 100.0, None))
    rows = clock.window("gpu", T + 1, T + 100, metrics=["power_w", "power_limit_w"])

    assert limits(rows) == [
        (1, 20, 700.0),
        (1, HELD_S, 700.0),
        (1, HELD_S + 1, None),
        (2, 5, 500.0),
        (2, 6, 450.0),
        (2, 7, 450.0),
    ]
    assert rows["power_w"][0] is None
    assert limits(clock.window("gpu", T, T + 1))[1] == (2, 0, None)


def test_the_newest_row_has_it_too() -> None:
    """Of each GPU its own, and nothing where it was told too long ago."""
    write((1, 0, 100.0, 700.0), (1, 10, 100.0, None), (2, 0, 100.0, 600.0), (2, HELD_S + 1, 100.0, None), (3, 40, 100.0, 650.0))

    assert limits(clock.latest("gpu", T)) == [(1, 10, 700.0), (2, HELD_S + 1, None), (3, 40, 650.0)]
    assert limits(clock.latest("gpu", T + 5, [1], ["power_limit_w"])) == [(1, 10, 700.0)]


def test_short_buckets_have_it_and_gaps_stay_gaps() -> None:
    """Buckets without a sample are not made; those of a minute need no help."""
    write(*((1, second, 100.0, 700.0 if second % 15 == 0 else None) for second in range(45)), (1, 100, 100.0, None))
    short = clock.series("gpu", 1, ["power_limit_w"], T + 5, T + 120, 5)
    long = clock.series("gpu", 1, ["power_limit_w"], T - T % 60, T + 120, 60)

    assert short["power_limit_w"].to_list() == [700.0] * 8 + [None]
    assert short["power_limit_w_max"].to_list() == short["power_limit_w"].to_list()
    assert [second - T for second in short["ts"].to_list()] == [*range(5, 45, 5), 100]
    assert long["power_limit_w"].drop_nulls().unique().to_list() == [700.0]


def test_only_what_is_read_seldom_is_held() -> None:
    """A metric that is read each second is absent as soon as it cannot be read."""
    assert "power_limit_w" in HELD
    assert HELD.isdisjoint({"power_w", "sm_active", "temperature_c", "mem_used_bytes", "clocks_event_reasons"})
