"""docs/explanation/sizing.md: its tables are what its formulas make of its constants."""

import math
import re
from pathlib import Path
from typing import Final

import pytest

PAGE: Final = (Path(__file__).resolve().parent.parent / "docs" / "explanation" / "sizing.md").read_text()
MEASURED: Final = {"parquet": range(800, 10_001), "victoriametrics": range(800, 4001)}
"""Fleets that were run with all metrics; a figure of any other is extrapolated, and so is each of disks."""
NEVER_RUN: Final = ("parquet_disk", "victoria_disk")
CHOSEN: Final = ("processes", "every")
CONSTANTS: Final = {name: float(value) for name, value in re.findall(r"^\| `([A-Z_0-9]+)` \| ([\d.]+) \|", PAGE, re.MULTILINE)}
FORMULAS: Final = dict(re.findall(r"^([a-z_]+) = (.+)$", PAGE, re.MULTILINE))
HEAD: Final = re.compile(r"^\| GPUs \|.*$(?:\n\|.*)+", re.MULTILINE)


def sized(gpus: int) -> dict[str, float]:
    """What each formula gives for so many GPUs, in the page's units."""
    known: dict[str, float] = {}
    for name, formula in FORMULAS.items():
        words = {**CONSTANTS, **known, "G": gpus, "ceil": math.ceil, "max": max, "__builtins__": {}}
        known[name] = eval(formula, words)
    return known


def shown(name: str, gpus: int, measured: range) -> str:
    """A cell as it must read: two digits that count, and marked where it is extrapolated."""
    value = sized(gpus)[name]
    digits = max(0, 1 - math.floor(math.log10(value)))
    told = f"{float(f'{value:.1e}'):,.{digits}f}" if name != "processes" else f"{value:,}"
    return told if name in CHOSEN or (gpus in measured and name not in NEVER_RUN) else f"~ {told}"


def cells(line: str) -> list[str]:
    """The cells of a line of a table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@pytest.mark.parametrize(("engine", "table"), list(zip(MEASURED, HEAD.findall(PAGE), strict=True)), ids=MEASURED)
def test_a_table_is_what_the_formulas_give(engine: str, table: str) -> None:
    """Each cell by the formula that its column names."""
    head, _, *lines = table.splitlines()
    names = re.findall(r"`([a-z_]+)`", head)
    rows = [cells(line) for line in lines]

    assert len(names) == len(cells(head)) - 1
    assert [row[0] for row in rows] in (["100", "1,000", "10,000"], ["100", "1,000", "10,000", "100,000"])
    for gpus, *told in rows:
        assert told == [shown(name, int(gpus.replace(",", "")), MEASURED[engine]) for name in names], gpus


def test_every_constant_is_used_and_every_word_of_a_formula_is_known() -> None:
    """No figure that nothing depends on, and none that a reader cannot put in."""
    used = {word for formula in FORMULAS.values() for word in re.findall(r"\b[A-Z][A-Z_0-9]+\b", formula)}

    assert used == set(CONSTANTS)
