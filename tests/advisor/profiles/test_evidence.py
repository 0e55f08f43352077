"""What a profile says of each rule: for, against, and that it cannot tell."""

import importlib
from pathlib import Path

import pytest

from advisor.profiles import evidence
from advisor.profiles.profile import read
from advisor.rule import load
from tests.advisor.profiles import traces
from tests.advisor.profiles.traces import SCENE, called, copied, kernel, marked, operator, write


def verdicts(tmp_path: Path, events: list[traces.Event]) -> dict[str, tuple[str, str]]:
    """Verdict and text by rule."""
    return {one.rule: (one.verdict, one.text.english()) for one in read(write(tmp_path / "trace.json", events)).evidence}


def launched(count: int, kernel_us: float, every_us: float) -> list[traces.Event]:
    """Kernels that are launched one by one, each in an operator that ends as its launch does."""
    out = []
    for index in range(count):
        at = index * every_us
        out += [
            operator("aten::add", at, at + every_us - kernel_us),
            called("cudaLaunchKernel", at + 1, at + every_us - kernel_us, index + 1),
        ]
        out.append(kernel(traces.ADD, at + every_us - kernel_us, at + every_us, index + 1))
    return out


def test_every_verdict_is_of_a_rule_that_exists(tmp_path: Path) -> None:
    """A rule that is renamed takes its evidence with it."""
    assert set(verdicts(tmp_path, SCENE)) <= {rule.id for rule in load()}
    assert importlib.import_module("advisor.rules.launch_bound_small_kernels").RULE.id in verdicts(tmp_path, SCENE)


def test_small_kernels_that_wait_for_their_launch_support_the_launch_rule(tmp_path: Path) -> None:
    """Idle four fifths of the time while the host launched kernels of 4 us."""
    verdict, text = verdicts(tmp_path, launched(50, 4, 20))["launch-bound-small-kernels"]

    assert verdict == "supports"
    assert "idle for 79.7% of the time" in text
    assert "of 50 kernels (median 4.0 us), 49 were launched when nothing was queued" in text


def test_without_correlations_nobody_is_charged(tmp_path: Path) -> None:
    """Idle time needs a thread to be charged to: without any link between the two it stays unknown."""
    events = [one | {"args": {}} if one["cat"] != "kernel" else one for one in launched(50, 4, 20)]

    assert verdicts(tmp_path, events)["launch-bound-small-kernels"][0] == "cannot tell"


def test_large_kernels_do_not(tmp_path: Path) -> None:
    """A host that is slow between kernels of 200 us has another trouble; one that is ahead has none."""
    assert verdicts(tmp_path, launched(20, 200, 300))["launch-bound-small-kernels"][0] == "cannot tell"
    assert verdicts(tmp_path, launched(20, 299, 300))["launch-bound-small-kernels"][0] == "speaks against"


def test_the_host_must_be_in_the_profile(tmp_path: Path) -> None:
    """Kernels alone do not tell why the GPU was idle."""
    said = verdicts(tmp_path, [kernel(traces.ADD, 0, 1), kernel(traces.ADD, 50, 51)])

    assert said["launch-bound-small-kernels"][0] == said["dataloader-too-few-workers"][0] == "cannot tell"


@pytest.mark.parametrize(("until", "verdict"), [(200, "supports"), (104, "speaks against")])
def test_communication_counts_where_no_compute_runs_beside_it(tmp_path: Path, until: float, verdict: str) -> None:
    """Half of the time exposed supports the rule, 4 % does not."""
    events = [kernel(traces.ADD, 0, 100), kernel(traces.ALL_REDUCE, 20, until, stream=20)]

    assert verdicts(tmp_path, events)["comm-not-overlapped"][0] == verdict
    assert "No communication kernel" in verdicts(tmp_path, events[:1])["comm-not-overlapped"][1]


@pytest.mark.parametrize(
    ("name", "ends", "verdict"),
    [
        ("Memcpy HtoD (Pageable -> Device)", 120, "supports"),
        ("Memcpy HtoD (Pageable -> Device)", 100.5, "speaks against"),
        ("Memcpy HtoD (Pinned -> Device)", 120, "speaks against"),
        ("Memcpy HtoD (Host -> Device)", 120, "cannot tell"),
        ("Memcpy DtoH (Device -> Pageable)", 120, "speaks against"),
    ],
)
def test_copies_to_the_gpu_count_by_the_memory_they_come_from(tmp_path: Path, name: str, ends: float, verdict: str) -> None:
    """Pageable supports the rule where it takes time; pinned speaks against; "host" tells nothing."""
    assert verdicts(tmp_path, [kernel(traces.ADD, 0, 100), copied(name, 100, ends, 1)])["h2d-unpinned-copy"][0] == verdict


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("ampere_sgemm_128x64_tn", "supports"),
        ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "speaks against"),
        ("ampere_dgemm_64x64_nn", "speaks against"),
        ("triton_tem_fused_mm_relu_0", "cannot tell"),
        (traces.ADD, "speaks against"),
    ],
)
def test_matrix_kernels_count_by_what_their_names_tell(tmp_path: Path, name: str, verdict: str) -> None:
    """fp32 off the tensor cores supports the rule; a double product is meant as one; a compiled kernel does not tell."""
    assert verdicts(tmp_path, [kernel(name, 0, 50), kernel(traces.ADD, 50, 100)])["fp32-without-tensor-cores"][0] == verdict


@pytest.mark.parametrize(("until", "verdict"), [(80, "supports"), (13, "speaks against")])
def test_waits_for_the_loader_count_while_the_gpu_is_idle(tmp_path: Path, until: float, verdict: str) -> None:
    """Two thirds of the time waiting for a batch supports the rule."""
    events = [
        called("cudaLaunchKernel", 0, 5, 1),
        kernel(traces.ADD, 5, 10, 1),
        marked(traces.LOADER, 10, until),
        called("cudaLaunchKernel", 85, 90, 2),
        kernel(traces.ADD, 90, 100, 2),
    ]

    assert verdicts(tmp_path, events)["dataloader-too-few-workers"][0] == verdict


def test_of_a_part_only_what_was_found_stands(tmp_path: Path) -> None:
    """Kernels that are missing would have made the GPU busy; an fp32 product and a pageable copy that are there are there."""
    path = write(tmp_path / "trace.json", [*SCENE, SCENE[0]])
    path.write_bytes(path.read_bytes()[:-20])
    said = {one.rule: one.verdict for one in read(path).evidence}

    assert said.pop("h2d-unpinned-copy") == said.pop("fp32-without-tensor-cores") == "supports"
    assert set(said.values()) == {"cannot tell"}


def test_numbers_come_with_every_verdict(tmp_path: Path) -> None:
    """Programs read shares as ratios under fixed names; a share is never above one."""
    for one in read(write(tmp_path / "trace.json", SCENE)).evidence:
        assert 0 <= (one.numbers["share"] or 0) <= 1
        assert "?" not in one.text.english()
    assert evidence.evidence((), None, True)[0].numbers == {}


def test_a_profile_of_one_instant_cannot_tell(tmp_path: Path) -> None:
    """Kernels of no length have no shares."""
    said = verdicts(tmp_path, [kernel(traces.ADD, 5, 5)])

    assert {verdict for verdict, _text in said.values()} == {"cannot tell"}
