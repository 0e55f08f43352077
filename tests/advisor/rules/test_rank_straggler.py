"""rank-straggler: one rank that holds up the others."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestRankStraggler(RuleCases):
    """One rank that holds up the others."""

    rule = "rank-straggler"
    fires: ClassVar[dict[str, Any]] = {
        "gpus": 2,
        "held_gpus": 2,
        "working_gpus": 2,
        "talks": True,
        "least_busy_ratio": 0.5,
        "most_sm_ratio": 1.0,
    }
    silent: ClassVar[list[dict[str, Any]]] = [{"talks": False}, {"working_gpus": 1}, {"least_busy_ratio": 0.95}]
    between: ClassVar[dict[str, Any] | None] = {
        "gpus": 2,
        "held_gpus": 2,
        "working_gpus": 2,
        "talks": True,
        "least_busy_ratio": 0.82,
        "most_sm_ratio": 1.0,
    }
    lacks = ("least_busy_ratio",)
