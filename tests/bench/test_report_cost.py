"""The client's benchmark runs against a real receiver."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_it_tells_the_cost_of_a_step_with_and_without_an_agent() -> None:
    """Figures of both kinds of step; one that sends cannot be had for less than one that only counts."""
    command = [sys.executable, "bench/report_cost.py", "--calls", "2000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])

    assert found["with_agent"].keys() == found["without_agent"].keys() == {"step", "step that tells all", "step that sends"}
    assert all(cost > 0 for costs in (found["with_agent"], found["without_agent"]) for cost in costs.values())
    assert found["with_agent"]["step that sends"] > found["with_agent"]["step"]
