"""A report of `fettle bench`: what is taken and what is not."""

import json
from typing import Any

import pytest

from wire.bench import MAX_BYTES, BenchError, BenchReport, decode, encode, group

REPORT: dict[str, Any] = {
    "format": 1,
    "node": "n1",
    "at": 1.79e9,
    "seconds": 40.0,
    "protocol": "quick",
    "gpus": [{"uuid": "GPU-1", "index": 0, "model": "NVIDIA H200"}],
    "scores": [
        {
            "name": "matmul_bf16_8192", "gpu": "GPU-1", "value": 7e14, "p5": 6e14, "p95": 8e14, "unit": "flop_per_second", "iterations": 100,
        }
    ],
}  # fmt: skip


def sent(**more: Any) -> bytes:
    """The report with some of it changed."""
    return json.dumps(REPORT | more).encode()


def one_score(**more: Any) -> list[dict[str, Any]]:
    """Its only score, changed."""
    return [REPORT["scores"][0] | more]


def test_a_report_comes_back_as_it_was() -> None:
    """Through JSON and back."""
    report = decode(sent())

    assert isinstance(report, BenchReport)
    assert report.scores[0].value == 7e14
    assert decode(encode(report)) == report


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (sent(node="../etc"), "node"),
        (sent(node=""), "node"),
        (sent(at=-1.0), "at"),
        (sent(at=1e300), "at"),
        (sent(format=2), "format"),
        (sent(protocol="slow"), "protocol"),
        (sent(scores=one_score(value=0)), "value"),
        (sent(scores=one_score(value=-5.0)), "value"),
        (sent(scores=one_score(value=1e19)), "value"),
        (sent(scores=one_score(p5=7.5e14)), "between p5 and p95"),
        (sent(scores=one_score(name="Matmul")), "name"),
        (sent(scores=one_score(name="a" * 61)), "name"),
        (sent(scores=one_score(name="a; drop")), "name"),
        (sent(scores=one_score(unit="furlongs")), "unit"),
        (sent(scores=one_score(gpu="GPU-2")), "not among those of the report"),
        (sent(scores=one_score() * 2), "occurs twice"),
        (sent(scores=[]).replace(b'"seconds": 40.0', b'"seconds": NaN'), "JSON"),
        (sent(scores=[]).replace(b'"seconds": 40.0', b'"seconds": 1e999'), "out of range"),
        (sent(gpus=REPORT["gpus"] * 2), "UUID of its own"),
        (sent(gpus=[REPORT["gpus"][0] | {"uuid": ""}]), "UUID of its own"),
        (sent(gpus=[REPORT["gpus"][0] | {"uuid": f"GPU-{n}", "index": n} for n in range(65)]), "gpus"),
        (sent(versions={"torch": "x" * 101}), "versions"),
        (sent(versions={f"v{n}": "" for n in range(61)}), "versions"),
        (sent(missing=[{"name": "memory_copy", "reason": "x" * 301}]), "reason"),
        (b'{"versions": ' + b"[" * 100_000, "Expected `object`"),
        (b'{"node": ', "JSON"),
        (sent(colour="red"), "there is no field colour - at `\\$`; there are: format, node, at, seconds"),
        (sent(scores=one_score(rate=1)), r"there is no field rate - at `\$\.scores\[.*`; there are: name, gpu, value"),
        (
            sent(gpus=[REPORT["gpus"][0] | {"color": 1}]),
            r"there is no field color - at `\$\.gpus\[.*`; there are: uuid, index, model",
        ),
        (b"[]", "Expected `object`"),
        (b"\xff", "JSON"),
        (b"", "JSON"),
        (b" " * (MAX_BYTES + 1), "larger than 2 MB"),
    ],
)
def test_what_no_report_holds_is_refused_with_where(wrong: bytes, says: str) -> None:
    """Names, sizes and numbers are bounded."""
    with pytest.raises(BenchError, match=says):
        decode(wrong)


def test_a_report_of_the_greatest_size_that_is_taken_is_read() -> None:
    """64 GPUs with 60 scores each are below the bound."""
    gpus = [{"uuid": f"GPU-{n}", "index": n, "model": "NVIDIA H200"} for n in range(64)]
    scores = [one_score(gpu=gpu["uuid"], name=f"matmul_{n}")[0] for gpu in gpus for n in range(60)]

    assert len(decode(sent(gpus=gpus, scores=scores)).scores) == 3840


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("matmul_bf16_8192", "matmul"),
        ("memory_triad", "memory"),
        ("h2d_pinned_16mib", "host"),
        ("peer_copy_256mib", "peer"),
        ("all_reduce_1gib_8gpus", "all_reduce"),
        ("disk_random_read", "disk"),
        ("something_else", ""),
    ],
)
def test_a_name_tells_its_kind(name: str, kind: str) -> None:
    """By its first word."""
    assert group(name) == kind
