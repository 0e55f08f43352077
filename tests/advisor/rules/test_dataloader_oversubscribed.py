"""dataloader-oversubscribed: more loader processes than cores."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestDataloaderOversubscribed(RuleCases):
    """More loader processes than cores."""

    rule = "dataloader-oversubscribed"
    fires: ClassVar[dict[str, Any]] = {"cpu_busy_cores": 31.0, "children": 64.0, "children_cores": 28.0}
    silent: ClassVar[list[dict[str, Any]]] = [{"cpu_busy_cores": 10.0}, {"children": 16.0}, {"children_cores": 1.0}]
    between: ClassVar[dict[str, Any] | None] = {"cpu_busy_cores": 27.0, "children": 64.0, "children_cores": 28.0}
    lacks = ("children",)

    def test_workers_without_end_speak_where_the_gpu_waits_although_cores_are_free(self) -> None:
        """64 on 32 cores of an H200 machine, a third of the cores free: half of them were 1.10 to 1.18 times as fast; as many as cores are fine."""
        waiting = {"cpu_busy_cores": 21.4, "children": 64.0, "children_cores": 19.1, "share_data": 0.77, "psi_cpu_some_pct": 0.7}

        assert len(self.judge(waiting).findings) == 1
        assert self.judge(waiting | {"share_data": 0.1}).findings == []
        assert self.judge(waiting | {"children": 31.0}).findings == []
