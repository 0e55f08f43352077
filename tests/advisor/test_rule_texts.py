"""What every rule says, whatever fires it: a gain or why there is none, steps for each launcher, commands that quote what machines named."""

import re
import shlex
from itertools import product
from string import Formatter
from types import MappingProxyType
from typing import Any

import polars as pl
import pytest

from advisor.engine import Thresholds, evaluate, wanted
from advisor.features import Frames
from advisor.finding import Finding
from advisor.kinds import FLAGS, kind
from advisor.rule import Need, Rule, load
from advisor.text import Text, UnsafeValueError, fields, quoted, within_quotes
from tests.advisor.rules.cases import HEALTHY, KEY, SERVICE

RULES = load()
HOSTILE = "x; rm -rf /"
LAUNCHERS = (None, "torchrun", "deepspeed", "megatron", "accelerate")
SCHEDULERS = (None, "slurm", "kubernetes", "docker")
MEASURED = r"\d|\b(no|nothing|one|two|three|five|seven|thirty|peers|times)\b"
ENGINES = (None, "vllm", "sglang", "triton", "trtllm")


WORDS = {
    "launcher": "torchrun",
    "scheduler": "slurm",
    "serving_engine": "vllm",
    "sharding": "fsdp",
    "recompute": "full",
    "dtype": "bf16",
}


def value_of(name: str) -> Any:
    """Something that the feature may hold."""
    if name == "torch_cuda_major":  # a whole number by its source
        return 13
    if name in WORDS:
        return WORDS[name]
    if name in HEALTHY and HEALTHY[name] is not None:
        return HEALTHY[name]
    if name in SERVICE:
        return SERVICE[name]
    if name in FLAGS:
        return True
    return "some-name" if kind(name) == pl.String() else 3.14159265


def said(rule: Rule, thresholds: Thresholds = MappingProxyType({}), **told: Any) -> Finding:
    """What the rule says when it fires on a row that has every feature, but for what is told."""
    names = {name for name in wanted((rule,)) if kind(name) != pl.Null()}
    row = {name: value_of(name) for name in names} | {"evaluated": True, "free": False, "confidence": "high"} | told
    frame = pl.DataFrame([row], infer_schema_length=1)
    frame = frame.with_columns([pl.col(name).cast(kind(name)) for name, dtype in frame.schema.items() if dtype == pl.Null])
    frame = frame.with_columns(pl.lit(KEY[rule.scope]).alias(rule.scope), pl.lit([0]).alias("members"))
    asked = dict.fromkeys(("opens", "clears"), None)
    needs = tuple(Need(need.features, need.confidence, **asked) for need in rule.needs) or (Need(()),)
    fires = Rule(
        **{name: getattr(rule, name) for name in rule.__slots__}
        | {"opens": pl.lit(True), "clears": pl.lit(False), "unless": None, "needs": (*needs, Need(()))}
    )
    (finding,) = evaluate((fires,), Frames(**{**_none(), rule.scope: frame}), thresholds=thresholds).findings
    return finding


def _none() -> dict[str, pl.DataFrame]:
    return {name: pl.DataFrame() for name in ("gpu", "job", "node", "service", "fleet")}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_says_what_to_gain_or_wins_nothing_back(rule: Rule) -> None:
    """A range with what it rests on; without one it wins back no time, or all of it, or the card is sick; and it says what is measured."""
    recovers = rule.recovers if isinstance(rule.recovers, int | float) else None

    assert rule.verify
    if rule.gain is not None:
        assert len(rule.gain.basis) > 15
    else:
        assert recovers in (0, 1) or rule.group == "health"
        assert re.search(MEASURED, rule.verify.lower())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_text_of_a_rule_can_be_filled_in(rule: Rule) -> None:
    """With all features known no text shows a gap, a brace of a field or a number with all its digits."""
    finding = said(rule)
    texts = [one.english() for one in (finding.title, finding.summary, finding.risk, finding.rollback, finding.verify)]
    texts += [finding.expected_gain.basis.english()] if finding.expected_gain else []
    texts += [Text(case.summary, {name: value_of(name) for name in fields(case.summary)}).english() for case in rule.cases]

    for text in texts:
        assert "?" not in text
        assert "{" not in text
        assert "None" not in text.removeprefix("None")  # there may be no risk
    for text in texts + [step.text for step in finding.change]:
        assert not re.search(r"\d\.\d{6,}", text), "a number that nobody rounded"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_template_of_a_rule_is_well_formed(rule: Rule) -> None:
    """Braces are balanced and the fields are names of features, in the steps as in the texts."""
    texts = [rule.title, rule.summary, rule.risk, rule.rollback, rule.verify, *(case.summary for case in rule.cases)]
    for text in texts + [step.text for step in rule.change]:
        for _literal, name, _spec, conversion in Formatter().parse(text):
            assert name is None or re.fullmatch(r"[A-Za-z_][A-Za-z_0-9]*", name), text
            assert conversion is None, text


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_steps_quote_what_machines_named(rule: Rule) -> None:
    """A job called `x; rm -rf /` is one word of each command; a name with a line end or a control character makes no command."""
    for step in rule.change:
        names = fields(step.text)
        words = [name for name in names if kind(name) == pl.String()]
        values = {name: HOSTILE if name in words else 3 for name in names}
        text = quoted(step.text, values, names)

        assert text is not None
        assert within_quotes(step.text, words) is None
        for _word in words:
            assert shlex.quote(HOSTILE) in text
        for hostile in ("a\nb", "a\x1b[2J", "a\u202eb", "a\u2028b"):
            if words:
                with pytest.raises(UnsafeValueError):
                    quoted(step.text, values | dict.fromkeys(words, hostile), names)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.scope == "job"], ids=lambda rule: rule.id)
