"""Precedence, life between two thresholds, and what reaches a command line."""

import re
import shlex
from dataclasses import replace

import polars as pl
import pytest

from advisor.engine import evaluate
from advisor.features import Frames
from advisor.finding import Scope
from advisor.rule import KEYS, Rule, Step, load
from advisor.text import Text, UnsafeValueError, fields, quoted
from tests.advisor.rules.cases import HEALTHY, SERVICE, frames


def fired(**readings: object) -> list[str]:
    """The rules that fire on one target with these readings, in order."""
    return [finding.rule for finding in evaluate(load(), frames(**readings)).findings]


def test_it_finds_nothing_on_a_healthy_fleet() -> None:
    """All rules together leave a good training alone."""
    evaluation = evaluate(load(), frames())

    assert evaluation.findings == []
    for gap in evaluation.not_evaluated:
        assert not [name for name in gap.missing if HEALTHY.get(name, SERVICE.get(name)) is not None], gap


def test_it_orders_findings_by_what_they_win_back() -> None:
    """What pays most comes first; what wins no time back follows by severity, then by name."""
    found = fired(mem_used_share=0.95, bottleneck="launch", share_launch=0.6, share_compute=0.4, host_mem_share=0.97)

    assert found == ["launch-bound-small-kernels", "host-memory-pressure", "memory-nearly-full"]


def test_a_sick_card_silences_performance_advice() -> None:
    """Nobody tunes a program on a card that corrupts its memory."""
    found = fired(ecc_uncorrected_volatile=3.0, fp32_active_when_busy=0.7, tensor_active_when_busy=0.01, sm_clock_p95_ratio=0.5)

    assert found == ["uncorrectable-ecc"]


def test_one_cause_is_reported_once() -> None:
    """A straggler with an overheating card is the card's trouble."""
    found = fired(
        gpus=2, held_gpus=2, working_gpus=2, talks=True, least_busy_ratio=0.5, hw_slowdown_share=0.4, sm_clock_ratio=0.5,
        sm_clock_p95_ratio=0.5, power_cap_share=0.0, share_communication=0.5, bottleneck="communication",
    )  # fmt: skip

    assert found == ["hw-slowdown-active"]


def test_every_rule_says_what_the_others_leave_open() -> None:
    """Ids are unique, precedence names rules that exist, and two thresholds leave a gap to stay open in."""
    rules = load()
    ids = {rule.id for rule in rules}

    assert len(ids) == len(rules)
    for rule in rules:
        assert set(rule.yields_to) <= ids - {rule.id}


@pytest.mark.parametrize("rule", load(), ids=lambda rule: rule.id)
def test_a_rule_opens_nothing_where_nothing_is_known(rule: Rule) -> None:
    """Columns that no feature code filled are null of their type: no condition fails on them, and none holds."""
    key = pl.DataFrame(
        {KEYS[rule.scope]: ["0"], "members": [[0]]}, schema={KEYS[rule.scope]: pl.String, "members": pl.List(pl.Int64)}
    )
    untyped = key.with_columns([pl.lit(None).alias(name) for name in HEALTHY | SERVICE if name not in ("free", "evaluated")])
    for frame in (key, untyped):
        bare = replace(frames(), **{rule.scope: frame})

        assert evaluate((rule,), bare).findings == []
        evaluate((rule,), bare, {f"{rule.id}:{rule.scope}:0"})


def with_steps(*steps: Step) -> Rule:
    """The rule on full memory with these steps as its change."""
    return replace(next(rule for rule in load() if rule.id == "memory-nearly-full"), change=steps)


def changes(rule: Rule, **readings: object) -> list[str]:
    """What `rule` proposes on a card that is nearly full."""
    (finding,) = evaluate((rule,), frames(mem_used_share=0.95, **readings)).findings
    return [change.text for change in finding.change]


