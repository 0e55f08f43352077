"""`fettle job`: the report as text, and what it says where it has none."""

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main
from cli.job_text import lines
from tests.serving import free_port

JOB: dict[str, Any] = {
    "id": 3, "cluster": "lab", "job_id": "4714", "target": "lab/4714", "state": "failed", "started_at": "2026-11-30T12:00:03Z",
    "ended_at": "2026-11-30T14:13:10.250000Z", "exit_code": 137, "name": "train", "user": "ada", "account": "vision", "partition": "gpu",
    "gpus_total": 3, "labels": {"slurm_id": "4711_3"},
    "allocations": [
        {"node_name": "gpu02", "device": "GPU-1", "gpu_index": 2, "shared": False},
        {"node_name": "gpu01", "device": "0", "gpu_index": None, "shared": True},
        {"node_name": "gpu02", "device": "3", "gpu_index": 3, "shared": False},
    ],
}  # fmt: skip
FINDING: dict[str, Any] = {
    "rule": "dataloader-too-few-workers", "severity": "warn", "confidence": "high", "bottleneck": "data", "resolved_at": None,
    "gpu_hours_a_day": 12.34, "cost_a_day": 24.68, "currency": "EUR",
    "says": {
        "title": "The GPU waits for input", "summary": "Workers are busy.", "evidence": [],
        "change": [{"kind": "diff", "text": "- num_workers=2\n+ num_workers=12"}],
        "expected_gain": {"low": 1.3, "high": 2.0, "basis": "Measured."}, "risk": "More memory.", "rollback": "Set it back.", "verify": "",
        "sources": [],
    },
}  # fmt: skip
REPORT: dict[str, Any] = {
    "job": JOB, "bottleneck": "data", "confidence": "high", "shares": {"data": 0.61, "compute": 0.3, "idle": 0.001},
    "gpu_hours": 6.655, "idle_gpu_hours": 2.5, "cost": 13.31, "currency": "EUR", "energy_j": 7.2e6, "mfu": 0.31, "coverage": 0.98,
    "quantiles": {"sm_active": {"p5": 0.01, "p25": 0.2, "p50": 0.42, "p75": 0.7, "p95": 0.9}, "step_time_s": {"p50": 0.4125}},
    "shared_gpu_hours": 1.5, "telemetry_aged_out": True, "absent": {"cost": "the site told no price"},
    "ranks": {
        "by": "step_time_s", "ranks": 2, "p50": 0.6, "low": 0.41, "high": 0.82, "ratio": 2.0,
        "rows": [{"gpu": 5, "node": "gpu02", "index": 3, "step_time_s": 0.82, "busy": 0.4}],
    },
    "events": [{"at": "2026-11-30T14:13:09Z", "text": "XID 79"}],
    "findings": [FINDING],
}  # fmt: skip


def test_a_whole_report_is_printed_as_a_person_reads_it() -> None:
    """What it held, used and lost, its bottleneck with shares, events, and the change."""
    assert (
        "\n".join(lines(REPORT, 2, 2))
        == """\
Job lab/4714 (4711_3), run 2 of 2: train, ada, vision, gpu
State:   failed (exit code 137)
Ran:     2 h 13 min, from 2026-11-30 12:00:03 UTC to 2026-11-30 14:13:10 UTC
GPUs:    3 (gpu01: 0 (shared); gpu02: 2, 3)
Shared:  1.50 GPU-hours with other jobs, in no other figure
Used:    6.66 GPU-hours, 2.50 of them idle, 13.31 EUR
Energy:  2.00 kWh
MFU:     31% of the cards' peak
Watched: 98% of its GPU time has readings
         Its readings have aged out; this is what was kept.
  sm active      p5 1%, p50 42%, p95 90%
  step time      p50 0.412 s
Ranks:   2, step time 0.41 s to 0.82 s, 2.00 times
         slowest: gpu02 GPU 3

Bottleneck: data (high confidence)
  data               61%  ##################
  compute            30%  #########

Events:
  2026-11-30 14:13:09 UTC  XID 79

Not told:
  cost: the site told no price

1. [warn] The GPU waits for input (dataloader-too-few-workers, high confidence)
   Workers are busy.
   Costs: 12.3 GPU-hours a day, 24.68 EUR a day, while it runs
   Change:
     diff:    - num_workers=2
              + num_workers=12
   Gain: 1.3 to 2 times the speed. Measured.
   Risk: More memory.
   Roll back: Set it back."""
    )


