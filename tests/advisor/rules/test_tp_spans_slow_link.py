"""tp-spans-slow-link: tensors split over a slow link."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestTpSpansSlowLink(RuleCases):
    """Tensors split over a slow link."""

    rule = "tp-spans-slow-link"
    healthy: ClassVar[dict[str, Any]] = {"gpus": 16, "tp": 8.0, "nodes": 2, "ranks_on_node": 8}
    fires: ClassVar[dict[str, Any]] = {"gpus": 16, "tp": 16.0, "nodes": 2, "ranks_on_node": 8, "share_communication": 0.5}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"tp": 8.0},
        {"share_communication": 0.1},
        {"gpu_model": "NVIDIA GB200"},
    ]
    between: ClassVar[dict[str, Any] | None] = {
        "gpus": 16,
        "tp": 16.0,
        "nodes": 2,
        "ranks_on_node": 8,
        "share_communication": 0.2,
    }
    lacks = ("tp",)


def test_a_pair_without_nvlink_is_a_slow_link_too() -> None:
    """Two GPUs of one node over PCIe."""
    readings = {"gpus": 2, "tp": 2.0, "nodes": 1, "ranks_on_node": 2, "has_nvlink": False, "share_communication": 0.4}

    assert [finding.rule for finding in TestTpSpansSlowLink.judge(readings).findings] == ["tp-spans-slow-link"]


def test_flags_are_those_of_the_engine() -> None:
    """vLLM's names for vLLM, Megatron's for Megatron."""
    (finding,) = TestTpSpansSlowLink.judge(TestTpSpansSlowLink.fires | {"serving_engine": "vllm"}).findings

    assert "--tensor-parallel-size 8 --pipeline-parallel-size 2" in [change.text for change in finding.change]
    assert not any("--tensor-model-parallel-size" in change.text for change in finding.change)
