"""What advice may give back: the same as the planners' own numbers, null where what they follow from is absent."""

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import planned_savings
from advisor.planners import batch, checkpoint_interval, energy

c = pl.col


def one(expression: pl.Expr, **values: Any) -> Any:
    """What the expression gives for one row; None in a column of numbers is null."""
    frame = pl.DataFrame(values and {name: [value] for name, value in values.items()} | {"row": [0]})
    frame = frame.with_columns(c(name).cast(pl.Float64) for name, value in values.items() if value is None)
    return frame.select(expression).item()


@pytest.mark.parametrize(
    ("share", "times"),
    [(0.45, 2), (0.3, 3), (0.31, 2), (0.1, 8), (0.01, 8), (0.46, None), (0.9, None), (0.0, None), (None, None)],
)
def test_a_micro_batch_is_made_as_many_times_larger_as_surely_fits(share: float | None, times: int | None) -> None:
    """At least twice, at most eight times."""
    assert one(planned_savings.batch_times(c("share")), share=share) == times


@settings(deadline=None)
@given(st.floats(0.05, 0.4), st.floats(0, 0.99), st.integers(1, 64))
def test_what_surely_fits_fits_whatever_part_of_the_memory_does_not_grow(share: float, static: float, micro_batch: int) -> None:
    """Against PL-12's own line through the measurement and what is there without a sample."""
    memory = 80e9
    used = share * memory
    slope = used * (1 - static) / micro_batch
    times = one(planned_savings.batch_times(c("share")), share=share)

    assert times * micro_batch <= batch.largest_micro_batch(micro_batch, used, micro_batch + 1, used + slope, memory) + 1


@pytest.mark.parametrize(
    ("first", "second", "memory", "largest"),
    [((4, 22), (8, 34), 80, 20), ((4, 22), (8, 22), 80, None), ((4, 22), (4, 34), 80, None), ((4, 22), (8, 34), 5, None)],
)
def test_the_largest_micro_batch_of_two_measurements(
    first: tuple[int, int], second: tuple[int, int], memory: int, largest: int | None
) -> None:
    """T12.3; null where they say nothing."""
    gib = 2**30
    expression = planned_savings.largest_micro_batch(c("b1"), c("m1"), c("b2"), c("m2"), c("memory"))

    assert one(expression, b1=first[0], m1=first[1] * gib, b2=second[0], m2=second[1] * gib, memory=memory * gib) == largest
    if largest:
        assert largest == batch.largest_micro_batch(first[0], first[1] * gib, second[0], second[1] * gib, memory * gib)


@settings(deadline=None)
@given(st.integers(1, 100_000), st.floats(0.1, 600), st.floats(60, 1e6))
def test_checkpoints_are_planned_as_the_planner_plans_them(gpus: int, stall_s: float, interval_s: float) -> None:
    """Interval, overhead, and what the best interval gives back."""
    row = {"gpus": gpus, "stall_s": stall_s, "interval_s": interval_s}
    mtbf = planned_savings.mtbf_s(c("gpus"))
    own = checkpoint_interval.checkpoint_interval(gpus, stall_s)

    assert one(mtbf, **row) == pytest.approx(own.mtbf_hours * 3600)
    assert one(planned_savings.checkpoint_interval_s(c("stall_s"), mtbf), **row) == pytest.approx(own.young_s)
    assert one(planned_savings.checkpoint_overhead(c("stall_s"), c("interval_s"), mtbf), **row) == pytest.approx(
        checkpoint_interval.overhead(stall_s, own.mtbf_hours * 3600, interval_s)
    )
    given_back = one(planned_savings.checkpoint_recoverable(c("stall_s"), c("interval_s"), mtbf), **row)
    assert given_back >= 0
    assert given_back == pytest.approx(
        checkpoint_interval.overhead(stall_s, own.mtbf_hours * 3600, interval_s) - own.overhead_ratio, abs=1e-9
    )


@pytest.mark.parametrize("stall", [None, 0.0])
def test_without_a_stall_there_is_no_interval(stall: float | None) -> None:
    """A save that nobody measured is not free."""
    mtbf = planned_savings.mtbf_s(c("gpus"))

    assert one(planned_savings.checkpoint_interval_s(c("stall_s"), mtbf), gpus=8, stall_s=stall) is None
    assert one(planned_savings.checkpoint_overhead(c("stall_s"), pl.lit(3600.0), mtbf), gpus=8, stall_s=stall) is None
    assert one(planned_savings.checkpoint_recoverable(c("stall_s"), pl.lit(3600.0), mtbf), gpus=8, stall_s=stall) is None


def test_a_day_of_idle_gpus_costs_what_the_planner_says() -> None:
    """Price and energy together (PL-6), or either alone; without both nothing is known."""
    hours, power = c("gpu_hours"), c("power_w")
    row = {"gpu_hours": 48.0, "power_w": 120.0}

    assert one(planned_savings.cost(hours, 2.5, power, 0.12, 1.3), **row) == pytest.approx(
        energy.idle_cost(48, 2.5, 120, 1.3, 0.12)
    )
    assert one(planned_savings.cost(hours, 2.5, power, None), **row) == pytest.approx(120)
    assert one(planned_savings.cost(hours, None, power, 0.12, 1.3), **row) == pytest.approx(48 * 0.12 * 1.3 * 0.12)
    assert one(planned_savings.cost(hours, None, power, None), **row) is None
    assert one(planned_savings.cost(hours, 2.5, power, 0.12), gpu_hours=48.0, power_w=None) == pytest.approx(120)
    assert one(planned_savings.cost(hours, None, power, 0.12), gpu_hours=48.0, power_w=None) is None
    assert one(planned_savings.cost(hours, 2.5, power, 0.12), gpu_hours=None, power_w=120.0) is None
