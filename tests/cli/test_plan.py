"""`fettle plan`: the list, the help, the text, the JSON, and how it refuses."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.planners.planner import load
from cli.__main__ import main
from cli.plan import command, worked

ROOT = Path(__file__).resolve().parent.parent.parent
HOW_TO = ROOT / "docs" / "how-to" / "plan.md"


def plan(capsys: pytest.CaptureFixture[str], typed: str) -> tuple[int, str, str]:
    """The exit code, what was printed and what went to standard error."""
    try:
        code = main(["plan", *shlex.split(typed)])
    except SystemExit as ended:
        code = int(ended.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_alone_it_lists_the_planners(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with one line."""
    code, out, err = plan(capsys, "")

    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == [planner.name for planner in load()]
    assert all(line.endswith(".") for line in out.splitlines())
    assert plan(capsys, "--help")[1].count("training-memory") >= 1


@pytest.mark.parametrize("planner", load(), ids=lambda planner: planner.name)
def test_help_tells_formula_assumptions_sources_and_an_example_that_is_true(
    planner: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the example prints is what the command prints."""
    known = next(one for one in load() if one is planner)
    code, out, _err = plan(capsys, f"{known.name} --help")
    ran, told, _err = plan(capsys, command(known).removeprefix("fettle plan "))

    assert (code, ran) == (0, 0)
    assert all(text in out for text in (*known.formula, *known.assumptions, *known.sources, f"$ {command(known)}"))
    assert all(one.option in out for one in known.accepted)
    assert "\n".join(f"  {line}" for line in told.splitlines()) in out
    assert told == "\n".join(worked(known)) + "\n"


def test_text_has_units_as_engineers_write_them(capsys: pytest.CaptureFixture[str]) -> None:
    """GiB and TFLOP/s; what was not asked is left out."""
    code, out, _err = plan(
        capsys, "model-flops --parameters 8.03B --layers 32 --heads 32 --sequence 8192 --tokens-per-s 7000 --card h100-sxm"
    )

    assert code == 0
    assert re.search(r"^Operations for a token +61\.06 GFLOP$", out, re.MULTILINE)
    assert re.search(r"^Achieved on a GPU +427\.5 TFLOP/s$", out, re.MULTILINE)
    assert re.search(r"^Model FLOPs utilisation +43\.22 %$", out, re.MULTILINE)
    assert "at the target" not in out


def test_json_has_plain_numbers_and_what_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    """One object, with the defaults that were taken; what does not apply is null."""
    code, out, _err = plan(capsys, "collectives --message 14GB --ranks 8 --bus 360GB/s --json")
    said = json.loads(out)

    assert code == 0
    assert said["planner"] == "collectives"
    assert {"message_bytes": 14e9, "ranks": 8, "bus_bytes_per_s": 360e9, "operation": "all-reduce"}.items() <= said[
        "input"
    ].items()
    assert said["result"]["least_s"] == pytest.approx(0.0681, rel=0.005)
    assert said["result"]["step_ratio"] is None


def test_what_a_card_told_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """In text and in JSON: the plan rests on it. What was typed wins and is not told again."""
    typed = "roofline --weights 16GB --card 'NVIDIA H200' --bandwidth 4TB/s"
    out = plan(capsys, typed)[1]
    said = json.loads(plan(capsys, f"{typed} --json")[1])

    assert out.endswith("\n\nBy the card table, H200 SXM: --peak 989 TFLOP/s.\n")
    assert (said["input"]["card"], said["input"]["peak_flop_per_s"], said["input"]["bandwidth_bytes_per_s"]) == (
        "NVIDIA H200",
        989e12,
        4e12,
    )


def test_sentences_are_told_one_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """In text under each other, in JSON as a list."""
    typed = "compatibility --torch 2.14 --driver 535.104.05 --compute-capability 7.0"
    code, out, _err = plan(capsys, typed)
    said = json.loads(plan(capsys, f"{typed} --json")[1])

    assert code == 0
    assert re.search(r"^Why +Driver 535\.104\.05 is below 580", out, re.MULTILINE)
    assert said["result"]["verdict"] == "fail"
    assert [line.strip().removeprefix("Why").strip() for line in out.splitlines()[2:5]] == said["result"]["reasons"]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("trainings-memory", "fettle plan: there is no planner trainings-memory; did you mean training-memory?"),
        ("xyzzy", "fettle plan: there is no planner xyzzy; there are batch, checkpoint-interval,"),
        ("batch --micro-bach 3", "there is no --micro-bach; did you mean --micro-batch?"),
        ("batch --micro 3", "there is no --micro; did you mean --micro-batch?"),
        ("batch --micro-batch 3.5", "fettle plan batch: --micro-batch must be a whole number, not 3.5."),
        ("batch --micro-batch", "expected one argument"),
        ("batch", "fettle plan batch: batch needs --micro-batch: "),
        ("scaling --gpus 8", "Scaling needs both rates (--rate-of-one, --rate-of-all) or both times (--time-of-one, --time-of-all)."),
        ("energy --gpus 8 --hours 2 --gpu-power 400W --pue 0.5", "--pue must be from 1 to 10, not 0.5."),
        ("training-memory --parameters 8x", "--parameters: '8x' is not a number, alone or with one of k, K, M, B, G, T."),
        ("training-memory --parameters nan", "--parameters must be a finite number, not nan."),
        ("training-memory --parameters 1e400", "--parameters must be a finite number, not inf."),
        ("training-memory --parameters 1e30", "--parameters must be at most 1e+24, not 1e+30."),
        ("training-memory --parameters=-8e9", "--parameters must be from 1 to 1e+24, not -8e+09."),
        ("training-memory --parameters 8e9 --sequence-parallel maybe", "--sequence-parallel must be yes or no, not 'maybe'."),
        ("training-memory --parameters 8e9 --scheme fsdp", "--scheme must be one of ddp, zero1, zero2, zero3, not 'fsdp'."),
        ("roofline --weights 16GB --card H100", "There is no card 'H100'; did you mean H100 PCIe or H100 SXM?"),
        ("roofline --weights 16GB --card L4 --dtype fp4", "The card table has no fp4 peak of L4; give --peak itself."),
        ("roofline --weights 16GB", "roofline needs --bandwidth or name a card: "),
        ("compatibility", "Compatibility needs --torch or --cuda: the release of PyTorch"),
        ("training-memory --parameters 1B --sequence 8", "Activations need --sequence, --hidden and --layers together; give all three or none."),
        ("compatibility --cuda cu122", "There is no index cu122; the nearest is cu121 (torch 2.1 to 2.5)."),
        ("compatibility --torch '\x1b[31m'", r"torch must be a version such as 2.14, not '\x1b[31m'."),
    ],
)  # fmt: skip
def test_what_cannot_be_ends_with_a_sentence_and_exit_code_2(typed: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed; names are those of the flags."""
    code, out, err = plan(capsys, typed)

    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "block", re.findall(r"```console\n(.*?)```", HOW_TO.read_text(), re.DOTALL), ids=lambda block: block.split()[3]
)
def test_the_how_tos_examples_are_true(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What the page shows is what the command prints."""
    typed, _newline, shown = block.partition("\n")
    code, out, _err = plan(capsys, typed.removeprefix("$ .venv/bin/fettle plan "))

    assert (code, out) == (0, shown)


@pytest.mark.parametrize("typed", [[], ["batch", "--micro-batch", "4"]])
def test_a_reader_that_has_seen_enough_is_no_failure(typed: list[str]) -> None:
    """As of `fettle plan | head -1`: no traceback."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "cli", "plan", *typed], stdout=write_end, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT
    )
    os.close(write_end)

    assert (done.returncode, done.stderr) == (0, "")


