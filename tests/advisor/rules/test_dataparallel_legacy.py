"""dataparallel-legacy: one process that drives several GPUs through the first."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestDataparallelLegacy(RuleCases):
    """One process that drives several GPUs through the first."""

    rule = "dataparallel-legacy"
    healthy: ClassVar[dict[str, Any]] = {"gpus": 2, "working_gpus": 2, "gpu0_mem_ratio": 1.0, "gpu0_sm_ratio": 1.0}
    fires: ClassVar[dict[str, Any]] = {
        "gpus": 4,
        "gpus_on_node": 4,
        "working_gpus": 4,
        "gpus_per_process_max": 4,
        "gpu0_mem_ratio": 1.4,
        "gpu0_sm_ratio": 1.3,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"gpus_per_process_max": 1},
        {"working_gpus": 1},  # it holds the others and uses them for nothing
        {"gpu0_mem_ratio": 1.05},
        {"gpu0_sm_ratio": 1.0},
        {"serves": True},
        {"serving_engine": "vllm"},
    ]
    between: ClassVar[dict[str, Any] | None] = {"gpus_per_process_max": 4, "gpu0_mem_ratio": 1.1, "gpu0_sm_ratio": 1.3}
    lacks = ("gpus_per_process_max",)


def test_it_starts_as_many_processes_as_there_are_gpus() -> None:
    """The launcher's count is the job's."""
    assert any("--nproc-per-node=4" in change.text for change in TestDataparallelLegacy().found().change)


def test_without_profiling_counters_memory_alone_tells() -> None:
    """Less sure, as the activity of the GPUs is not known."""
    (finding,) = TestDataparallelLegacy.judge(TestDataparallelLegacy.fires | {"gpu0_sm_ratio": None}).findings

    assert finding.confidence == "medium"
