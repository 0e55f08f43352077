"""Clock of the cores."""

from pathlib import Path

import pytest

from agents.collectors.clock import CoreClock


def test_the_clock_is_a_mean_of_cores_spread_over_the_machine(tmp_path: Path) -> None:
    """cpufreq speaks of kHz; of 64 cores every fourth is asked."""
    for core in range(64):
        folder = tmp_path / f"devices/system/cpu/cpu{core}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text("2400000\n" if core % 2 else "1200000\n")
    found = CoreClock(tmp_path).read()

    assert 1200 <= float(found["cpu_clock_mhz"]) <= 2400
    assert CoreClock(tmp_path / "none").read() == {}


def test_a_core_that_does_not_tell_is_an_error(tmp_path: Path) -> None:
    """`<unknown>` is what some kernels write while a core sleeps."""
    folder = tmp_path / "devices/system/cpu/cpu0/cpufreq"
    folder.mkdir(parents=True)
    (folder / "scaling_cur_freq").write_text("<unknown>\n")

    with pytest.raises(ValueError, match="unknown"):
        CoreClock(tmp_path).read()
