"""The benchmark of reading a profile runs and prints the keys that others read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("packed", [[], ["--gzip"]])
def test_it_prints_its_numbers(packed: list[str]) -> None:
    """A megabyte is written and read whole; an empty trace stands beside it."""
    run = subprocess.run(
        [sys.executable, "bench/read_profile.py", "--mb", "1", *packed],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout.splitlines()[-1])

    assert list(result) == ["mb", "gzip", "empty", "trace"]
    assert set(result["trace"]) == {"wall_s", "cpu_s", "rss_mb", "events", "kernels"}
    assert result["trace"]["events"] == 6 * result["trace"]["kernels"] + 1
    assert (result["empty"]["kernels"], result["gzip"]) == (0, bool(packed))