def test_a_rule_of_jobs_has_a_change_for_every_launcher_and_scheduler(rule: Rule) -> None:
    """Whatever started the job there is something to do about it, and no step is for another launcher."""
    for launcher, scheduler in product(LAUNCHERS, SCHEDULERS):
        change = said(rule, launcher=launcher, scheduler=scheduler).change
        text = "\n".join(step.text for step in change)

        assert change, (launcher, scheduler)
        assert "#SBATCH" not in text or scheduler != "kubernetes", (launcher, scheduler)
        assert "Megatron-LM" not in text or launcher in (None, "megatron"), (launcher, scheduler)


@pytest.mark.parametrize("rule", [rule for rule in RULES if "serving_engine" in wanted((rule,))], ids=lambda rule: rule.id)
def test_a_rule_that_asks_for_the_engine_has_a_change_for_each(rule: Rule) -> None:
    """For each engine, and for a process that is none."""
    for engine in ENGINES:
        assert said(rule, serving_engine=engine).change, engine


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.scope == "service"], ids=lambda rule: rule.id)
def test_a_rule_of_services_has_a_change_for_each_kind(rule: Rule) -> None:
    """For each engine that an agent reads."""
    for engine in ENGINES[1:]:
        assert said(rule, kind=engine).change, engine


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_no_step_waits_for_the_name_of_a_node(rule: Rule) -> None:
    """Where the node's name is not known there is something to do all the same."""
    assert said(rule, node_name=None).change


OF_ANOTHER_THING = {
    ("comm-not-overlapped", 0.1), ("cpu-offload-stall", 30.0), ("dataloader-too-few-workers", 0.05), ("fp32-without-tensor-cores", 30.0),
    ("hw-slowdown-active", 5.0), ("latency-clock-jitter", 2.0), ("launch-bound-small-kernels", 10.0), ("nccl-socket-fallback", 1.0),
    ("node-network-undersized", 20.0), ("p2p-disabled", 1.0), ("slow-sample-head-of-line", 1.5), ("slow-sample-head-of-line", 5.0),
    ("storage-small-files", 10.0), ("storage-throughput-bound", 0.05), ("dataloader-too-few-workers", 200.0),
}  # fmt: skip
"""Numbers of verifications that are no threshold of their rule, though one has the same value."""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_verification_names_its_thresholds(rule: Rule) -> None:
    """A number that stands there is none of the rule's thresholds, as a part or in per cent: a site may have set those otherwise."""
    numbers = {float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*(?:\.\d+)?", re.sub(r"\{[^}]*\}", "", rule.verify))}
    of_thresholds = {round(value, 6) for one in rule.thresholds for value in (one.default, 100 * one.default)}

    assert {number for number in numbers & of_thresholds if (rule.id, number) not in OF_ANOTHER_THING} == set()


def test_a_verification_says_the_threshold_in_force() -> None:
    """Of a site that set memory-nearly-full to 0.95 and 0.93, and bytes in GiB."""
    full = {rule.id: rule for rule in RULES}

    finding = said(full["memory-nearly-full"], thresholds={"memory-nearly-full": {"mem_used_share_clears": 0.93}})
    held = said(full["gpu-memory-held-idle"])

    assert "below 93% of the card" in finding.verify.english()
    assert "below 0.5 GiB" in held.verify.english()
