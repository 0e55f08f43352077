"""Precedence, life between two thresholds, and what reaches a command line."""

import re
import shlex

import pytest

from advisor.engine import evaluate
from advisor.rule import Rule, load
from advisor.text import Text, UnsafeValueError, fields, quoted
from tests.advisor.rules.cases import frames


def fired(**readings: object) -> list[str]:
    """The rules that fire on one target with these readings, in order."""
    return [finding.rule for finding in evaluate(load(), frames(**readings)).findings]


def test_it_finds_nothing_on_a_healthy_fleet() -> None:
    """All rules together leave a good training alone."""
    evaluation = evaluate(load(), frames())

    assert evaluation.findings == []
    assert evaluation.not_evaluated == []


def test_it_orders_findings_by_severity_then_by_what_they_recover() -> None:
    """What is worst and pays most comes first."""
    found = fired(mem_used_share=0.95, bottleneck="launch", share_launch=0.6, share_compute=0.4, host_mem_share=0.97)

    assert found == ["host-memory-pressure", "memory-nearly-full", "launch-bound-small-kernels"]


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
