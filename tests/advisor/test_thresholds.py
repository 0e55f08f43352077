"""Thresholds have names: a site sets them for all or for some, and evidence shows the one in force."""

import importlib
from dataclasses import replace

import polars as pl
import pytest

from advisor.engine import Thresholds, evaluate
from advisor.features import Frames
from advisor.finding import Finding
from advisor.rule import Rule, Threshold, crossed, load, param
from tests.advisor.rules.cases import frames

FULL = next(rule for rule in load() if rule.id == "memory-nearly-full")


def found(thresholds: Thresholds, open_fingerprints: frozenset[str] = frozenset(), **readings: object) -> list[Finding]:
    """What the rule on full memory finds on one GPU."""
    return evaluate((FULL,), frames(**readings), open_fingerprints, thresholds).findings


def shown(finding: Finding) -> float | None:
    """The threshold beside the share of memory in use."""
    return next(line.threshold for line in finding.evidence if line.name == "mem_used_share")


def test_a_threshold_has_its_default_where_nobody_sets_it() -> None:
    """0.91 of the card opens the finding, and its evidence says so."""
    assert found({}, mem_used_share=0.905) == []

    (finding,) = found({}, mem_used_share=0.92)
    assert shown(finding) == 0.91


def test_a_value_that_is_set_is_in_force_and_is_shown() -> None:
    """A site that wants to hear at 0.8 hears at 0.8; other rules and other thresholds keep theirs."""
    values = {"memory-nearly-full": {"mem_used_share_opens": 0.8, "mem_used_share_clears": 0.7}, "other-rule": {"x_opens": 1.0}}

    (finding,) = found(values, mem_used_share=0.85)

    assert shown(finding) == 0.8
    still_open = frozenset({finding.fingerprint})
    assert len(found(values, still_open, mem_used_share=0.75)) == 1
    assert found(values, still_open, mem_used_share=0.65) == []


def test_a_value_may_hold_for_some_rows_alone() -> None:
    """An expression gives each row its own; where it gives none, the default is in force."""
    one = frames(mem_used_share=0.85)
    both = pl.concat([one.gpu.with_columns(name=pl.lit("H200")), one.gpu.with_columns(gpu=pl.lit(1), name=pl.lit("A100"))])
    values = {"memory-nearly-full": {"mem_used_share_opens": pl.when(pl.col("name") == "A100").then(pl.lit(0.8))}}

    findings = evaluate((FULL,), Frames(both, one.job, one.node), frozenset(), values).findings

    assert [(finding.target, shown(finding)) for finding in findings] == [("1", 0.8)]


@pytest.mark.parametrize("rule", load(), ids=lambda rule: rule.id)
def test_every_default_lies_in_its_range_and_every_pair_in_its_order(rule: Rule) -> None:
    """What is shipped is what a site may set."""
    assert len({one.name for one in rule.thresholds}) == len(rule.thresholds)
    for one in rule.thresholds:
        assert one.low <= one.default <= one.high, one.name
    assert crossed(rule, {}) is None


def test_a_pair_out_of_its_order_is_named() -> None:
    """Clearing at or above the opening would let the finding flap; in a rule that opens below, the other way round."""
    pair = ("mem_used_share_opens", "mem_used_share_clears")
    idle = next(rule for rule in load() if rule.id == "gpu-allocated-idle")

    assert crossed(FULL, {"mem_used_share_clears": 0.95}) == pair
    assert crossed(FULL, {"mem_used_share_opens": 0.88}) == pair
    assert crossed(FULL, {"mem_used_share_opens": 0.97, "mem_used_share_clears": 0.95}) is None
    assert crossed(idle, {"busy_opens": 0.05}) == ("busy_opens", "busy_clears")
    assert crossed(idle, {"busy_opens": 0.05, "busy_clears": 0.1}) is None


@pytest.mark.parametrize(
    "strange",
    [
        replace(FULL, thresholds=FULL.thresholds[:1]),
        replace(FULL, thresholds=(*FULL.thresholds, Threshold("nobody_reads_opens", 1.0, "ratio", 0.0, 1.0))),
        replace(FULL, opens=FULL.opens & (pl.col("busy") > param("busy_opens"))),
    ],
)
def test_a_rule_whose_conditions_and_thresholds_differ_is_refused(strange: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that nobody filled in would be null, and the rule silent for ever."""
    module = importlib.import_module("advisor.rules.memory_nearly_full")
    monkeypatch.setattr(module, "RULE", strange)
    load.cache_clear()

    with pytest.raises(ValueError, match="memory_nearly_full"):
        load()
    monkeypatch.undo()
    load.cache_clear()
