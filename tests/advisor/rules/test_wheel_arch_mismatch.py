"""wheel-arch-mismatch: a build without code for the GPU."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestWheelArchMismatch(RuleCases):
    """A build without code for the GPU."""

    rule = "wheel-arch-mismatch"
    healthy: ClassVar[dict[str, Any]] = {"torch": "2.14.1+cu130", "arch_missing": False, "torch_is_cpu": False}
    fires: ClassVar[dict[str, Any]] = {
        "torch": "2.14.1+cu130",
        "arch_missing": True,
        "compute_capability": "7.0",
        "sm": 70,
        "gpu_model": "Tesla V100-SXM2-32GB",
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"arch_missing": False},
    ]
    lacks = ("torch", "torch_is_cpu", "note_log_error")


def test_a_build_for_the_processor_is_one_too() -> None:
    """+cpu: the GPUs are held and not used."""
    (finding,) = TestWheelArchMismatch.judge({"torch": "2.9.0+cpu", "torch_is_cpu": True, "sm": 90}).findings

    assert "processor alone" in finding.summary.english()
    assert finding.change[0].text.startswith("pip install torch  #")


def test_the_wheel_fits_the_card() -> None:
    """T9.4 and T9.5: Volta has its last build in cu126, Blackwell needs cu128."""
    volta = TestWheelArchMismatch().found()
    blackwell = TestWheelArchMismatch.judge(
        TestWheelArchMismatch.fires | {"sm": 100, "compute_capability": "10.0", "gpu_model": "NVIDIA B200"}
    ).findings[0]

    assert "cu126" in volta.change[0].text
    assert "cu128" in blackwell.change[0].text
