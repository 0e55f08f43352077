"""p2p-disabled: GPUs that reach each other through the host."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestP2pDisabled(RuleCases):
    """GPUs that reach each other through the host."""

    rule = "p2p-disabled"
    healthy: ClassVar[dict[str, Any]] = {"working_gpus": 2, "labels_known": True, "nvlink_share": 0.3}
    fires: ClassVar[dict[str, Any]] = {
        "working_gpus": 2, "labels_known": True, "nvlink_share": 0.0, "pcie_share": 0.5, "env_NCCL_P2P_DISABLE": "1", "share_communication": 0.5,
    }  # fmt: skip
    silent: ClassVar[list[dict[str, Any]]] = [
        {"env_NCCL_P2P_DISABLE": "0"},
        {"env_NCCL_P2P_DISABLE": None},
        {"working_gpus": 1},
        {"mig": True},
        {"gpu_model": "NVIDIA GeForce RTX 4090"},
    ]
    lacks = ("working_gpus", "has_nvlink")


def test_traffic_tells_where_no_word_is_known() -> None:
    """NVLink lies idle while PCIe carries half of what it can, as much up as down."""
    seen = {"labels_known": None, "env_NCCL_P2P_DISABLE": None, "ranks_talk_over_pcie": True}
    (finding,) = TestP2pDisabled.judge(TestP2pDisabled.fires | seen).findings

    assert finding.confidence == "medium"
    assert "carries 0.0%" in finding.summary.english()
    assert TestP2pDisabled.judge(TestP2pDisabled.fires | seen | {"pcie_share": 0.1}).findings == []


def test_a_level_that_forbids_peers_is_the_same() -> None:
    """NCCL_P2P_LEVEL=LOC never uses peer-to-peer."""
    readings = TestP2pDisabled.fires | {"env_NCCL_P2P_DISABLE": None, "env_NCCL_P2P_LEVEL": "loc"}

    assert "unset NCCL_P2P_DISABLE NCCL_P2P_LEVEL" in TestP2pDisabled.judge(readings).findings[0].change[0].text
