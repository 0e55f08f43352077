"""A profile's summary, and the features that rules read of it."""

from pathlib import Path
from typing import Any

import pytest

from advisor.kinds import kind
from advisor.profiles.joined import FEATURES, features, summed
from advisor.profiles.profile import read
from tests.advisor.profiles.traces import ALL_REDUCE, CPU_ALONE, GEMM, SCENE, SCENE_METADATA, called, copied, kernel, write
from wire.profile import ProfileReport, decode, encode

AT = 1.796e9


def summary(tmp_path: Path, events: list[Any], **metadata: Any) -> ProfileReport:
    """The summary of a trace with these events."""
    report = summed(read(write(tmp_path / "trace.json", events, **metadata)), "n1", AT, job="n1/alice/python")
    assert report is not None
    return report


def test_each_feature_has_the_value_that_the_trace_has_by_hand(tmp_path: Path) -> None:
    """Of 250 us: idle 140, of it 60 in the DataLoader, 31 launching and 24 in a synchronisation; 40 of communication alone, 20 of
    pageable copies. Of 100 us of kernels: 20 in an fp32 product, 50 in the all-reduce."""
    told = features(summary(tmp_path, SCENE, **SCENE_METADATA))

    assert {name: value for name, value in told.items() if name != "profile_top_kernel"} == pytest.approx(
        {
            "profile_idle_share": 140 / 250, "profile_data_wait_share": 60 / 250, "profile_launch_gap_share": 31 / 250,
            "profile_sync_wait_share": 24 / 250, "profile_exposed_comm_share": 40 / 250, "profile_pageable_share": 20 / 250,
            "profile_tensor_missed_share": 0.2, "profile_fp32_missed_share": 0.2, "profile_half_missed_share": 0.0,
            "profile_kernel_p50_s": 20e-6, "profile_top_kernel_share": 0.5,
        }
    )  # fmt: skip
    assert told["profile_top_kernel"] == ALL_REDUCE


def test_the_summary_keeps_what_a_page_shows(tmp_path: Path) -> None:
    """Whose it is, its steps, its parts, which make up the span, kernels and verdicts; it survives the way to the server."""
    report = summary(tmp_path, SCENE, **SCENE_METADATA)

    assert (report.rank, report.world_size, report.gpus, report.gpu_names) == (3, 8, 1, ("NVIDIA H200",))
    assert report.steps == 2
    assert report.step_p50_s == pytest.approx(150e-6)
    parts = report.compute_s + report.communication_exposed_s + report.copies_exposed_s + report.idle_s
    assert parts == pytest.approx(report.span_s)
    assert [(row.name, row.count) for row in report.top][:2] == [(ALL_REDUCE, 1), (GEMM, 1)]
    assert report.top[1].tensor_cores == "no"
    assert {one.rule: one.verdict for one in report.said}["comm-not-overlapped"] == "supports"
    assert decode(encode(report)) == report


def test_features_have_the_types_that_rules_expect(tmp_path: Path) -> None:
    """A name is text, all else a number."""
    told = features(summary(tmp_path, SCENE))

    assert told.keys() == FEATURES.keys()
    for name, made in FEATURES.items():
        assert isinstance(told[name], made)
        assert kind(name).to_python() is made


def test_what_the_profile_does_not_tell_is_absent(tmp_path: Path) -> None:
    """No DataLoader, no launch, no copy whose kinds are known: nothing is zero for it."""
    told = features(summary(tmp_path, [kernel("mystery_kernel", 0, 10), copied("Memcpy HtoD (Host -> Device)", 20, 30, 1)]))

    for name in ("profile_data_wait_share", "profile_launch_gap_share", "profile_sync_wait_share", "profile_pageable_share"):
        assert told[name] is None, name
    assert told["profile_idle_share"] == pytest.approx(10 / 30)


def test_half_of_a_trace_says_nothing_of_idle_times(tmp_path: Path) -> None:
    """What was found in it stands: pageable copies and products off the tensor cores; small shares of them say nothing."""
    whole = write(tmp_path / "whole.json", SCENE)
    torn = tmp_path / "torn.json"
    torn.write_text(whole.read_text()[:-20])
    report = summed(read(torn), "n1", AT, job="n1/a/b")
    assert report is not None
    told = features(report)

    assert not report.complete
    for name in ("profile_idle_share", "profile_launch_gap_share", "profile_exposed_comm_share", "profile_top_kernel_share"):
        assert told[name] is None, name
    assert told["profile_pageable_share"] == pytest.approx(0.08)
    assert told["profile_fp32_missed_share"] == pytest.approx(0.2)
    assert told["profile_half_missed_share"] is None


def test_kernels_that_do_not_tell_leave_the_tensor_cores_open(tmp_path: Path) -> None:
    """Compilers write no instruction into names: with half of the time in such products nobody knows how many missed."""
    told = features(summary(tmp_path, [kernel("triton_mm_kernel_gemm", 0, 50), kernel("add", 50, 100)]))

    assert told["profile_tensor_missed_share"] is None


def test_many_kernels_of_any_name_stay_a_small_summary(tmp_path: Path) -> None:
    """Twenty of them, cut and printable, whatever a program calls them: the server reads at most 64 kB."""
    names = [f"{index}\x1b[2J\u202e" + "x" * 5000 for index in range(300)]
    report = summary(tmp_path, [kernel(name, 10 * index, 10 * index + 5) for index, name in enumerate(names)])

    assert len(report.top) == 20
    assert all(row.name.isprintable() and len(row.name) <= 300 for row in report.top)
    assert len(encode(report)) < 12_000
    assert decode(encode(report)) == report
    assert len(str(features(report)["profile_top_kernel"])) == 80


def test_gpus_are_summed(tmp_path: Path) -> None:
    """Two that were busy for 10 of 20 us, and for 20 of 20."""
    events = [kernel(GEMM, 0, 5), kernel(GEMM, 15, 20), kernel(GEMM, 0, 20, device=1, stream=8)]
    report = summary(tmp_path, [*events, called("cudaLaunchKernel", 0, 1, 9)])

    assert report.gpus == 2
    assert (report.span_s, report.idle_s) == pytest.approx((40e-6, 10e-6))
    assert [(row.count, row.share) for row in report.top] == [(3, 1.0)]


def test_a_trace_of_the_cpu_alone_has_no_summary(tmp_path: Path) -> None:
    """It says nothing of a job's GPUs."""
    assert summed(read(write(tmp_path / "trace.json", CPU_ALONE)), "n1", AT) is None
