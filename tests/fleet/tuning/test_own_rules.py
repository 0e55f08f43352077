"""What an own rule may name and fill in: each feature has words and its unit, and a value cannot leave its quoting."""

import re

import pytest

from advisor.conditions import SCOPES, columns
from advisor.finding import Scope
from fleet.dashboard import rule_words
from fleet.findings import words
from fleet.tuning.own_rules import OwnRuleError, check, check_together, unit

ENDS = {
    "_bytes": "bytes", "_bytes_per_s": "bytes_per_second", "_share": "ratio", "_ratio": "ratio", "_active": "ratio", "_mhz": "megahertz",
    "_w": "watts", "_c": "celsius", "_pct": "percent", "_per_s": "per_second", "_s": "seconds", "_per_min": "per_minute",
    "_iops": "per_second", "_cores": "cores", "_gpus": "gpus", "_hours": "hours", "_index": "index",
}  # fmt: skip
OTHERWISE = {
    "ib_ports_active": "ports", "nvlink_links_active": "links",  # those that are active
    "main_thread_share": "cores",  # of one core
    "slow_worker_ratio": "number", "step_time_max_ratio": "number", "step_time_p99_ratio": "number",  # times
}  # fmt: skip
RULE = {
    "scope": "gpu",
    "severity": "advice",
    "group": "performance",
    "opens": "busy > 0.5",
    "clears": "busy < 0.4",
    "title": "T",
    "summary": "S",
}


@pytest.mark.parametrize("scope", SCOPES)
def test_every_feature_that_a_condition_may_name_has_words_and_a_unit(scope: Scope) -> None:
    """None is listed by its slug alone, and every number has a unit that the page has a word for."""
    listed = columns(scope)

    assert [name for name in listed if words.evidence(name) == name.replace("_", " ")] == []
    numbers = [name for name, kind in listed.items() if kind.is_numeric()]
    assert [name for name in numbers if unit(name) not in rule_words.UNIT] == []


@pytest.mark.parametrize("scope", SCOPES)
def test_what_a_feature_is_called_and_its_unit_agree(scope: Scope) -> None:
    """`net_drops_per_s` is so many a second, not seconds; the longest ending counts."""
    for name, kind in columns(scope).items():
        end = max((one for one in ENDS if name.endswith(one)), key=len, default="")
        if end and kind.is_numeric() and not name.startswith("flag_"):  # a flag's unit is its program's own
            assert unit(name) == OTHERWISE.get(name, ENDS[end]), name


def test_every_unit_of_a_threshold_has_a_word() -> None:
    """The catalogue writes `2 cores` in the reader's language."""
    from advisor.rule import load

    units = {one.unit for rule in load() for one in rule.thresholds}

    assert units <= rule_words.UNIT.keys()


@pytest.mark.parametrize("change", ['kill --name "{job}"', "kill --name '{job}'", "see `kill {job}`"])
def test_a_change_that_undoes_the_quoting_of_a_value_is_refused(change: str) -> None:
    """A job called `x; rm -rf /` would leave the quotes that were put around it; the sentence names the field."""
    with pytest.raises(OwnRuleError) as refused:
        check({**RULE, "change": change})

    assert re.match(r"\{job\} stands within quotes", refused.value.wrong["change"])


@pytest.mark.parametrize("change", ["ssh host kill {job}", "sh -c {job}", "eval {job}", "echo {job} | xargs kill"])
def test_a_change_with_a_command_that_reads_its_words_again_is_refused(change: str) -> None:
    """The quotes are gone when it reads them."""
    with pytest.raises(OwnRuleError) as refused:
        check({**RULE, "change": change})

    assert re.match(
        r"\{job\} stands in a command with (ssh|sh|eval|xargs), which reads its words once more", refused.value.wrong["change"]
    )


@pytest.mark.parametrize("change", ["kill --name {job}", "Ask the job’s owner about {job}.", 'sleep "{busy:.0f}"', ""])
def test_a_change_whose_values_stand_as_words_is_taken(change: str) -> None:
    """Without quotes, and numbers, which are not quoted, anywhere."""
    check({**RULE, "change": change})


@pytest.mark.parametrize(
    ("opens", "hint"),
    [
        ("mem_used_share >= 91", True), ("busy > 2", True), ("busy < 0", True), ("temperature_c BETWEEN 1 AND 0", False),
        ("temperature_c > 1e999", False), ("temperature_c > 90 AND temperature_c < 80", False), ("name = 'a' AND name = 'b'", False),
        ("mem_used_share >= 91 OR busy > 3", True),
    ],
)  # fmt: skip
def test_a_condition_that_no_value_makes_true_is_refused(opens: str, hint: bool) -> None:
    """It would be kept and stay silent for ever; of shares it is said how they are written."""
    with pytest.raises(OwnRuleError) as refused:
        check_together({**RULE, "opens": opens, "clears": f"NOT ({opens})"})

    assert refused.value.wrong["opens"].startswith("No value makes this true: the rule would never open.")
    assert ("write 91 per cent as 0.91" in refused.value.wrong["opens"]) is hint


@pytest.mark.parametrize(
    "opens",
    [
        "mem_used_share >= 0.91", "busy > 0.5", "temperature_c > 90", "power_share > 1.02", "name = 'a' OR name = 'b'", "free",
        "busy * 100 > 91", "busy > tensor_active", "name LIKE 'a%' AND busy > 0.9", "temperature_c BETWEEN 80 AND 90", "busy IS NULL",
        "sm_clock_ratio > 2", "NOT free", "name IN ('a', 'b')", "temperature_c < 1e999",
    ],
)  # fmt: skip
def test_a_condition_that_may_hold_is_kept(opens: str) -> None:
    """What may be true of some row, or is not known never to be."""
    check_together({**RULE, "opens": opens, "clears": f"NOT ({opens})"})


@pytest.mark.parametrize(
    ("feature", "of"),
    [
        ("flag_kv_cache_memory_bytes", "bytes"), ("flag_cpu_offload_gb", "gibibytes"), ("flag_gpu_memory_utilization", "ratio"),
        ("flag_mem_fraction_static", "ratio"), ("flag_max_model_len", "tokens"), ("flag_micro_batch_size", "number"), ("told_tp", "number"),
    ],
)  # fmt: skip
def test_a_flag_has_the_unit_of_its_documentation(feature: str, of: str) -> None:
    """Where the flag's documentation names one; else it is a plain number."""
    assert unit(feature) == of
