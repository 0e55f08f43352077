"""What runs of one program have in common."""

import pytest

from advisor.job_family import job_family


@pytest.mark.parametrize(
    ("job", "family"),
    [
        ("gpu-12/ann/train.py", "ann/train.py"),
        ("gpu-12/ann/train-20261130-0702.py", "ann/train.py"),
        ("gpu-7/ann/train_2026-11-30T07:02:11.py", "ann/train.py"),
        ("gpu-7/ann/train_run17.py", "ann/train.py"),
        ("gpu-7/ann/run_0042_train.py", "ann/train.py"),
        ("gpu-7/ann/train-81234.py", "ann/train.py"),
        ("n/bob/sweep-seed=3", "bob/sweep"),
        ("n/bob/ft-8f3a9c1", "bob/ft"),
        ("n/bob/ft-123e4567-e89b-12d3-a456-426614174000", "bob/ft"),
        ("n/bob/array[7]", "bob/array"),
        ("n/bob/job_81234.sh", "bob/job.sh"),
        # numbers that belong to the name
        ("n/bob/resnet-50", "bob/resnet-50"),
        ("n/bob/llama-3-405b", "bob/llama-3-405b"),
        ("n/bob/vit-1024", "bob/vit-1024"),
        ("n/bob/python3.11", "bob/python3.11"),
        ("n/bob/VLLM::EngineCore", "bob/VLLM::EngineCore"),
        ("n/bob/deadbeef", "bob/deadbeef"),
        # nothing would be left
        ("n/bob/12345", "bob/12345"),
        ("n/?/?", "?/?"),
        ("n/bob/...", "bob/..."),
        # no node
        ("fp32_train", "fp32_train"),
    ],
)
def test_a_family_is_the_program_without_its_node_and_its_run(job: str, family: str) -> None:
    """What tells one run from the next falls away, and the family of a family is itself."""
    assert job_family(job) == family
    assert job_family(f"n/{family}") == family


def test_a_node_whose_name_holds_a_slash_is_known_by_its_name() -> None:
    """Else the first slash ends it."""
    assert job_family("rack-1/gpu-2/ann/train-01.py", "rack-1/gpu-2") == "ann/train.py"
    assert job_family("rack-1/gpu-2/ann/train.py") == "gpu-2/ann/train.py"
