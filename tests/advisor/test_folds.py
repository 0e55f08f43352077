"""Stretches of telemetry, folded and merged."""

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.folds import Folds, folded, merged, rate

FOLDS: Folds = {
    "x": ("mean", "max", "min", "last", "median", "p99", "slope", "spread"),
    "c_total": ("growth", "last"),
    "gone": ("mean",),
}


def rows(x: list[float | None], c: list[float | None], start: float = 0.0) -> pl.DataFrame:
    """One key, a row a second."""
    times = [start + second for second in range(len(x))]
    return pl.DataFrame(
        {"k": [7] * len(x), "t": times, "x": x, "c_total": c},
        schema={"k": pl.Int64, "t": pl.Float64, "x": pl.Float64, "c_total": pl.Float64},
    )


def test_two_stretches_say_together_what_each_says() -> None:
    """Means weigh by their readings, a counter's growth spans the seam, a metric that nobody has is null."""
    parts = [
        folded(rows([1.0, 2.0, None], [10.0, 12.0, 13.0]), ["k"], FOLDS),
        folded(rows([6.0], [20.0], start=3.0), ["k"], FOLDS),
    ]

    (row,) = merged(parts, ["k"], FOLDS).with_columns(per_s=rate("c_total")).to_dicts()

    assert row["k"] == 7
    assert (row["from_t"], row["until_t"], row["samples"]) == (0.0, 3.0, 4)
    assert row["x|mean"] == 3.0
    assert (row["x|max"], row["x|min"], row["x|last"]) == (6.0, 1.0, 6.0)
    assert row["x|slope"] == 4.5  # from a mean of 1.5 to one of 6 in one step
    assert row["x|median"] == 3.75
    assert row["x|spread"] == pytest.approx(1.4826 * 2.25)
    assert row["c_total|growth"] == 10.0
    assert row["c_total|last"] == 20.0
    assert row["per_s"] == pytest.approx(10 / 3)
    assert row["gone|mean"] is None


def test_a_counter_that_fell_back_grew_by_its_rises_alone() -> None:
    """A restart within a stretch or between two is no growth."""
    parts = [
        folded(rows([0.0] * 3, [5.0, 9.0, 1.0]), ["k"], FOLDS),
        folded(rows([0.0] * 2, [0.0, 3.0], start=3.0), ["k"], FOLDS),
    ]

    assert merged(parts, ["k"], FOLDS)["c_total|growth"].to_list() == [7.0]


def test_what_was_never_read_is_absent_and_not_zero() -> None:
    """Nulls alone make no mean and no growth, and one reading no rate."""
    (row,) = merged([folded(rows([None], [None]), ["k"], FOLDS)], ["k"], FOLDS).with_columns(per_s=rate("c_total")).to_dicts()

    assert {row[f"x|{how}"] for how in FOLDS["x"]} == {None}
    assert row["c_total|growth"] is None
    assert row["per_s"] is None


@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=2, max_size=30), st.integers(1, 29))
def test_where_the_minutes_part_does_not_matter(values: list[float | None], cut: int) -> None:
    """Mean, extremes, last and growth are the same however a window is cut."""
    cut = min(cut, len(values) - 1)
    grown = [None if value is None else abs(value) for value in values]
    whole = rows(values, grown)
    hows: Folds = {"x": ("mean", "max", "min", "last"), "c_total": ("growth",)}

    (one,) = merged([folded(whole, ["k"], hows)], ["k"], hows).to_dicts()
    (two,) = merged([folded(whole[:cut], ["k"], hows), folded(whole[cut:], ["k"], hows)], ["k"], hows).to_dicts()

    for name, value in one.items():
        other = two[name]
        assert (value is None) == (other is None), name
        assert value is None or math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-6), name
