"""storage-small-files: a loader that waits for single files."""

from typing import Any, ClassVar

import pytest

from advisor.engine import evaluate
from advisor.rule import load
from tests.advisor.rules.cases import RuleCases, frames


class TestStorageSmallFiles(RuleCases):
    """A loader that waits for single files."""

    rule = "storage-small-files"
    fires: ClassVar[dict[str, Any]] = {
        "bottleneck": "data", "share_data": 0.6, "share_compute": 0.4, "busy": 0.4, "disk_read_each_bytes": 20e3, "disk_read_iops": 5000.0,
        "disk_read_bytes_per_s": 1e8, "disk_await_s": 0.004, "io_delay_share": 0.5, "iowait_cores": 3.0, "run_s": 7200.0,
    }  # fmt: skip
    silent: ClassVar[list[dict[str, Any]]] = [
        {"share_data": 0.2},
        {"disk_read_each_bytes": 250e3},
        {"disk_read_iops": 50.0},
        {"io_delay_share": 0.15},
        {"serves": True},
        {"told_phase": "checkpoint"},
        {"note_phase": "init"},
        {"share_checkpoint": 0.7},
    ]
    between: ClassVar[dict[str, Any] | None] = fires | {"disk_read_each_bytes": 100e3, "share_data": 0.3, "io_delay_share": 0.15}
    lacks = ("io_delay_share", "iowait_cores")


def test_it_says_how_small_the_reads_are_and_packs_them() -> None:
    """With the numbers, and the gain of this job's data share: 1 / (1 - 0.3 * 0.6) to 1 / (1 - 0.7 * 0.6)."""
    finding = TestStorageSmallFiles().found()

    assert finding.summary.english() == (
        "For 60% of the time the GPU had no batch while 5000 reads a second fetched 20000 bytes each: the loader waits for single files,"
        " not for bandwidth."
    )
    assert (finding.severity, finding.confidence, finding.recoverable) == ("warn", "medium", 0.3097)
    assert any('WebDataset("shard-{000000..000999}.tar"' in change.text for change in finding.change)
    assert finding.expected_gain is not None
    assert (finding.expected_gain.low, finding.expected_gain.high) == (1.22, 1.72)


def test_what_the_script_reports_counts_where_it_is_less() -> None:
    """A fifth of each step is waited for: that is enough, and is what is said."""
    (finding,) = TestStorageSmallFiles.judge(TestStorageSmallFiles.fires | {"share_data": 0.1, "data_wait_share": 0.2}).findings

    assert finding.summary.english().startswith("For 20% of each step the script waited for a batch")
    assert finding.recoverable == 0.0982


def test_a_job_that_reads_nothing_is_fine() -> None:
    """Its reads have no size, which is not a reading that is missing; what was open closes."""
    quiet = TestStorageSmallFiles.fires | {"disk_read_each_bytes": None, "disk_read_iops": 0.0}

    assert TestStorageSmallFiles.judge(quiet).not_evaluated == []
    assert TestStorageSmallFiles.judge(quiet, is_open=True).findings == []


def test_the_first_half_hour_fills_the_page_cache() -> None:
    """Advice, no warning."""
    (finding,) = TestStorageSmallFiles.judge(TestStorageSmallFiles.fires | {"run_s": 900.0}).findings

    assert finding.severity == "advice"


def test_the_hosts_waiting_cores_stand_in_for_the_processes() -> None:
    """At low confidence, between thresholds of its own."""
    proxy = TestStorageSmallFiles.fires | {"io_delay_share": None}

    assert TestStorageSmallFiles.judge(proxy).findings[0].confidence == "low"
    assert TestStorageSmallFiles.judge(proxy | {"iowait_cores": 0.3}).findings == []
    assert len(TestStorageSmallFiles.judge(proxy | {"iowait_cores": 0.3}, is_open=True).findings) == 1
    assert TestStorageSmallFiles.judge(proxy | {"iowait_cores": 0.1}, is_open=True).findings == []


@pytest.mark.parametrize(("scheduler", "said"), [("slurm", True), ("kubernetes", False), (None, False)])
def test_it_stages_with_srun_under_slurm_alone(scheduler: str | None, said: bool) -> None:
    """Elsewhere there is no SLURM_TMPDIR."""
    (finding,) = TestStorageSmallFiles.judge(TestStorageSmallFiles.fires | {"scheduler": scheduler}).findings

    assert any(change.text.startswith("srun") for change in finding.change) is said


def test_one_cause_is_reported_once() -> None:
    """Small files keep the disk's rate low and the workers waiting: neither a faster disk nor more workers is the advice."""
    found = evaluate(load(), frames(**TestStorageSmallFiles.fires | {"children": 4.0, "children_cores": 1.0})).findings

    assert [finding.rule for finding in found if finding.bottleneck == "data"] == ["storage-small-files"]
