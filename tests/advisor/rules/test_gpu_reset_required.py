"""gpu-reset-required: the driver asks for recovery."""

from typing import Any, ClassVar

import pytest

from tests.advisor.rules.cases import RuleCases


class TestGpuResetRequired(RuleCases):
    """The driver asks for recovery."""

    rule = "gpu-reset-required"
    fires: ClassVar[dict[str, Any]] = {"recovery_action": 1.0}
    silent: ClassVar[list[dict[str, Any]]] = [{"note_maintenance": True}, {"recovery_action": 0.0}]
    lacks = ("recovery_action",)


@pytest.mark.parametrize(
    ("action", "asked", "not_asked"),
    [
        (1.0, "nvidia-smi -i", "reboot"), (2.0, "systemctl reboot", "nvidia-smi -i"), (3.0, "Recovery Action", "reboot"),
        (4.0, "nvidia-smi -i", "reboot"), (5.0, "nvidia-imex", "reboot"), (7.0, "systemctl reboot", "nvidia-smi -i"),
    ],
)  # fmt: skip
def test_the_requested_action_alone_is_advised(action: float, asked: str, not_asked: str) -> None:
    """A reset does not help where the driver asks for a reboot, and a reboot is dear where a reset does."""
    (finding,) = TestGpuResetRequired.judge({"recovery_action": action}).findings
    steps = "\n".join(step.text for step in finding.change)

    assert asked in steps
    assert not_asked not in steps
