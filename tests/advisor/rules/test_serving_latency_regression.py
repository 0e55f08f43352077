"""serving-latency-regression: a service that is slower than it was."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestServingLatencyRegression(RuleCases):
    """A service that is slower than it was."""

    rule = "serving-latency-regression"
    healthy: ClassVar[dict[str, Any]] = {"e2e_s": 6.0, "base_e2e_s": 6.0, "base_mad_s": 0.2, "load_ratio": 1.0, "base_days": 7.0}
    fires: ClassVar[dict[str, Any]] = {"e2e_s": 9.0, "base_e2e_s": 6.0, "base_mad_s": 0.2, "load_ratio": 1.0, "base_days": 7.0}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"e2e_s": 6.2},
        {"load_ratio": 1.5},
        {"base_mad_s": 2.0},
        {"base_days": 0.5},
        {"base_tokens_per_request": 200.0},
        {"age_s": 60.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {
        "e2e_s": 6.9,
        "base_e2e_s": 6.0,
        "base_mad_s": 0.2,
        "load_ratio": 1.0,
        "base_days": 7.0,
    }
    lacks = ("base_e2e_s",)
