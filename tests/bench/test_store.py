"""The store's benchmark runs and says what it promises to; how fast it was is no test."""

import json
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_last_line_is_one_json_object_with_every_cost() -> None:
    """A small fleet and a short time; the numbers are those of its own run."""
    command = [sys.executable, "bench/store.py", "--gpus", "16", "--seconds", "40", "--repeats", "1"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["gpus"], told["seconds"], told["samples"], told["metrics"]) == (16, 40, 640, 30)
    assert set(told["bytes_per_sample"]) == {"flush", "5 min", "1 h"}
    assert all(value > 0 for value in told["bytes_per_sample"].values())
    assert set(told["read_ms"]) == {"flushed", "fresh", "settled"}
