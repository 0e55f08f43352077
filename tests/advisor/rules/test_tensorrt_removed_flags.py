"""tensorrt-removed-flags: flags that TensorRT 11 removed."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestTensorrtRemovedFlags(RuleCases):
    """Flags that TensorRT 11 removed."""

    rule = "tensorrt-removed-flags"
    healthy: ClassVar[dict[str, Any]] = {"note_tensorrt_version": "10.9", "note_tensorrt_flags": "--onnx=m.onnx"}
    fires: ClassVar[dict[str, Any]] = {"note_tensorrt_version": "11.0", "note_tensorrt_flags": "--fp16 --calib=cache"}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"note_tensorrt_version": "8.6"},
        {"note_tensorrt_flags": "--onnx=m.onnx"},
    ]
    lacks = ("note_tensorrt_flags",)


def test_it_weighs_more_once_the_release_is_there() -> None:
    """Advice before the upgrade, a warning after it."""
    assert TestTensorrtRemovedFlags().found().severity == "warn"
    assert (
        TestTensorrtRemovedFlags.judge(TestTensorrtRemovedFlags.fires | {"note_tensorrt_version": "10.9"}).findings[0].severity
        == "advice"
    )