def test_of_a_large_job_the_first_devices_are_named_and_the_others_counted() -> None:
    """The server sends no more of them."""
    job = JOB | {"gpus_total": None, "allocations_total": 8000, "nodes_total": 1000}

    assert "GPUs:    8000 (gpu01: 0 (shared); gpu02: 2, 3; and 7997 more, 1000 nodes in all)" in lines({"job": job}, 1, 1)


def test_what_was_not_measured_is_not_printed() -> None:
    """No line stands for 0 that nobody measured; the bottleneck is then what the first finding blames, or not judged."""
    bare: dict[str, Any] = {"job": JOB | {"gpus_total": None, "allocations": [], "exit_code": None, "labels": {}}, "findings": []}
    text = list(lines(bare, 1, 1))

    assert text[0] == "Job lab/4714: train, ada, vision, gpu"
    assert text[1] == "State:   failed"
    why = {"gpus_total_absent": "it had ended"}
    assert [*lines(bare | {"job": bare["job"] | {"labels": why}}, 1, 1)][3] == "GPUs:    not told: it had ended"
    assert text[3:] == ["GPUs:    not told", "", "Bottleneck: not judged", "", "Nothing to change: no rule found anything."]
    blamed = [*lines({"job": JOB, "findings": [FINDING]}, 1, 1)]
    assert "Bottleneck: data (by the finding that could win back most)" in blamed


def test_a_job_that_was_not_judged_says_so_and_why() -> None:
    """No rule could find anything: that is no word that nothing is to change."""
    text = list(lines({"job": JOB, "findings": [], "absent": {"bottleneck": "nothing was read"}}, 1, 1))

    assert text[-1] == "It was not judged: nothing was read."
    assert not any("Nothing to change" in line for line in text)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["a b"], 2, "'a b' is no job's id"), ([], 2, "which job"), (["4711"], 2, "no server is set"),
        (["4711", "--jsn"], 2, "did you mean --json?"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_sentence(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names what to give."""
    for name in ("FETTLE_JOB", "SLURM_JOB_ID", "FETTLE_AGENT_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    try:
        ended = main(["job", *words])
    except SystemExit as error:  # argparse ends so
        ended = int(error.code or 0)

    assert ended == code
    assert said in capsys.readouterr().err


def test_a_server_that_is_away_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With the address, and never the token."""
    token = tmp_path / "token"
    token.write_text("a-token\n")
    code = main(["job", "4711", "--server", f"ws://127.0.0.1:{free_port()}/ws/agent/", "--token-file", str(token)])
    err = capsys.readouterr().err

    assert code == 1
    assert "cannot be reached: nobody listens there." in err
    assert "a-token" not in err


def test_a_server_that_hangs_is_left_in_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All requests share one limit: a job that ends with its report holds its GPUs no longer than that."""
    monkeypatch.setattr("cli.job._WITHIN_S", 1.0)
    token = tmp_path / "token"
    token.write_text("a-token\n")
    rows = json.dumps({"results": [JOB], "next": None}).encode()

    def first_alone(listener: socket.socket) -> None:
        with listener.accept()[0] as told:
            told.recv(65536)
            time.sleep(0.5)
            told.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(rows), rows))

    with socket.create_server(("127.0.0.1", 0)) as listener:  # the list of runs is answered late, the report never
        answering = threading.Thread(target=first_alone, args=(listener,))
        answering.start()
        began = time.monotonic()
        address = f"ws://127.0.0.1:{listener.getsockname()[1]}/ws/agent/"
        code = main(["job", "4711", "--server", address, "--token-file", str(token)])
        took_s = time.monotonic() - began
        answering.join()

    assert code == 1
    assert "did not answer within 1 s." in capsys.readouterr().err
    assert 0.5 < took_s < 1.4
