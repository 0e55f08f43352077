"""The summary of a profile on its way to the server."""

import json
from typing import Any

import pytest

from wire.profile import MAX_BYTES, ProfileError, decode

GOOD: dict[str, Any] = {
    "node": "n1", "job": "n1/alice/python", "at": 1.79e9, "kind": "kineto", "complete": True, "events": 10, "gpus": 1, "span_s": 1.0,
    "compute_s": 0.4, "communication_s": 0.2, "communication_exposed_s": 0.1, "copies_exposed_s": 0.0, "idle_s": 0.5, "kernels": 5,
    "kernel_total_s": 0.5,
}  # fmt: skip


def sent(**more: Any) -> bytes:
    """A report's JSON."""
    return json.dumps(GOOD | more).encode()


def test_a_report_that_fits_is_read() -> None:
    """What is left out is not told, not zero."""
    report = decode(sent())

    assert (report.job, report.pid, report.idle_launching_s, report.pageable_s) == ("n1/alice/python", None, None, None)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"job": ""}, "neither a job nor a process"),
        ({"job": "n2/alice/python"}, "begins with its node's name"),
        ({"job": "n1"}, "begins with its node's name"),
        ({"node": "../etc"}, "$.node"),
        ({"pid": 0}, "$.pid"),
        ({"pid": 1 << 40}, "$.pid"),
        ({"span_s": 0}, "$.span_s"),
        ({"span_s": 1e30}, "$.span_s"),
        ({"idle_s": -1}, "$.idle_s"),
        ({"idle_s": 1.1}, "longer than the whole"),
        ({"idle_launching_s": 2.0}, "longer than the whole"),
        ({"missed_s": 0.6}, "longer than the whole"),
        ({"missed_s": 0.1, "missed_fp32_s": 0.2}, "longer than the whole"),
        ({"gpus": 0}, "$.gpus"),
        ({"kind": "rocprof"}, "$.kind"),
        ({"format": 2}, "$.format"),
        ({"events": "many"}, "$.events"),
        ({"top": [{"name": "k", "count": 0, "total_s": 0.1, "share": 0.2}]}, "$.top[0].count"),
        ({"top": [{"name": "k", "count": 1, "total_s": 0.1, "share": 2}]}, "$.top[0].share"),
        ({"top": [{"name": "k" * 301, "count": 1, "total_s": 0.1, "share": 0.2}]}, "$.top[0].name"),
        ({"top": [{"name": "k", "count": 1, "total_s": 0.1, "share": 0.2}] * 21}, "$.top"),
        ({"said": [{"rule": "<script>", "verdict": "supports"}]}, "$.said[0].rule"),
        ({"said": [{"rule": "low-mfu", "verdict": "yes"}]}, "$.said[0].verdict"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(more: dict[str, Any], says: str) -> None:
    """One sentence that names it."""
    with pytest.raises(ProfileError) as caught:
        decode(sent(**more))

    assert says in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 50_000, b"\xff", b"null", b'{"span_s": NaN}', b'{"span_s": 1e999}'])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    """Whatever it is."""
    with pytest.raises(ProfileError):
        decode(body)


def test_a_trace_in_place_of_its_summary_is_refused_by_its_size() -> None:
    """It says what to send."""
    with pytest.raises(ProfileError, match="not the trace"):
        decode(b" " * (MAX_BYTES + 1))
