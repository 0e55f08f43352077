"""What rules promise, over everything that they may see: bounded ranges, a cost that follows from them, and terms of what is advised."""

import importlib
import pkgutil
import re
from itertools import product
from typing import Any

import polars as pl
import pytest

import tests.advisor.rules
from advisor import cost
from advisor.kinds import kind
from advisor.rule import PARAM, Rule, load
from tests.advisor.rules.cases import RuleCases, frames
from tests.advisor.test_room import GPU_FULL
from tests.advisor.test_rule_texts import ENGINES, LAUNCHERS, said

RULES = load()
FEWEST, MOST = 0.35, 0.95
SHARES = [round(FEWEST + 0.05 * k, 2) for k in range(13)]


def _cases() -> list[type[RuleCases]]:
    found: dict[str, type[RuleCases]] = {}
    for module in pkgutil.iter_modules(tests.advisor.rules.__path__):
        if module.name.startswith("test_"):
            loaded = importlib.import_module(f"tests.advisor.rules.{module.name}")
            for one in vars(loaded).values():
                if isinstance(one, type) and issubclass(one, RuleCases) and one is not RuleCases and hasattr(one, "rule"):
                    found[f"{one.rule} {one.__name__}"] = one
    return [found[name] for name in sorted(found)]


CASES = _cases()
PROMISING = [case for case in CASES if case.the_rule().gain is not None]


def test_every_rule_has_cases() -> None:
    """What is asked of all rules below is asked of each."""
    assert {case.rule for case in CASES} == {rule.id for rule in RULES}


@pytest.mark.parametrize("case", PROMISING, ids=lambda case: case.__name__)
def test_what_could_be_won_back_follows_from_the_gain(case: type[RuleCases]) -> None:
    """1 - 1/gain somewhere within the range: more than nothing where even the low end is faster, nothing where only answers are."""
    gain_of_rule = case.the_rule().gain
    (finding,) = case.judge(case.fires).findings
    gain = finding.expected_gain
    assert gain is not None
    assert gain_of_rule is not None

    if not gain_of_rule.wins_time_back:
        assert finding.recoverable == 0
        return
    assert max(0.0, 1 - 1 / gain.low) - 1e-4 <= finding.recoverable <= max(0.0, 1 - 1 / gain.high) + 1e-4
    assert finding.recoverable > 0 or gain.low <= 1


@pytest.mark.parametrize(
    ("low", "high", "share"), [(2.0, 8.0, 0.75), (1.0, 4.0, 0.5), (1.0, 1.0, 0.0), (0.93, 0.99, 0.0), (6.6, 61.8, 0.9505)]
)
def test_the_share_is_that_of_the_geometric_middle(low: float, high: float, share: float) -> None:
    """Four times the speed does the same work in a quarter of the time."""
    assert cost.recoverable(low, high) == share


def _swept(case: type[RuleCases], name: str) -> pl.DataFrame:
    """What is promised where the rule fires, with `name` from FEWEST to MOST and all else as in `fires`."""
    rule = case.the_rule()
    assert rule.gain is not None
    row = getattr(frames(**(case.healthy | case.fires)), rule.scope)
    missing = {column: pl.lit(None, kind(column)) for column in rule.reads() if column not in row.columns and ":" not in column}
    limits = [pl.lit(one.default).alias(PARAM + one.name) for one in rule.thresholds]
    swept = row.with_columns(limits).with_columns(**missing).drop(name).join(pl.DataFrame({name: SHARES}), how="cross")
    low, high = (bound if isinstance(bound, pl.Expr) else pl.lit(bound) for bound in (rule.gain.low, rule.gain.high))
    opens = rule.opens.fill_null(False) & ~(pl.lit(False) if rule.unless is None else rule.unless.fill_null(False))
    promised: pl.DataFrame = swept.filter(opens).select(pl.col(name), low=low, high=high).drop_nulls()
    return promised


def _driving(case: type[RuleCases]) -> list[str]:
    """The shares that the gain of the rule is computed from."""
    gain = case.the_rule().gain
    assert gain is not None
    roots = {name for bound in (gain.low, gain.high) if isinstance(bound, pl.Expr) for name in bound.meta.root_names()}
    row = getattr(frames(**(case.healthy | case.fires)), case.the_rule().scope)
    return sorted(name for name in roots if name in row.columns and not name.endswith("_s") and _is_share(row[name][0]))