def test_it_pays_for_no_advisor() -> None:
    """Planning loads neither Polars nor Django: it starts at once."""
    program = "import sys; from cli.__main__ import main; main(['plan', 'batch', '--micro-batch', '4']); print('polars' in sys.modules, 'django' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)

    assert done.stdout.splitlines()[-1] == "False False"


def test_a_plan_that_bodes_ill_is_said_in_words_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Below the result, and in JSON as `cautions`."""
    typed = "training-memory --parameters 7B --card L4"
    out = plan(capsys, typed)[1]

    assert "\n\nCareful: it does not fit with a margin: " in out
    assert json.loads(plan(capsys, f"{typed} --json")[1])["cautions"][0].startswith("It does not fit with a margin: ")
    small = "training-memory --parameters 700M --card L4 --sequence 128 --hidden 512 --layers 4 --vocabulary 1000"
    assert "Careful" not in plan(capsys, small)[1]
    assert "\nFits, and leaves a margin             yes\n" in plan(capsys, small)[1]


def test_a_fit_without_activations_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    """What was not given is not counted, and said so by flags; no line says that it fits."""
    out = plan(capsys, "training-memory --parameters 8B --card 'H200 SXM'")[1]

    assert re.search(r"^Not counted +Activations: give --sequence, --hidden and --layers\.$", out, re.MULTILINE)
    assert "Careful: whether it fits is unknown without what is not counted: at least 126.2 GiB is needed." in out
    assert "Fits" not in out
    assert "Activations  " not in out


def test_an_input_that_changes_nothing_is_named_by_its_flag(capsys: pytest.CaptureFixture[str]) -> None:
    """With what it waits for."""
    out = plan(capsys, "roofline --weights 16GB --card 'H200 SXM' --prompt-tokens 4096")[1]

    assert "Careful: --prompt-tokens changes nothing here: it counts only with --parameters." in out


def test_help_of_energy_tells_plain_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """The effectiveness of a site is 1 or more, no percentage."""
    out = plan(capsys, "energy --help")[1]

    assert re.search(r"--pue NUMBER +Power usage effectiveness of the site, 1 or more\n", out)
    assert "%)" not in out
