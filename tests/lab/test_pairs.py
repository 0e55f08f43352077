"""The pairs name programs, rules and changes that exist; PyTorch is not needed to see it."""

import ast
import re
from pathlib import Path

import pytest

from advisor.rule import load
from lab.pairs import PAIRS, Pair

LAB = Path(__file__).resolve().parent.parent.parent / "lab"
RULES = {rule.id: rule for rule in load()}


def programs(folder: str) -> dict[str, ast.FunctionDef]:
    """Every function of a folder of the lab that is registered as a program."""
    found = {}
    for file in sorted((LAB / folder).glob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and "program" in map(ast.unparse, node.decorator_list):
                assert node.name not in found
                found[node.name] = node
    return found


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_both_programs_and_the_rule_exist(pair: Pair) -> None:
    """The runner starts programs by name."""
    assert {pair.before, pair.after} <= set(programs("changes"))
    assert pair.rule in RULES
    assert pair.gpus in (1, 2)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_change_is_a_step_of_the_rule_and_its_values_are_the_programs(pair: Pair) -> None:
    """With any value put in; what the finding says of it is a parameter of the second program."""
    texts = [re.sub(r"(?<!\{)\{\w+[^{}]*\}(?!\})", "2", step.text) for step in RULES[pair.rule].change]
    found = [match for text in texts if (match := re.search(pair.change, text))]

    assert found
    assert set(found[0].groupdict()) <= {one.arg for one in programs("changes")[pair.after].args.args}


def test_speed_is_compared_wherever_the_rule_promises_some() -> None:
    """And something else wherever it does not."""
    assert {pair.rule for pair in PAIRS if pair.instead} == {pair.rule for pair in PAIRS if RULES[pair.rule].gain is None}


def test_every_program_is_of_a_pair_and_no_name_is_taken_twice() -> None:
    """Those of lab/changes/; those of lab/known/ are for recordings."""
    used = {name for pair in PAIRS for name in (pair.before, pair.after)}

    assert set(programs("changes")) == used
    assert not set(programs("known")) & used
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)


def test_at_least_twelve_rules_have_a_pair() -> None:
    """On one GPU and on two."""
    assert len({pair.rule for pair in PAIRS}) >= 12
    assert {pair.gpus for pair in PAIRS} == {1, 2}
