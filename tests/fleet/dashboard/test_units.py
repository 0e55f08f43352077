"""The unit filters."""

import math
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.rule import load
from fleet.dashboard.charts import FORMS
from fleet.dashboard.templatetags import units
from fleet.findings.content import sentence
from wire.metrics import METRICS

NB = "\u00a0"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "ratio", "0 %"),
        (0.042, "ratio", "4.2 %"),
        (0.0996, "ratio", "10 %"),
        (0.0002, "ratio", "< 0.1 %"),
        (1, "ratio", "100 %"),
        (87.4, "percent", "87 %"),
        (820, "percent", "820 %"),
        (150_754_820_096, "bytes", "140 GiB"),
        (0, "bytes", "0 B"),
        (1023, "bytes", "1,023 B"),
        (18_467_650_318, "bytes_per_second", "18.5 GB/s"),
        (639.4, "watts", "639 W"),
        (45_210, "watts", "45.2 kW"),
        (1755, "megahertz", "1,755 MHz"),
        (64, "celsius", "64 °C"),
        (3.25, "cores", "3.2"),
        (0.03, "cores", "0.03"),
        (10_000, "errors", "10,000"),
        (12_345, "seconds", "3 h 25 min"),
    ],
)
def test_it_writes_a_value_with_its_unit(value: float, unit: str, text: str) -> None:
    """Each unit has one form, three significant digits at most."""
    assert units.reading(value, unit).replace(NB, " ") == text


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf, "12", True])
@pytest.mark.parametrize("unit", sorted({metric.unit for metric in METRICS} | set(units.BY_UNIT)))
def test_it_writes_a_dash_for_what_is_absent(value: object, unit: str) -> None:
    """Absent, not finite or not a number is a dash in every unit; never 0."""
    assert units.reading(value, unit) == "–"  # type: ignore[arg-type]


@given(st.floats(0, 1e13), st.sampled_from(sorted({metric.unit for metric in METRICS})))
def test_no_value_is_written_as_a_dash_or_without_its_digits(value: float, unit: str) -> None:
    """Any number at all gives a text with a digit."""
    assert any(character.isdigit() for character in units.reading(value, unit))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (45, "45 s"), (200, "3 min 20 s"), (3600, "1 h"), (90_061, "1 d 1 h"), (-75, "-1 min 15 s"), (0.4, "0 s")],
)
def test_it_writes_a_duration_in_its_two_largest_units(seconds: float, text: str) -> None:
    """Nobody needs the seconds of a day."""
    assert units.duration(seconds).replace(NB, " ") == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0 s"), (0.0004, "400 µs"), (0.000012345, "12.3 µs"), (0.0009996, "1.00 ms"), (0.153, "153 ms"), (0.9996, "1.00 s"), (1.24, "1.24 s"), (45, "45 s"), (12.34, "12.3 s"),
     (200.7, "3 min 21 s"), (-1.5, "-2 s")],
)  # fmt: skip
def test_it_writes_a_reading_in_seconds_as_short_as_it_is(value: float | None, text: str) -> None:
    """A first token after 153 ms did not come at once."""
    assert units.reading(value, "seconds").replace(NB, " ") == text


def test_it_writes_times_in_utc_and_says_so() -> None:
    """A time without its zone is a riddle."""
    at = datetime(2026, 11, 30, 2, 34, 10, tzinfo=UTC)

    assert units.utc(at) == units.utc(at.timestamp()) == "2026-11-30 02:34:10 UTC"
    assert units.iso(at) == "2026-11-30T02:34:10+00:00"
    assert (units.utc(None), units.iso(None)) == ("–", "")


def test_memory_has_one_unit_in_prose_tables_and_charts() -> None:
    """`65.0 GB` in a sentence above `60.5 GiB` in a table would be two amounts."""
    held = 65.0e9
    rule = next(rule for rule in load() if rule.id == "gpu-memory-held-idle")
    told = sentence({"id": rule.summary, "params": {"held_gib": held / (1 << 30)}})
    texts = [text for rule in load() for text in (rule.title, rule.summary, rule.risk, rule.rollback, rule.verify)]

    assert "60.5 GiB" in told
    assert units.reading(held, "bytes").replace(NB, " ") == "60.5 GiB"
    assert (FORMS["bytes"].scale, FORMS["bytes"].suffix) == (1 / (1 << 30), " GiB")
    assert [text for text in texts if re.search(r"_gb\b(?!_per_s)|\bGB(?!/s)", text)] == []


def test_it_writes_a_gain_with_two_significant_digits() -> None:
    """`8.00 times` would claim more than anyone knows."""
    assert [units.factor(value) for value in (1.3, 1.05, 8.0, 2.64, 58, 1000, None)] == [
        "1.3",
        "1.05",
        "8",
        "2.64",
        "58",
        "1,000",
        "–",
    ]


@pytest.mark.parametrize(
    ("joules", "text"),
    [
        (None, "–"),
        (0, "0 Wh"),
        (20, "< 0.01 Wh"),
        (900, "0.25 Wh"),
        (3_600_000, "1.00 kWh"),
        (2_142_000, "595 Wh"),
        (3.6e10, "10.0 MWh"),
    ],
)
def test_it_writes_energy_as_people_pay_for_it(joules: float | None, text: str) -> None:
    """Watt-hours, in the unit that leaves three digits; little is not nothing."""
    assert units.energy(joules).replace(NB, " ") == text


@pytest.mark.parametrize(("hours", "text"), [(None, "–"), (0, "0"), (0.001, "< 0.01"), (0.17, "0.17"), (1024.2, "1,024")])
def test_it_writes_gpu_hours(hours: float | None, text: str) -> None:
    """Less than can be written is not nothing."""
    assert units.gpu_hours(hours) == text
