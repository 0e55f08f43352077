"""node-network-undersized: a line that is full."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestNodeNetworkUndersized(RuleCases):
    """A line that is full."""

    rule = "node-network-undersized"
    healthy: ClassVar[dict[str, Any]] = {"nodes": 2}
    fires: ClassVar[dict[str, Any]] = {"nodes": 2, "net_share": 0.9, "link_share": 0.9, "share_communication": 0.5}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"nodes": 1},
        {"net_share": 0.3},
        {"share_communication": 0.1},
    ]
    between: ClassVar[dict[str, Any] | None] = {"nodes": 2, "net_share": 0.7, "link_share": 0.7, "share_communication": 0.5}
    lacks = ("nodes",)


def test_the_library_of_the_job_says_how_to_send_less() -> None:
    """A mesh for FSDP, compressed gradients for replicas."""
    fsdp = TestNodeNetworkUndersized.judge(TestNodeNetworkUndersized.fires | {"sharding": "fsdp"}).findings[0]

    assert any("init_device_mesh" in change.text for change in fsdp.change)
    assert any("bf16_compress_hook" in change.text for change in TestNodeNetworkUndersized().found().change)
