"""Shares of time lost to waiting, from the kernel's totals."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from agents.collectors.pressure import Pressure


def told(root: Path, some: int, full: int) -> None:
    """Files as a 6.18 kernel writes them."""
    (root / "pressure").mkdir(exist_ok=True)
    for name in ("cpu", "memory", "io"):
        (root / "pressure" / name).write_text(
            f"some avg10=0.22 avg60=1.40 avg300=4.26 total={some}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={full}\n"
        )


@pytest.fixture
def seconds() -> Iterator[int]:
    """A clock that steps by two seconds each time it is asked."""
    return count(step=2)


def test_a_share_is_of_the_time_between_two_readings(tmp_path: Path, seconds: Iterator[int]) -> None:
    """Half a second of two is a quarter; the kernel's own averages play no part."""
    told(tmp_path, 1_000_000, 500_000)
    pressure = Pressure(tmp_path, clock=lambda: next(seconds))
    assert set(pressure.read().values()) == {"no_previous"}
    told(tmp_path, 1_500_000, 520_000)
    found = pressure.read()

    assert found["psi_cpu_some_pct"] == found["psi_io_some_pct"] == pytest.approx(25)
    assert found["psi_memory_full_pct"] == pytest.approx(1)
    assert "psi_cpu_full_pct" not in found


def test_a_total_that_went_back_is_no_interval(tmp_path: Path, seconds: Iterator[int]) -> None:
    """No negative share, no made-up zero."""
    told(tmp_path, 1_000_000, 0)
    pressure = Pressure(tmp_path, clock=lambda: next(seconds))
    pressure.read()
    told(tmp_path, 10, 0)
    found = pressure.read()

    assert found["psi_cpu_some_pct"] == "no_previous"
    assert found["psi_io_full_pct"] == 0
