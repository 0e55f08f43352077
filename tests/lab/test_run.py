"""`python -m lab.run`: what it runs, leaves out, keeps and says. Programs are recordings, the probe a line in place of PyTorch's."""

import json
import sys
from functools import partial
from pathlib import Path

import pytest

from lab import run as lab_run
from lab.pairs import Pair
from lab.runner import Runner

STAND_IN = Path(__file__).with_name("stand_in.py")
PROBE = """print('{"gpus": ["H200", "H200"], "torch": "2.11.0", "cores": 32}')"""
FP32 = Pair("bf16", "fp32-without-tensor-cores", "fp32_train", "fp32", "bf16_train", "bf16", r"torch\.autocast")
LAUNCH = Pair(
    "graph", "launch-bound-small-kernels", "launch_bound", "eager", "launch_graphed", "graph", "CUDA graphs", alone=True
)
BROKEN = Pair("broken", "gpu-memory-leak", "fails", "leaks", "leak", "does not", "item")
FOUR = Pair("four", "rank-straggler", "ddp_big", "uneven", "ddp_big", "even", "Sampler", gpus=4)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the results go, on a machine that says it has two GPUs."""
    monkeypatch.setenv("STAND_IN_LOG", str(tmp_path / "log"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(lab_run, "_PROBE", PROBE)
    stood = partial(Runner, fettle=(sys.executable, str(STAND_IN)), command=lambda name, seconds, settings: [name])
    monkeypatch.setattr(lab_run, "Runner", stood)
    return tmp_path / "results.json"


def pairs(monkeypatch: pytest.MonkeyPatch, *chosen: Pair) -> None:
    """Let the lab have these."""
    monkeypatch.setattr(lab_run, "PAIRS", chosen)


def names(results: Path) -> list[str]:
    """The pairs that the file has."""
    return [one["pair"] for one in json.loads(results.read_text())["pairs"]]


def test_it_runs_every_pair_and_keeps_results_and_recordings(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """0: all went as it should. The page tells the same."""
    pairs(monkeypatch, FP32, LAUNCH)
    code = lab_run.main(["--json", str(results), "--recordings", str(tmp_path / "kept"), "--page", str(tmp_path / "lab.md")])
    said = capsys.readouterr().out

    assert code == 0
    assert names(results) == ["bf16", "graph"]
    assert "bf16 (fp32-without-tensor-cores): 7.98 times the speed, 1.5 to 8 promised: inside" in said
    assert "graph (launch-bound-small-kernels): 4.18 times the speed" in said
    assert len(list((tmp_path / "kept").glob("*.jsonl.gz"))) == 4
    page = (tmp_path / "lab.md").read_text()
    assert "Measured on 2 x H200, PyTorch 2.11.0, 32 cores" in page
    assert "Of 2 pairs 2 went as they should" in page


def test_what_fails_or_needs_more_gpus_is_said_and_the_rest_goes_on(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """1: not all went as it should."""
    pairs(monkeypatch, BROKEN, FP32, FOUR)
    code = lab_run.main(["--json", str(results)])
    said = capsys.readouterr().out

    assert code == 1
    assert names(results) == ["broken", "bf16"]
    assert "fails: exit code 3" in said
    assert "not run: four: needs 4 GPUs" in said


def test_missing_runs_what_the_file_lacks_or_has_with_a_failure(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What went well is not run twice."""
    pairs(monkeypatch, FP32, BROKEN)
    lab_run.main(["--json", str(results)])
    pairs(monkeypatch, FP32, BROKEN, LAUNCH)
    (tmp_path / "log").write_text("")
    lab_run.main(["--json", str(results), "--missing"])

    assert names(results) == ["bf16", "broken", "graph"]
    assert [line.split()[0] for line in (tmp_path / "log").read_text().splitlines()] == ["launch_bound", "launch_graphed"]


def test_no_pair_begins_that_might_end_after_the_budget(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two programs of 21 s do not fit into 30."""
    pairs(monkeypatch, FP32)
    code = lab_run.main(["--json", str(results), "--budget", "30"])

    assert code == 1
    assert "not run: bf16: no time left" in capsys.readouterr().out
    assert not results.exists()


def test_only_runs_one_rules_pairs(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rule's name or the pair's."""
    pairs(monkeypatch, FP32, LAUNCH)
    lab_run.main(["--json", str(results), "--only", "launch-bound-small-kernels"])

    assert names(results) == ["graph"]
    lab_run.main(["--json", str(results), "--only", "bf16"])
    assert names(results) == ["bf16", "graph"]
