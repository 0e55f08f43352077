"""container-shm-small: shared memory that is too small."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestContainerShmSmall(RuleCases):
    """Shared memory that is too small."""

    rule = "container-shm-small"
    healthy: ClassVar[dict[str, Any]] = {}
    fires: ClassVar[dict[str, Any]] = {"shm_size_bytes": 67108864, "shm_used_share": 0.5, "dataloader_workers": 8.0}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"shm_size_bytes": 16000000000.0, "shm_used_share": 0.1},
        {"dataloader_workers": 0.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {"shm_used_share": 0.7}
    lacks = ("shm_size_bytes", "note_log_error")


def test_a_large_one_that_is_full_is_too_small_as_well() -> None:
    """Nine tenths of 16 GiB used."""
    (finding,) = TestContainerShmSmall.judge(
        {"shm_size_bytes": 17179869184, "shm_used_share": 0.9, "dataloader_workers": 8.0}
    ).findings

    assert "16.00 GiB, of which 90%" in finding.summary.english()


def test_the_change_is_in_the_words_of_what_runs_the_container() -> None:
    """A volume in Kubernetes, a flag for Docker."""
    (in_pod,) = TestContainerShmSmall.judge(TestContainerShmSmall.fires | {"scheduler": "kubernetes"}).findings

    assert "emptyDir" in in_pod.change[0].text
    assert "--shm-size" in TestContainerShmSmall().found().change[0].text
