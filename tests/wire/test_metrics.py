"""The registry is consistent, and its gate lets only possible readings through."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.metrics import BY_KEY, METRICS, REASONS, Metric, accept

any_metric = st.sampled_from([metric for metric in METRICS if metric.kind != "vector"])
anything = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.lists(st.integers()))
UNIT_ENDINGS = {
    "percent": "_pct", "watts": "_w", "celsius": "_c", "megahertz": "_mhz", "joules": "_j_total",
    "bytes_per_second": "_bytes_per_s",
}  # fmt: skip


def test_every_key_is_unique() -> None:
    """A scope and a name point at one row."""
    assert [key for key, times in Counter(metric.key for metric in METRICS).items() if times > 1] == []
    assert len(BY_KEY) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.key)
def test_every_row_is_complete_and_its_name_ends_in_its_unit(metric: Metric) -> None:
    """Unit, range and help are there; counters end in _total; ratios live between 0 and 1."""
    assert metric.low < metric.high
    assert metric.help.endswith(".")
    if metric.unit in UNIT_ENDINGS and metric.kind != "vector":
        assert metric.name.endswith(UNIT_ENDINGS[metric.unit])
    if metric.kind == "counter":
        assert metric.name.endswith("_total")
    if metric.unit == "ratio":
        assert (metric.low, metric.high) == (0, 1)


def test_no_dcgm_field_stands_for_two_metrics() -> None:
    """A DCGM field fills one metric."""
    fields = Counter(metric.dcgm for metric in METRICS if metric.dcgm is not None)

    assert [field for field, times in fields.items() if times > 1] == []


@given(any_metric, anything)
def test_the_gate_answers_a_possible_number_or_a_known_reason(metric: Metric, raw: object) -> None:
    """Whatever comes in: either a finite number inside the range and no reason, or None and one of REASONS."""
    value, reason = accept(metric, raw)

    if value is None:
        assert reason in REASONS
    else:
        assert reason is None
        assert math.isfinite(value)
        assert metric.low <= value <= metric.high
        assert value == raw
        assert not isinstance(value, bool)


@given(any_metric, st.floats(0, 1))
def test_the_gate_takes_everything_inside_the_range(metric: Metric, part: float) -> None:
    """Readings from the lower to the upper bound pass unchanged."""
    reading: float = metric.low + part * (metric.high - metric.low)
    if metric.is_integer:
        reading = int(reading)

    assert accept(metric, reading) == (reading, None)


@pytest.mark.parametrize(
    ("key", "raw", "reason"),
    [
        ("gpu.temperature_c", 0x7FFFFFF0, "blank"),  # DCGM int32 blank, and its neighbours that tell why
        ("gpu.temperature_c", 0x7FFFFFF2, "blank"),
        ("gpu.energy_j_total", 0x7FFFFFFFFFFFFFF0, "blank"),
        ("gpu.power_w", 140737488355328.0, "blank"),
        ("gpu.energy_j_total", 9223372036854776000, "blank"),  # the int64 blank after a trip through JSON
        ("gpu.gpu_util_pct", 4294967295, "blank"),
        ("gpu.temperature_c", 644245923, "out_of_range"),
        ("gpu.gpu_util_pct", 37100, "out_of_range"),
        ("gpu.sm_active", 1.2, "out_of_range"),
        ("gpu.sm_active", 1.4e16, "out_of_range"),  # a blank that somebody multiplied
        ("gpu.memory_temperature_c", 0, "unsupported"),  # a card without the sensor answers success and 0
        ("gpu.power_w", "N/A", "not_a_number"),
        ("gpu.power_w", "[Not Supported]", "not_a_number"),
        ("gpu.power_w", "ERR!", "not_a_number"),
        ("gpu.power_w", "<<<NULL>>>", "not_a_number"),
        ("gpu.power_w", True, "not_a_number"),
        ("gpu.power_w", math.nan, "not_a_number"),
        ("gpu.power_w", math.inf, "not_a_number"),
        ("gpu.power_w", 10**400, "out_of_range"),  # no float holds it
        ("gpu.mem_used_bytes", -(10**400), "out_of_range"),
        ("gpu.energy_j_total", 10**30, "out_of_range"),  # beyond 64 bits nothing is a sentinel
        ("gpu.power_w", None, "unsupported"),
        ("gpu.power_w", -1, "out_of_range"),
        ("gpu.pstate", 0.5, "out_of_range"),
        ("host.cpu_iowait_pct", -0.1, "out_of_range"),
    ],
)
def test_the_gate_turns_sentinels_text_and_impossible_values_into_a_reason(key: str, raw: object, reason: str) -> None:
    """The drivers' ways to say "no value" never become numbers."""
    assert accept(BY_KEY[key], raw) == (None, reason)


def test_the_gate_keeps_a_byte_counter_that_passes_a_32_bit_sentinel() -> None:
    """2,147,483,632 bytes is a number like any other where the range allows it; so is 0 everywhere it may stand."""
    assert accept(BY_KEY["gpu.mem_used_bytes"], 0x7FFFFFF0) == (0x7FFFFFF0, None)
    assert accept(BY_KEY["gpu.gpu_util_pct"], 0) == (0, None)
