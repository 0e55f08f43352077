"""unpinned-mixed-software: software that differs or may change."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestUnpinnedMixedSoftware(RuleCases):
    """Software that differs or may change."""

    rule = "unpinned-mixed-software"
    healthy: ClassVar[dict[str, Any]] = {"mixed_versions": 1, "driver_versions": 1}
    fires: ClassVar[dict[str, Any]] = {"mixed_versions": 2, "driver_versions": 1}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"mixed_versions": 1},
    ]
    lacks = ("mixed_versions", "note_image")


def test_a_tag_that_moves_is_named() -> None:
    """latest is none; a digest and a release are fine."""
    one = {"mixed_versions": 1, "driver_versions": 1}
    (finding,) = TestUnpinnedMixedSoftware.judge(one | {"note_image": "nvcr.io/nvidia/pytorch:latest"}).findings

    assert "pytorch:latest" in finding.summary.english()
    assert TestUnpinnedMixedSoftware.judge(one | {"note_image": "nvcr.io/nvidia/pytorch:25.09-py3"}).findings == []
    assert (
        TestUnpinnedMixedSoftware.judge(one | {"note_image": "nvcr.io/nvidia/pytorch:latest@sha256:" + 64 * "0"}).findings == []
    )
