"""allocator-fragmentation: memory that is reserved and fits nothing."""

from typing import Any, ClassVar

import pytest

from tests.advisor.rules.cases import RuleCases


class TestAllocatorFragmentation(RuleCases):
    """Memory that is reserved and fits nothing."""

    rule = "allocator-fragmentation"
    healthy: ClassVar[dict[str, Any]] = {
        "fragmented_share": 0.03, "alloc_retries_per_100_steps": 0.0, "ooms_24h": 0, "reserved_peak_bytes": 80e9, "alloc_peak_bytes": 75e9,
        "steps_total": 5000,
    }  # fmt: skip
    fires: ClassVar[dict[str, Any]] = {
        "fragmented_share": 0.2, "alloc_retries_per_100_steps": 4.0, "reserved_peak_bytes": 142e9, "alloc_peak_bytes": 112e9,
    }  # fmt: skip
    silent: ClassVar[list[dict[str, Any]]] = [
        {"fragmented_share": 0.1},
        {"alloc_retries_per_100_steps": 0.2},
        {"env_PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"},
        {"env_PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
        {"serves": True},
        {"serving_engine": "vllm"},
        {"steps_total": 100},
    ]
    between: ClassVar[dict[str, Any] | None] = {"fragmented_share": 0.1}
    lacks = ("fragmented_share", "alloc_retries_per_100_steps")


def settings(**readings: Any) -> list[str]:
    """The variables that are proposed, without the last resort."""
    (finding,) = TestAllocatorFragmentation.judge(TestAllocatorFragmentation.fires | readings).findings
    return [change.text for change in finding.change if change.kind == "env" and "max_split_size_mb:256" not in change.text]


def test_it_says_what_is_reserved_and_what_allocated() -> None:
    """A fifth of the card between them."""
    finding = TestAllocatorFragmentation().found()

    assert finding.severity == "warn"
    assert finding.summary.english() == (
        "20% of the card is reserved by the allocator and not usable (132 GiB reserved, 104 GiB allocated at the peak), and 4.0 of 100 steps"
        " had to free the cache and try again."
    )


def test_a_failed_allocation_is_as_good_as_retries() -> None:
    """And is what is said then."""
    (finding,) = TestAllocatorFragmentation.judge(
        TestAllocatorFragmentation.fires | {"alloc_retries_per_100_steps": None, "ooms_24h": 1}
    ).findings

    assert finding.summary.english().endswith("and the job ran out of memory 1 times in 24 hours.")


@pytest.mark.parametrize(
    ("readings", "told"),
    [
        ({"torch_release": 209}, ["PYTORCH_ALLOC_CONF=expandable_segments:True"]),
        ({"torch_release": 208}, ["PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"]),
        ({}, ["PYTORCH_ALLOC_CONF=expandable_segments:True  # torch 2.9 and newer; before: PYTORCH_CUDA_ALLOC_CONF"]),
        (
            {"torch_release": 209, "env_PYTORCH_ALLOC_CONF": "max_split_size_mb:512"},
            ["PYTORCH_ALLOC_CONF=max_split_size_mb:512,expandable_segments:True"],
        ),
        (
            {"torch_release": 208, "env_PYTORCH_CUDA_ALLOC_CONF": "x; rm -rf /"},
            ["PYTORCH_CUDA_ALLOC_CONF='x; rm -rf /',expandable_segments:True"],
        ),
        ({"torch_release": 209, "env_PYTORCH_ALLOC_CONF": "set"}, ["PYTORCH_ALLOC_CONF=expandable_segments:True"]),
        ({"torch_release": 209, "env_PYTORCH_ALLOC_CONF": "expandable_segments:True"}, []),
    ],
)
def test_the_variable_bears_the_releases_name_and_keeps_what_is_set(readings: dict[str, Any], told: list[str]) -> None:
    """PyTorch 2.9 renamed it; a second value is added, not put in its place, and one that is there is not said again."""
    assert settings(**readings) == told