def test_it_says_a_step_only_where_it_is_meant() -> None:
    """A Slurm job reads no Kubernetes manifest; a step without a condition is for all, and the order stays."""
    rule = with_steps(
        Step("flag", "all"),
        Step("config", "slurm", when=pl.col("scheduler") == "slurm"),
        Step("config", "kubernetes", when=pl.col("scheduler") == "kubernetes"),
        Step("config", "plain", when=pl.col("scheduler").is_null()),
    )

    assert changes(rule, scheduler="slurm") == ["all", "slurm"]
    assert changes(rule, scheduler="kubernetes") == ["all", "kubernetes"]
    assert changes(rule) == changes(rule, scheduler=None) == ["all", "plain"]


def test_a_condition_that_cannot_be_told_says_nothing() -> None:
    """Null is not yes."""
    rule = with_steps(
        Step("flag", "all"), Step("env", "never", when=pl.col("told_micro_batch") >= 2), Step("env", "not {told_seq}")
    )

    assert changes(rule) == ["all"]
    assert changes(rule, told_micro_batch=4, told_seq=8) == ["all", "never", "not 8"]


def test_each_target_gets_its_own_steps() -> None:
    """Two cards of one fleet, two schedulers, one judgement."""
    rule = with_steps(Step("config", "slurm", when=pl.col("scheduler") == "slurm"), Step("config", "none", when=pl.lit(False)))
    one = frames(mem_used_share=0.95).gpu
    gpu = pl.concat(
        [one.with_columns(scheduler=pl.lit("slurm")), one.with_columns(pl.lit(1).alias("gpu"), scheduler=pl.lit("docker"))]
    )

    found = evaluate((rule,), Frames(gpu=gpu, job=gpu, node=gpu)).findings

    assert {finding.target: [change.text for change in finding.change] for finding in found} == {"0": ["slurm"], "1": []}


@pytest.mark.parametrize("scope", ["service", "fleet"])
def test_it_judges_services_and_the_fleet(scope: Scope) -> None:
    """By their own rows; neither is taken for the GPU of the same number, whose rules it would silence."""
    rule = replace(with_steps(Step("flag", "all")), scope=scope)
    silenced = replace(with_steps(Step("flag", "all")), id="weaker", yields_to=(rule.id,))
    row = pl.DataFrame({"service": [0], "fleet": [0], "mem_used_share": [0.95]})
    both = replace(frames(mem_used_share=0.95), service=row, fleet=row)

    assert [(finding.rule, finding.scope, finding.target) for finding in evaluate((rule, silenced), both).findings] == [
        (rule.id, scope, "0"),
        ("weaker", "gpu", "0"),
    ]


def test_it_quotes_what_it_puts_into_a_command() -> None:
    """A value can never end its argument."""
    text = quoted("kill {name} {pid}", {"name": "a; rm -rf /", "pid": 12.0}, ("name", "pid"))

    assert text is not None
    assert shlex.split(text) == ["kill", "a; rm -rf /", "12"]


@pytest.mark.parametrize("value", ["a\nb", "a\x1b[31m", "a\u202eb", "a\x00"])
def test_it_refuses_control_characters(value: str) -> None:
    """They hide what a command does."""
    with pytest.raises(UnsafeValueError, match="name"):
        quoted("echo {name}", {"name": value}, ("name",))


def test_it_leaves_out_a_step_whose_value_is_absent() -> None:
    """A command with a hole is no command."""
    assert quoted("kill {pid}", {"pid": None}, ("pid",)) is None


def test_a_text_without_its_parameter_still_reads() -> None:
    """An absent reading is a question mark, whatever format is asked."""
    assert Text("{share:.0%} of {name}", {"name": "x"}).english() == "? of x"
    assert fields("{a:.1f} {b} {a}") == ("a", "b")


@pytest.mark.parametrize("rule", load(), ids=lambda rule: rule.id)
def test_what_another_run_gave_is_said_to_be_another_run(rule: Rule) -> None:
    """A ratio measured elsewhere can exceed this job's own bound, so it never reads as measured here."""
    if rule.gain is not None:
        assert not re.search(r"(?i)measured(?! on another job| ratio)", rule.gain.basis)
        assert "At most 1 / (1" not in rule.gain.basis
