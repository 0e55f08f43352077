"""thermal-drift-vs-peers: hotter than the neighbours at the same power."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestThermalDriftVsPeers(RuleCases):
    """Hotter than the neighbours at the same power."""

    rule = "thermal-drift-vs-peers"
    fires: ClassVar[dict[str, Any]] = {"warmer_than_peers_c": 14.0, "temperature_c": 78.0}
    silent: ClassVar[list[dict[str, Any]]] = [{"warmer_than_peers_c": 3.0}]
    between: ClassVar[dict[str, Any] | None] = {"warmer_than_peers_c": 8.0}
    lacks = ("warmer_than_peers_c", "sw_thermal_share")
