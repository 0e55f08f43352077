"""The advisor's benchmark runs and prints the keys that others read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.rule import load

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.slow
def test_it_prints_its_numbers() -> None:
    """A small fleet made of the recordings is judged by all rules."""
    run = subprocess.run(
        [sys.executable, "bench/advise.py", "--gpus", "96", "--seconds", "60"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout.splitlines()[-1])

    assert list(result) == ["gpus", "rules", "first", "next", "rss_bytes"]
    assert (result["gpus"], result["rules"]) == (96, len(load()))
    assert result["first"]["cpu_s"] > 0
    assert "0 findings" not in run.stdout
