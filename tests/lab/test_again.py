"""Kept recordings, judged by the rules of today."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lab import run as lab_run
from lab.again import judge_again
from lab.outcomes import Run, outcome
from lab.pairs import PAIRS

ROOT = Path(__file__).resolve().parent.parent.parent
LAUNCH = next(pair for pair in PAIRS if pair.name == "launch-graph")


def once(name: str, units: float) -> Run:
    """A program of which another rule spoke then."""
    finding: dict[str, Any] = {
        "rule": LAUNCH.rule,
        "title": "Old",
        "change": [],
        "expected_gain": {"low": 9.0, "high": 9.5, "basis": ""},
    }
    measured = {"unit": "steps", "units": units, "seconds": 10.0}
    return Run(program=name, settings={}, measured=measured, bottleneck="idle", findings=[finding], trouble="was not judged")


@pytest.fixture
def results(tmp_path: Path) -> dict[str, Any]:
    """A pair's results, and recordings of what it stands for."""
    for name, recorded in ((LAUNCH.before, "launch_bound"), (LAUNCH.after, "launch_graphed")):
        shutil.copy(ROOT / "recordings" / f"{recorded}.jsonl.gz", tmp_path / f"{name}.jsonl.gz")
    old = outcome(LAUNCH, once(LAUNCH.before, 99), once(LAUNCH.after, 414))
    return {"machine": {"gpus": ["NVIDIA H200"]}, "pairs": [old, {**old, "pair": "no pair any more"}]}


def test_the_advice_is_todays_and_the_speeds_are_those_that_were_measured(results: dict[str, Any], tmp_path: Path) -> None:
    """The range of then is kept beside it, however often it is judged anew."""
    new, lacking = judge_again(results, tmp_path)
    (one,) = new["pairs"]
    (twice,) = judge_again(new, tmp_path)[0]["pairs"]

    assert lacking == []
    assert (one["gain"], one["verdict"], one["problems"]) == (4.18, "inside", [])
    assert one["promised"] != [9.0, 9.5]
    assert one["promised_then"] == twice["promised_then"] == [9.0, 9.5]
    assert (one["before"]["bottleneck"], one["before"]["trouble"]) == ("launch", None)


def test_without_a_recording_a_program_stays_as_it_was_and_is_named(
    results: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is made up, and the exit code says so."""
    (tmp_path / f"{LAUNCH.after}.jsonl.gz").unlink()
    file = tmp_path / "results.json"
    file.write_text(json.dumps(results))

    code = lab_run.main(["--judge-again", str(tmp_path), "--json", str(file)])

    assert code == 1
    assert f"left as it was: {LAUNCH.after}, of which there is no recording" in capsys.readouterr().out
    assert json.loads(file.read_text())["pairs"][0]["after"] == results["pairs"][0]["after"]


def test_without_results_it_says_what_to_run(tmp_path: Path) -> None:
    """The gains come from GPUs, not from recordings."""
    with pytest.raises(SystemExit, match="there are no results; run the lab first, with --recordings"):
        lab_run.main(["--judge-again", str(tmp_path), "--json", str(tmp_path / "none.json")])
