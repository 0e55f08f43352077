"""The store's benchmark runs and says what it promises to; how fast it was is no test."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.slow
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


@pytest.mark.slow
def test_engines_stand_side_by_side_on_the_same_samples() -> None:
    """Each with what writing and reading cost and the bytes that it keeps."""
    command = [sys.executable, "bench/store.py", "--beside", "--gpus", "16", "--seconds", "40", "--repeats", "1"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert set(told["engines"]) == {"parquet", "victoria-metrics", "prometheus"}
    for engine in told["engines"].values():
        assert engine["bytes_per_sample"] > 0
        assert engine["write_cpu_s_per_million"] > 0
        assert {"one_gpu_hour_ms", "job_of_64_hour_ms", "fleet_5_minutes_ms", "latest_of_all_ms"} <= set(engine)
