"""nccl-socket-fallback: a job over TCP beside an idle InfiniBand."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestNcclSocketFallback(RuleCases):
    """A job over TCP beside an idle InfiniBand."""

    rule = "nccl-socket-fallback"
    healthy: ClassVar[dict[str, Any]] = {"nodes": 2, "ib_share": 0.3}
    fires: ClassVar[dict[str, Any]] = {
        "nodes": 2, "ib_share": 0.0, "ib_ports_active": 8.0, "net_bytes_per_s": 5e9, "share_communication": 0.6,
    }  # fmt: skip
    silent: ClassVar[list[dict[str, Any]]] = [
        {"nodes": 1},
        {"ib_ports_active": 0.0},
        {"ib_share": 0.2},
        {"net_bytes_per_s": 1e6},
        {"env_NCCL_NET_PLUGIN": "aws-ofi"},
        {"env_NCCL_NET": "gIB"},
    ]
    between: ClassVar[dict[str, Any] | None] = {"nodes": 2, "ib_share": 0.02, "net_bytes_per_s": 9e7}
    lacks = ("ib_share",)


def test_a_variable_that_forbids_it_is_named() -> None:
    """The first thing to undo is what the job itself set."""
    (finding,) = TestNcclSocketFallback.judge(TestNcclSocketFallback.fires | {"env_NCCL_IB_DISABLE": "1"}).findings

    assert "forbids InfiniBand" in finding.summary.english()
    assert finding.change[0].text == "unset NCCL_IB_DISABLE NCCL_NET"
    assert "unset" not in " ".join(change.text for change in TestNcclSocketFallback().found().change)
