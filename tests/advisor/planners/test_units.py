"""Quantities as engineers write and type them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.planners.units import SUFFIXES, Unit, read, written


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("80GiB", "bytes", 80 * 2**30),
        ("79.6 GiB", "bytes", 79.6 * 2**30),
        ("14GB", "bytes", 14e9),
        ("110kB", "bytes", 110e3),
        ("480GB/s", "bytes_per_second", 480e9),
        ("400Gb/s", "bytes_per_second", 50e9),
        ("989TFLOP/s", "flop_per_second", 989e12),
        ("989TFLOPS", "flop_per_second", 989e12),
        ("12ms", "seconds", 0.012),
        ("1.5h", "seconds", 5400),
        ("2d", "hours", 48),
        ("8.03B", "count", 8_030_000_000),
        ("7e9", "count", 7e9),
        ("92%", "ratio", 0.92),
        ("2kW", "watts", 2000),
        ("400g/kWh", "kilograms_per_kilowatt_hour", 0.4),
        (".5", "ratio", 0.5),
    ],
)
def test_numbers_are_read_with_their_unit(text: str, unit: Unit, value: float) -> None:
    """And without, as the plain unit."""
    assert read(text, unit) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("text", ["", "GiB", "80 gigs", "80GiB/s", "1,5GB", "0x10", "--1", "8_0"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """With the units that there are."""
    with pytest.raises(ValueError, match="is not a number, alone or with one of B, kB"):
        read(text, "bytes")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (112e9, "bytes", "104.3 GiB"),
        (131_072, "bytes", "128 KiB"),
        (0, "bytes", "0 B"),
        (0, "seconds", "0 s"),
        (427.5e12, "flop_per_second", "427.5 TFLOP/s"),
        (3.35e12, "bytes_per_second", "3.35 TB/s"),
        (80.5e6, "bytes_per_second", "80.5 MB/s"),
        (6.1065e10, "flop", "61.06 GFLOP"),
        (0.0510, "seconds", "51 ms"),
        (7.6e-6, "seconds", "7.6 µs"),
        (4623.8, "seconds", "77.06 min"),
        (9247.6, "seconds", "2.569 h"),
        (0.432, "ratio", "43.2 %"),
        (8.03e9, "count", "8.03e9"),
        (480_435, "count", "480,435"),
        (512, "count", "512"),
        (7590, "watts", "7,590 W"),
        (673.92, "kilowatt_hours", "673.9 kWh"),
        (1440, "money", "1,440.00"),
        (0.25, "money", "0.25"),
        (1.2e-6, "money", "1.2e-06"),
        (True, "flag", "yes"),
        (295.2, "flop_per_byte", "295.2 FLOP/B"),
    ],
)
def test_numbers_are_written_in_the_unit_that_suits_them(value: float, unit: Unit, text: str) -> None:
    """GiB for memory, GB/s for rates, TFLOP/s for peaks."""
    assert written(value, unit) == text


@settings(deadline=None)
@given(st.floats(1e-3, 1e18), st.sampled_from(["bytes", "bytes_per_second", "seconds", "flop", "flop_per_second", "ratio"]))
def test_what_is_written_is_read_again(value: float, unit: Unit) -> None:
    """To four digits."""
    text = written(value, unit).replace(",", "")

    assert read(text, unit) == pytest.approx(value, rel=1e-3)


def test_every_suffix_is_told_once() -> None:
    """No unit has a suffix that means nothing."""
    assert all(size > 0 for suffixes in SUFFIXES.values() for size in suffixes.values())
