"""background-job-latency-spikes: spikes beside programs in the background."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestBackgroundJobLatencySpikes(RuleCases):
    """Spikes beside programs in the background."""

    rule = "background-job-latency-spikes"
    healthy: ClassVar[dict[str, Any]] = {"latency_spikes": 0, "spikes_with_noise_share": 0.0}
    fires: ClassVar[dict[str, Any]] = {"latency_spikes": 24, "spikes_with_noise_share": 0.8}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"latency_spikes": 2},
        {"spikes_with_noise_share": 0.2},
        {"hw_slowdown_share": 0.2},
    ]
    between: ClassVar[dict[str, Any] | None] = {"latency_spikes": 4, "spikes_with_noise_share": 0.5}
    lacks = ("latency_spikes",)
