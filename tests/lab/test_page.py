"""docs/lab.md, made from results."""

from typing import Any

from lab.outcomes import Run, outcome
from lab.page import page
from lab.pairs import Instead, Pair

LEAK = Pair(
    "kept", "gpu-memory-leak", "a", "keeps losses", "b", "numbers", "item", instead=Instead("memory_growth_bytes", "growth")
)
PINNED = Pair("pinned", "h2d-unpinned-copy", "c", "pageable", "d", "pinned", "pin_memory=True")
LATER = Pair("later", "rank-straggler", "e", "uneven", "f", "even", "sampler", gpus=2)
MACHINE = {"gpus": ["NVIDIA H200", "NVIDIA H200"], "torch": "2.11.0", "cuda": "13.0", "cores": 32, "date": "2026-11-30"}


def run(name: str, units: float, rule: str = "", change: str = "", gain: tuple[float, float] | None = None, **more: float) -> Run:
    """A program that did `units` in 10 s, with one finding or none."""
    promised = gain and {"low": gain[0], "high": gain[1], "basis": ""}
    step = {"kind": "diff", "text": f"- old\n+ {change}"}
    finding: dict[str, Any] = {"rule": rule, "title": "A title", "change": [step], "expected_gain": promised}
    measured = {"unit": "rows", "units": units, "seconds": 10.0, **more}
    return Run(program=name, settings={}, measured=measured, bottleneck="x", findings=[finding] if rule else [], trouble=None)


def results(*outcomes: Any) -> dict[str, Any]:
    """The results' file."""
    return {"machine": MACHINE, "pairs": list(outcomes)}


def test_a_gain_stands_beside_what_was_promised() -> None:
    """With the speeds that it is made of, and the line of the advice that named the change."""
    before = run("c", 20_000, PINNED.rule, "buf = torch.empty(n, pin_memory=True)", (1.1, 1.5))
    text = page(results(outcome(PINNED, before, run("d", 36_000))), [PINNED])

    assert (
        "| `h2d-unpinned-copy` | pageable | `buf = torch.empty(n, pin_memory=True)` | pinned | 1.80 times (2,000 rows/s to"
        " 3,600 rows/s) | 1.1 to 1.5 times | above |"
    ) in text
    assert "Measured on 2 x NVIDIA H200, PyTorch 2.11.0, CUDA 13.0, 32 cores, 2026-11-30." in text
    assert "Of 1 pairs 1 went as they should; of 1 gains that were promised and measured 0 lie inside their range." in text
    assert "What did not go as it should" not in text


def test_what_makes_nothing_faster_is_compared_by_its_own_figure() -> None:
    """Growth is a second's; no speed was promised, so none is judged."""
    before = run("a", 100, LEAK.rule, "losses.append(loss.item())", memory_growth_bytes=10.0 * (1 << 31))
    text = page(results(outcome(LEAK, before, run("b", 100, memory_growth_bytes=0.0))), [LEAK])

    assert "| growth: 2.00 GiB/s to 0.00 GiB/s |  | no speed promised |" in text


def test_what_went_wrong_and_what_was_not_run_is_told() -> None:
    """A table of good rows alone would mislead."""
    silent = outcome(PINNED, run("c", 20_000), run("d", 30_000, PINNED.rule))
    text = page(results(silent), [PINNED, LATER])

    assert "| not given |" in text
    assert "| 1.50 times (2,000 rows/s to 3,000 rows/s) |  | not measured |" in text
    assert (
        "- `h2d-unpinned-copy` (pinned): the advice on c does not name h2d-unpinned-copy: it names nothing; d still gets the advice of"
        " h2d-unpinned-copy."
    ) in text
    assert "- `rank-straggler` (later): not run." in text


def test_without_results_the_pairs_are_listed() -> None:
    """And no number stands for what was not measured."""
    text = page(None, [PINNED, LATER])

    assert "No results are kept yet." in text
    assert "| `rank-straggler` | uneven | even | 2 |" in text
    assert "verdict" not in text


def test_a_range_that_the_lab_refuted_is_told_beside_todays() -> None:
    """A table in which all is well after the rules were corrected hides what was wrong."""
    one = outcome(PINNED, run("c", 20_000, PINNED.rule, "pin_memory=True", (1.4, 3.0)), run("d", 36_000))
    text = page(results({**one, "promised_then": [1.1, 1.5]}), [PINNED])

    assert "| 1.4 to 3 times | inside |" in text
    assert "1 lie inside their range. When the lab ran, 0 did: see below what it changed." in text
    assert "- `h2d-unpinned-copy` promised 1.1 to 1.5 times when the lab ran;" in text
