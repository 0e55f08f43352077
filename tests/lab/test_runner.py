"""The lab's runner: real processes in place of GPU programs, the real advisor on recordings of the programs that they stand for."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from lab import run as lab_run
from lab.outcomes import Outcome
from lab.pairs import Instead, Pair
from lab.run import Results, groups, run_all
from lab.runner import Runner
from tests.agents.driven import Driver

STAND_IN = Path(__file__).with_name("stand_in.py")


def pair(rule: str, before: str, after: str, change: str, name: str = "", gpus: int = 1, instead: Instead | None = None) -> Pair:
    """A pair of recordings."""
    return Pair(name or rule, rule, before, "before", after, "after", change, gpus=gpus, instead=instead)


STARVED = pair("dataloader-too-few-workers", "loader_starved", "loader_ok", r"num_workers=(?P<workers>\d+)")
FP32 = pair("fp32-without-tensor-cores", "fp32_train", "bf16_train", r"torch\.autocast")
LAUNCH = pair("launch-bound-small-kernels", "launch_bound", "launch_graphed", "CUDA graphs")


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """A runner whose programs are recordings."""
    monkeypatch.setenv("STAND_IN_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("STAND_IN_PID", str(tmp_path / "pid"))

    def words(name: str, seconds: float, settings: Mapping[str, str]) -> Sequence[str]:
        return [name, *(f"{key}={value}" for key, value in settings.items())]

    return Runner(tmp_path, fettle=(sys.executable, str(STAND_IN)), command=words)


def test_a_pair_is_judged_measured_and_set_beside_its_promise(runner: Runner) -> None:
    """8.77 times the images a second; the finding promised 3.29 to 8.23: the change does more than it says."""
    found = runner.pair(STARVED, "0")

    assert found["title"] == "The GPU waits for the data loader while CPU cores sit free"
    assert found["advice"] == "+ loader = DataLoader(ds, batch_size=B, num_workers=16, pin_memory=True,"
    assert found["gain"] == 8.77
    assert found["promised"] == pytest.approx([3.29, 8.23], abs=0.1)
    assert found["verdict"] == "above"
    assert found["problems"] == []
    assert (found["before"]["bottleneck"], found["before"]["measured"]) == (
        "data",
        {"unit": "items", "units": 5011.2, "seconds": 10.0, "settings": []},
    )


def test_what_the_advice_says_is_given_to_the_second_program(runner: Runner) -> None:
    """The worker count of the finding, not one that the lab knows."""
    after = runner.pair(STARVED, "0")["after"]

    assert after is not None
    assert after["settings"] == {"workers": "16"}
    assert after["measured"] is not None
    assert after["measured"]["settings"] == ["workers=16"]


def test_a_gain_inside_its_range_is_said_to_be(runner: Runner) -> None:
    """7.98 times, of 1.5 to 8."""
    found = runner.pair(FP32, "0")

    assert (found["gain"], found["promised"], found["verdict"]) == (7.98, [1.5, 8.0], "inside")


def test_advice_that_is_not_given_is_a_problem_and_the_pair_is_still_measured(runner: Runner) -> None:
    """A rule that is silent on its own program is refuted by it."""
    found = runner.pair(pair("checkpoint-stall", "fp32_train", "bf16_train", "async_save"), "0")

    assert found["problems"] == [
        "the advice on fp32_train does not name checkpoint-stall: it names fp32-without-tensor-cores",
    ]
    assert (found["gain"], found["promised"], found["verdict"]) == (7.98, None, "not measured")


def test_a_change_that_no_step_names_is_a_problem(runner: Runner) -> None:
    """The second program must do what the advice says, not something else that helps."""
    found = runner.pair(pair("fp32-without-tensor-cores", "fp32_train", "bf16_train", "torch.compile"), "0")

    assert found["problems"] == ["no step of fp32-without-tensor-cores is the change that bf16_train makes"]


def test_advice_that_stands_after_the_change_is_a_problem(runner: Runner) -> None:
    """The change did not mend what the rule speaks of."""
    found = runner.pair(pair("fp32-without-tensor-cores", "fp32_train", "fp32_train", "torch.autocast"), "0")

    assert found["problems"] == ["fp32_train still gets the advice of fp32-without-tensor-cores"]
    assert (found["gain"], found["verdict"]) == (1.0, "below")


def test_a_program_that_fails_is_told_of_without_the_machines_paths(runner: Runner) -> None:
    """Its second program is not run: nothing can be compared."""
    found = runner.pair(pair("fp32-without-tensor-cores", "fails", "bf16_train", "autocast"), "0")

    assert found["problems"] == ["fails: exit code 3: Traceback RuntimeError: cuda.py: out of memory"]
    assert (found["after"], found["gain"], found["verdict"]) == (None, None, "not measured")


def test_a_program_that_tells_no_speed_is_told_of(runner: Runner) -> None:
    """Nothing is made up."""
    assert runner.run("bf16_train", "0", {})["trouble"] is None
    runner.command = lambda name, seconds, settings: [name, "mute"]

    assert runner.run("bf16_train", "0", {})["trouble"] == "it told no speed"


def _lives(stat: Path) -> bool:
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_program_that_hangs_is_ended_with_all_that_it_started(runner: Runner, tmp_path: Path) -> None:
    """At its limit, and its own child does not go on holding the GPU."""
    runner.seconds, runner.start_up_s = 1.0, 0.5
    began = time.monotonic()
    found = runner.run("hangs", "0", {})

    assert found["trouble"] == "ended after 2 s, unfinished: it said nothing"
    assert time.monotonic() - began < 20
    child = Path(f"/proc/{(tmp_path / 'pid').read_text()}/stat")
    while _lives(child) and time.monotonic() - began < 20:  # what was killed ends when it has a core next
        time.sleep(0.01)
    assert not _lives(child)


def test_each_program_has_its_gpu_and_a_folder_that_goes_with_it(runner: Runner, tmp_path: Path) -> None:
    """Files of one program fill no disk for the next."""
    runner.run("bf16_train", "1", {})
    name, device, folder = (tmp_path / "log").read_text().split()

    assert (name, device) == ("bf16_train", "1")
    assert not Path(folder).exists()


def test_all_pairs_run_on_their_gpus_and_a_shared_program_once(runner: Runner, tmp_path: Path) -> None:
    """Pairs of one GPU side by side, a pair of two on both; one that fails does not end the others."""
    tf32 = pair(FP32.rule, "fp32_train", "bf16_train", "set_float32_matmul_precision", name="tf32")
    fails = pair("checkpoint-stall", "fails", "bf16_train", "x", name="fails")
    both = pair("comm-not-overlapped", "ddp_comm_bound", "ddp_big", "no_sync", gpus=2)
    left = pair("gpu-memory-leak", "leak", "leak", "x", name="left")
    taken: list[Outcome] = []
    run_all(runner, [FP32, tf32, fails, LAUNCH, both, left], ["0", "1"], lambda pair: pair is not left, taken.append)
    log = [line.split()[:2] for line in (tmp_path / "log").read_text().splitlines()]

    assert sorted(one["pair"] for one in taken) == sorted([FP32.name, "tf32", "fails", LAUNCH.name, both.name])
    assert [name for name, _ in log].count("fp32_train") == 1
    assert [device for name, device in log if name.startswith("ddp")] == ["0,1", "0,1"]
    assert {one["pair"]: bool(one["problems"]) for one in taken}["fails"] is True
    assert [len(group) for group in groups([FP32, tf32, LAUNCH])] == [2, 1]


def test_results_are_whole_after_each_pair_and_kept_over_runs(runner: Runner, tmp_path: Path) -> None:
    """A run that is cut off leaves what it had; the next one adds to it."""
    file = tmp_path / "results.json"
    Results(file, {"gpus": ["H200"]}).take(runner.pair(FP32, "0"))
    again = Results(file, {"gpus": ["H200"], "date": "2026-01-01"})

    assert again.good(FP32)
    assert not again.good(LAUNCH)
    again.take(runner.pair(LAUNCH, "0"))
    kept = json.loads(file.read_text())
    assert {one["pair"] for one in kept["pairs"]} == {FP32.name, LAUNCH.name}
    assert kept["machine"]["date"] == "2026-01-01"
    assert list(tmp_path.glob("*.part")) == []


@pytest.mark.slow
def test_a_real_fettle_run_is_measured_and_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the fake driver's library: the program's line, the recording and the advisor's word on it."""
    environment = Driver(tmp_path / "answers.json", "h200-driver-580.json").environment
    for name in ("PYTHONPATH", "FETTLE_FAKE_NVML"):
        monkeypatch.setenv(name, environment[name])
    program = 'import time; time.sleep(7); print(\'{"unit": "naps", "units": 14, "seconds": 7.0}\')'
    runner = Runner(tmp_path, command=lambda name, seconds, settings: [sys.executable, "-c", program])
    found = runner.run("naps", "0", {})

    assert found["measured"] == {"unit": "naps", "units": 14, "seconds": 7.0}
    assert found["trouble"] is None
    assert found["bottleneck"] is not None
    assert (tmp_path / "naps.jsonl.gz").stat().st_size > 0


def test_a_machine_without_gpus_is_told_so(tmp_path: Path) -> None:
    """In a sentence, before anything runs."""
    with pytest.raises(SystemExit, match=r"lab: PyTorch (cannot be asked for its GPUs: .+|sees no GPU on this machine.+)\."):
        lab_run.main(["--json", str(tmp_path / "results.json")])

    assert not (tmp_path / "results.json").exists()
