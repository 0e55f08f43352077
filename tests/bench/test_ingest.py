"""The ingest benchmark runs, loses nothing, and prints the keys that others read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.slow
def test_it_prints_its_numbers_and_loses_nothing() -> None:
    """Two nodes for four seconds through a real server: all that was sent is acked and stored."""
    run = subprocess.run(
        [sys.executable, "bench/ingest.py", "--gpus", "16", "--seconds", "4"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout.splitlines()[-1])

    assert list(result) == [
        "gpus", "seconds", "samples_sent", "samples_acked", "samples_stored", "samples_lost",
        "server_cpu_s", "cpu_s_per_million", "ack_p50_s", "ack_p99_s", "rss_bytes", "bytes_a_sample",
    ]  # fmt: skip
    assert result["samples_sent"] == result["samples_acked"] == result["samples_stored"] >= 16 * 3
    assert result["samples_lost"] == 0
    assert 0 < result["ack_p50_s"] <= result["ack_p99_s"]
