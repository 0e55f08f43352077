"""checkpoint-missing: a long training without a checkpoint."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestCheckpointMissing(RuleCases):
    """A long training without a checkpoint."""

    rule = "checkpoint-missing"
    healthy: ClassVar[dict[str, Any]] = {
        "run_s": 86400.0,
        "run_gpu_hours": 192.0,
        "steps_total": 5000.0,
        "checkpoints_total": 20.0,
        "since_checkpoint_s": 600.0,
        "checkpoint_optimum_s": 4000.0,
    }
    fires: ClassVar[dict[str, Any]] = {"run_s": 86400.0, "run_gpu_hours": 192.0, "steps_total": 5000.0, "checkpoints_total": 0.0}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"run_s": 3600.0, "run_gpu_hours": 8.0},
        {"checkpoints_total": 3.0},
        {"told_kind": "eval"},
        {"serves": True},
    ]
    lacks = ("run_s",)


def test_one_that_is_old_or_cut_off_or_not_loaded_is_none() -> None:
    """Each in its own words."""
    fine = TestCheckpointMissing.healthy
    old = TestCheckpointMissing.judge(fine | {"since_checkpoint_s": 20000.0}).findings[0]
    cut = TestCheckpointMissing.judge(fine | {"checkpoint_shrunk": True, "checkpoint_bytes": 3 * 1024.0**3}).findings[0]
    lost = TestCheckpointMissing.judge(fine | {"resumed_at_zero": True}).findings[0]

    assert "20000 s old" in old.summary.english()
    assert "3.0 GiB" in cut.summary.english()
    assert "began at step 0" in lost.summary.english()
