"""nccl-env-pinned: tuning variables that were left behind."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestNcclEnvPinned(RuleCases):
    """Tuning variables that were left behind."""

    rule = "nccl-env-pinned"
    healthy: ClassVar[dict[str, Any]] = {"working_gpus": 8, "labels_known": True}
    fires: ClassVar[dict[str, Any]] = {"working_gpus": 8, "labels_known": True, "env_pinned": "NCCL_ALGO, NCCL_PROTO"}
    silent: ClassVar[list[dict[str, Any]]] = [{"env_pinned": None}, {"working_gpus": 1}]
    lacks = ("labels_known",)


def test_it_weighs_more_where_communication_is_the_trouble() -> None:
    """Information while the job scales, a warning where it waits for the network."""
    assert TestNcclEnvPinned().found().severity == "info"
    assert TestNcclEnvPinned.judge(TestNcclEnvPinned.fires | {"share_communication": 0.3}).findings[0].severity == "warn"


def test_a_level_by_its_number_is_written_by_its_name() -> None:
    """The numbers' meaning changed between releases."""
    (finding,) = TestNcclEnvPinned.judge(TestNcclEnvPinned.fires | {"env_NCCL_NET_GDR_LEVEL": "4"}).findings

    assert any("NCCL_NET_GDR_LEVEL=PXB" in change.text for change in finding.change)
