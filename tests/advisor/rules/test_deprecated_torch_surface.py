"""deprecated-torch-surface: names that are given up."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestDeprecatedTorchSurface(RuleCases):
    """Names that are given up."""

    rule = "deprecated-torch-surface"
    healthy: ClassVar[dict[str, Any]] = {"labels_known": True, "torch": "2.14.1"}
    fires: ClassVar[dict[str, Any]] = {
        "labels_known": True,
        "torch": "2.14.1",
        "env_deprecated": "PYTORCH_CUDA_ALLOC_CONF",
        "env_PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"env_deprecated": None},
    ]
    lacks = ("labels_known", "note_log_error")


def test_the_value_goes_with_the_new_name() -> None:
    """Nothing has to be looked up to change it, and nothing is said of names that are not set."""
    texts = [change.text for change in TestDeprecatedTorchSurface().found().change]

    assert texts == ["PYTORCH_ALLOC_CONF=expandable_segments:True  # instead of PYTORCH_CUDA_ALLOC_CONF"]