def _is_share(value: Any) -> bool:
    return isinstance(value, float) and 0 <= value <= 1


@pytest.mark.parametrize(
    ("case", "name"),
    [(case, name) for case in PROMISING for name in _driving(case)],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_no_promise_spans_more_than_ten_times(case: type[RuleCases], name: str) -> None:
    """A range that holds everything says nothing, however large the trouble is."""
    for share, low, high in _swept(case, name).rows():
        assert high <= 10.01 * low, (share, low, high)


def test_the_sweep_reaches_large_troubles() -> None:
    """It is no sweep of rows on which nothing fires: a stall of 0.95 is in it, and its promise is what 1/(1 - 0.9) times 1.2 allows."""
    (case,) = [case for case in PROMISING if case.rule == "checkpoint-stall"]
    last = _swept(case, "share_checkpoint").rows()[-1]

    assert last == (0.95, pytest.approx(1 / (1 - 0.57)), pytest.approx(12.0))


FULL: list[dict[str, Any]] = [{}, GPU_FULL | {"host_mem_share": 0.97, "shm_used_share": 0.97}]
NAMED = r"static_graph|no_sync|in_order|ZenFlow|torch\.compile|profiler|[Pp]rofiling|[Gg]raph capture|Staging takes host memory|[Bb][Ff]16 gradients|radients in BF16|FP8 needs|cache in FP8|larger batches|persistent_workers"
SAYS = {
    "Graph capture": "CUDA graphs", "Staging takes host memory": "async", "Profiling": "profile", "profiling": "profile", "profiler": "profile", "bf16 gradients": "bf16", "radients in BF16": "bf16",
    "FP8 needs": "fp8", "cache in FP8": "fp8", "larger batches": "2 * B",
}  # fmt: skip
"""What stands in the steps for it, where that is another word."""


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if any(step.when is not None for step in rule.change)], ids=lambda rule: rule.id
)
def test_risk_and_rollback_are_of_what_is_advised(rule: Rule) -> None:
    """A technique that they name stands in one of the steps, whatever started the job and however full its memory is."""
    engines = ENGINES if rule.reads() & {"serving_engine", "kind"} else (None,)
    for launcher, engine, full in product(LAUNCHERS, engines, FULL):
        kind = {"kind": engine} if rule.scope == "service" else {}
        finding = said(rule, launcher=launcher, serving_engine=engine, **kind, **full)
        steps = "\n".join(step.text for step in finding.change)
        for name in re.findall(
            NAMED,
            finding.risk.english()
            .replace("static_graph=True breaks it", "")
            .replace("Larger batches", "larger batches")
            .replace("Bf16", "bf16")
            + finding.rollback.english(),
        ):
            assert SAYS.get(name, name).lower() in steps.lower(), (name, launcher, engine, full)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_no_change_undoes_another_one(rule: Rule) -> None:
    """With static_graph=True the first step within no_sync() crashes; without a GradScaler there is nothing to unscale; no two optimizers."""
    for launcher in LAUNCHERS:
        steps = "\n".join(step.text for step in said(rule, launcher=launcher, sm=90).change)

        assert "static_graph" not in steps or "no_sync" not in steps
        assert "delete the GradScaler" not in steps or "unscale_" not in steps
        assert "ZeroRedundancyOptimizer(" not in steps or "fully_shard(" not in steps or "instead of the optimizer" in steps


def test_the_terms_follow_a_step_that_is_left_out() -> None:
    """Where memory is nearly full launch-bound advises no graph: it says what the others risk, how to undo them and how to see it."""
    (rule,) = [rule for rule in RULES if rule.id == "launch-bound-small-kernels"]
    with_room, without = said(rule, mem_used_share_max=0.5), said(rule, mem_used_share_max=0.9)

    assert "Graph capture" in with_room.risk.english()
    assert without.risk.english() == "A fused optimizer rounds a little differently: compare the loss."
    assert without.rollback.english() == "Set the optimizer and the logging back."
    assert "30 %" not in without.verify.english()
    assert any(step.text.startswith("# make room first: 90% of the GPU's memory is in use") for step in without.change)


def test_no_step_sends_to_a_rule_that_a_site_may_have_moved() -> None:
    """A step says what is full, not which rule would say so: its threshold is the site's."""
    for rule in RULES:
        for step in rule.change:
            assert not [one.id for one in RULES if f"({one.id})" in step.text], step.text
