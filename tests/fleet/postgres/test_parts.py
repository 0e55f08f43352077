"""What other tests say of the parts that write holds on PostgreSQL, too, which is what production runs on.

SQLite has one writer, takes text longer than its column, finds `PCIE` where `PCIe` is asked for, and sorts nothing before all the rest.
"""

import subprocess
import sys

import pytest

from tests.fleet.postgres.conftest import environment
from tests.postgres import Postgres
from tests.serving import ROOT

pytestmark = pytest.mark.slow
PARTS = (
    "api/test_annotations.py", "api/test_findings.py", "api/test_jobs.py", "api/test_node_health.py", "findings/test_events.py",
    "findings/test_judge.py", "findings/test_lifecycle.py", "findings/test_retention.py", "health", "ingest/test_identity.py", "jobs",
    "notify/test_many.py", "notify/test_routing.py", "reports/test_summaries.py", "slow/test_job_rows.py", "slow/test_runs.py",
    "tuning/test_changes.py", "verdicts/test_seen.py",
)  # fmt: skip
"""Files and folders of tests/fleet: a minute of tests, those that start no servers."""


def test_parts_that_write_hold_on_postgresql(server: Postgres) -> None:
    """Every test of them, in a run of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not slow and not long"]
    files = [f"tests/fleet/{part}" for part in PARTS]
    done = subprocess.run(
        [*command, *files],
        cwd=ROOT,
        env=environment(server.url("fettle")),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert 'CREATE DATABASE "test_fettle"' in server.log.read_text()
