"""The agent's soak: a few seconds of the real thing, and what its arithmetic calls grown."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.agent_soak import Sight, faults, fit

ROOT = Path(__file__).parent.parent.parent


def sights(rss_of: list[float], files_of: list[int]) -> list[Sight]:
    """One every 10 s, of RSS in MiB and open files."""
    return [Sight(i * 10.0, i * 0.1, int(rss * (1 << 20)), 15, files_of[i]) for i, rss in enumerate(rss_of)]


def test_memory_that_wavers_is_flat_and_memory_that_climbs_is_not() -> None:
    """The line is fitted through all sights, so that one high one is no climb."""
    flat = fit(sights([50, 51, 50, 51, 50, 50, 51, 50], [20] * 8))
    climbing = fit(sights([50, 51, 52, 53, 54, 55, 56, 57], [20] * 8))

    assert faults(flat, 1.0, 80.0) == []
    assert faults(climbing, 1.0, 80.0) == ["RSS grows: 7.00 MiB in 70 s, more than 1 MiB."]
    assert faults(climbing, 8.0, 58.0) == ["RSS was 59.8 MB, more than 58 MB."]
    assert climbing.cpu_pct == 1.0


def test_files_that_pile_up_are_told() -> None:
    """A few more may be connections of the moment."""
    assert faults(fit(sights([50] * 8, [20, 22, 20, 20, 22, 20, 22, 22])), 1.0, 80.0) == []
    assert faults(fit(sights([50] * 8, [20, 21, 22, 23, 24, 25, 26, 27])), 1.0, 80.0) == [
        "There are 6 more open files at the end than at the beginning."
    ]


@pytest.mark.slow
def test_a_short_soak_has_everything_on() -> None:
    """A GPU's XID, an engine, OTLP and scrapes pass through a real agent; it says what it saw. Nothing heavy is imported."""
    command = ["bench/agent_soak.py", "--seconds", "12", "--warm-up", "5", "--every", "2", "--bound-mib", "16"]
    environment = os.environ | {"PYTHONPROFILEIMPORTTIME": "1"}  # every process says on stderr what it imports
    done = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    imported = {
        line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines() if line.startswith("import time:")
    }
    found = json.loads(done.stdout.splitlines()[-1])

    assert all(found["came"].values()), found["came"]
    assert {"agents", "pynvml", "prometheus_client", "websockets"} <= imported
    assert not {"polars", "numpy", "django", "pandas", "pyarrow", "psutil", "advisor", "fleet"} & imported
    assert found["cpu_pct"] > 0
    assert found["rss_mb"] <= found["most_rss_mb"] < 80
