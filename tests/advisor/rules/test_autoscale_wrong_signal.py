"""autoscale-wrong-signal: an autoscaler on the wrong signal."""

from typing import Any, ClassVar

import pytest
import yaml

from advisor import autoscaling
from tests.advisor.rules.cases import RuleCases


class TestAutoscaleWrongSignal(RuleCases):
    """An autoscaler on the wrong signal."""

    rule = "autoscale-wrong-signal"
    healthy: ClassVar[dict[str, Any]] = {"note_autoscaler_metric": "queue"}
    fires: ClassVar[dict[str, Any]] = {"note_autoscaler_metric": "cpu"}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"note_autoscaler_metric": "kv"},
    ]
    lacks = ("note_autoscaler_metric",)

    @pytest.mark.parametrize("engine", sorted(autoscaling.QUERIES))
    def test_the_change_is_a_manifest_for_the_engine(self, engine: str) -> None:
        """KEDA's, whole, with that engine's own names; no other's."""
        (finding,) = self.judge(self.fires | {"kind": engine}).findings
        (step,) = finding.change
        manifest = yaml.safe_load(step.text)

        assert manifest == yaml.safe_load(autoscaling.scaled_object(engine))
        assert manifest["kind"] == "ScaledObject"

    def test_an_engine_that_nobody_knows_gets_what_holds_for_all(self) -> None:
        """The server's own metric of what waits."""
        (finding,) = self.judge(self.fires | {"kind": "other"}).findings
        (step,) = finding.change

        assert "fettle_engine_requests_waiting" in step.text
