"""Which value is in force where, and what may be set beside what."""

from dataclasses import replace

import polars as pl
import pytest

from advisor.engine import evaluate
from advisor.features import Frames
from advisor.rule import Rule, load
from fleet.tuning.matching import Setting, crossing, thresholds
from tests.advisor.rules.cases import frames

FULL = next(rule for rule in load() if rule.id == "memory-nearly-full")
IDLE = next(rule for rule in load() if rule.id == "gpu-allocated-idle")
PRESSURE = next(rule for rule in load() if rule.id == "host-memory-pressure")
OPENS, CLEARS = "mem_used_share_opens", "mem_used_share_clears"
NAMES = {0: "a-01", 1: "b-01"}


def fleet(**readings: object) -> Frames:
    """Two nodes with a GPU each: an H200 of Ann's job in one partition and an A100 of Bob's in two."""
    one = frames(**readings)
    place = [
        (0, 0, "NVIDIA H200", "a-01/ann/train-20261130.py", "h200-long"),
        (1, 1, "NVIDIA A100-SXM4-80GB", "b-01/bob/serve.py", "batch, debug"),
    ]

    def both(frame: pl.DataFrame, key: str) -> pl.DataFrame:
        rows = [
            frame.with_columns(
                gpu=pl.lit(gpu, pl.Int64),
                node=pl.lit(node, pl.Int64),
                job=pl.lit(job),
                name=pl.lit(name),
                members=pl.lit([gpu]),
                partition=pl.lit(partition),
            )
            for gpu, node, name, job, partition in place
        ]
        return pl.concat(rows)

    return Frames(
        gpu=both(one.gpu, "gpu"), job=both(one.job, "job").drop("name"), node=both(one.node, "node").drop("name", "job")
    )


def fires_on(rule: Rule, *settings: Setting, **readings: object) -> list[str]:
    """The targets that the rule fires on."""
    seen = fleet(**readings)
    values = thresholds({rule.id: settings}, [rule], seen, NAMES)
    return sorted(finding.target for finding in evaluate((rule,), seen, thresholds=values).findings)


@pytest.mark.parametrize(
    ("setting", "targets"),
    [
        (Setting(OPENS, "site", "", 0.7), ["0", "1"]),
        (Setting(OPENS, "gpu_model", "NVIDIA H200", 0.7), ["0"]),
        (Setting(OPENS, "gpu_model", "*A100*", 0.7), ["1"]),
        (Setting(OPENS, "gpu_model", "*B200*", 0.7), []),
        (Setting(OPENS, "node", "b-*", 0.7), ["1"]),
        (Setting(OPENS, "job", "*/ann/*", 0.7), ["0"]),
        (Setting(OPENS, "job_family", "ann/*", 0.7), ["0"]),
        (Setting(OPENS, "job_family", "bob/serve.py", 0.7), ["1"]),
        (Setting(OPENS, "job_family", "a-01/*", 0.7), []),
        (Setting(OPENS, "partition", "debug", 0.7), ["1"]),
        (Setting(OPENS, "partition", "h200-*", 0.7), ["0"]),
        (Setting(OPENS, "partition", "*long*, *", 0.7), []),
    ],
)
def test_a_setting_holds_for_what_it_matches_alone(setting: Setting, targets: list[str]) -> None:
    """0.75 of the memory is far from the default of 0.91."""
    assert fires_on(FULL, setting, mem_used_share=0.75) == targets


def test_the_narrower_of_two_settings_is_in_force() -> None:
    """A job before its family, a family before a node, a node before a partition, a partition before a model, a model before the site;
    of two patterns the longer."""
    site = Setting(OPENS, "site", "", 0.7)
    model = Setting(OPENS, "gpu_model", "*H200*", 0.8)
    longer = Setting(OPENS, "gpu_model", "NVIDIA H200", 0.7)
    node = Setting(OPENS, "node", "a-*", 0.8)
    job = Setting(OPENS, "job", "*/train-*.py", 0.7)

    assert fires_on(FULL, site, mem_used_share=0.75) == ["0", "1"]
    assert fires_on(FULL, model, site, mem_used_share=0.75) == ["1"]
    assert fires_on(FULL, longer, model, site, mem_used_share=0.75) == ["0", "1"]
    assert fires_on(FULL, longer, node, site, mem_used_share=0.75) == ["1"]
    assert fires_on(FULL, job, node, model, site, mem_used_share=0.75) == ["0", "1"]
    partition, family = Setting(OPENS, "partition", "h*", 0.8), Setting(OPENS, "job_family", "ann/train.py", 0.8)
    assert fires_on(FULL, partition, longer, site, mem_used_share=0.75) == ["1"]
    assert fires_on(FULL, replace(node, value=0.7), partition, site, mem_used_share=0.75) == ["0", "1"]
    assert fires_on(FULL, family, replace(node, value=0.7), site, mem_used_share=0.75) == ["1"]
    assert fires_on(FULL, job, family, node, site, mem_used_share=0.75) == ["0", "1"]


def test_jobs_and_nodes_are_matched_by_their_gpus() -> None:
    """A model's setting reaches the rules of jobs and nodes that have such a GPU; no job's reaches a node's rule."""
    idle = {"busy": 0.01, "working_gpus": 0, "share_idle": 1.0, "bottleneck": "idle", "held_gpus": 1}
    pressed = {"host_mem_share": 0.85}

    assert fires_on(IDLE, Setting("busy_opens", "gpu_model", "*A100*", 0.015), **idle) == ["b-01/bob/serve.py"]
    assert fires_on(PRESSURE, Setting("host_mem_share_opens", "gpu_model", "*H200*", 0.8), **pressed) == ["0"]
    assert fires_on(PRESSURE, Setting("host_mem_share_opens", "node", "b-01", 0.8), **pressed) == ["1"]
    assert fires_on(PRESSURE, Setting("host_mem_share_opens", "partition", "debug", 0.8), **pressed) == ["1"]
    for matcher in ("job", "job_family"):
        assert fires_on(PRESSURE, Setting("host_mem_share_opens", matcher, "*", 0.8), **pressed) == []


def test_services_are_matched_by_the_gpus_that_they_run_on() -> None:
    """A service has no model of its own, and the fleet has neither model nor node."""
    rule = next(rule for rule in load() if rule.scope == "service" and rule.thresholds)
    name, value = rule.thresholds[0].name, rule.thresholds[0].high
    service = pl.DataFrame({"service": ["7", "8"], "node": [0, 1], "members": [[0], [1]]})
    seen = replace(fleet(), service=service, fleet=pl.DataFrame({"fleet": ["fleet"], "members": [[]]}))

    def in_force(scope_of: Rule, matcher: str, pattern: str) -> list[float | None]:
        values = thresholds({scope_of.id: [Setting(name, matcher, pattern, value)]}, [scope_of], seen, NAMES)
        frame: pl.DataFrame = getattr(seen, scope_of.scope)
        return frame.with_columns(_value=values[scope_of.id][name]).get_column("_value").to_list()

    assert in_force(rule, "gpu_model", "*A100*") == [None, value]
    assert in_force(rule, "gpu_model", "*B200*") == [None, None]
    assert in_force(rule, "node", "a-*") == [value, None]
    assert in_force(rule, "job", "b-01/*") == [None, value]
    assert in_force(rule, "job_family", "ann/*") == [value, None]
    assert in_force(rule, "partition", "*") == [None, None]  # the frame does not tell of any
    of_fleet = replace(rule, scope="fleet")
    for matcher in ("gpu_model", "partition", "node", "job_family", "job"):
        assert in_force(of_fleet, matcher, "*") == [None]


@pytest.mark.parametrize(
    ("settings", "crosses"),
    [
        ([], False),
        ([Setting(OPENS, "site", "", 0.85)], True),  # below the default of clears, 0.88
        ([Setting(OPENS, "site", "", 0.85), Setting(CLEARS, "site", "", 0.8)], False),
        ([Setting(OPENS, "site", "", 0.85), Setting(CLEARS, "site", "", 0.85)], True),
        ([Setting(OPENS, "gpu_model", "*H200*", 0.85)], True),
        ([Setting(OPENS, "gpu_model", "*H200*", 0.85), Setting(CLEARS, "site", "", 0.8)], False),
        # each model has its own pair, and no card is of both models
        (
            [
                Setting(OPENS, "gpu_model", "H200", 0.98), Setting(CLEARS, "gpu_model", "H200", 0.95),
                Setting(OPENS, "gpu_model", "A100", 0.8), Setting(CLEARS, "gpu_model", "A100", 0.7),
            ],
            False,
        ),
        # a card may match the second pattern alone, and open at the default of 0.91
        ([Setting(OPENS, "gpu_model", "NVIDIA*", 0.99), Setting(CLEARS, "gpu_model", "*H200*", 0.95)], True),
        # some card may match both patterns, and the longer one sets one half alone
        ([Setting(CLEARS, "gpu_model", "NVIDIA*", 0.9), Setting(OPENS, "gpu_model", "*H200-long*", 0.89)], True),
        # the job's half beside the node's half
        ([Setting(CLEARS, "node", "a-*", 0.9), Setting(OPENS, "job", "*/ann/*", 0.895)], True),
        (
            [
                Setting(CLEARS, "node", "a-*", 0.9),
                Setting(OPENS, "job", "*/ann/*", 0.895), Setting(CLEARS, "job", "*/ann/*", 0.8),
            ],
            False,
        ),
    ],
)  # fmt: skip
def test_settings_that_could_let_a_finding_flap_are_found(settings: list[Setting], crosses: bool) -> None:
    """Wherever one target may have its opening from one setting and its clearing from another, the two keep their order."""
    assert (crossing(FULL, settings) is not None) is crosses


def test_a_rule_that_opens_below_keeps_its_order_too() -> None:
    """Idle below 0.005 of the time, clear from 0.02 on."""
    assert crossing(IDLE, [Setting("busy_opens", "site", "", 0.015)]) is None
    found = crossing(IDLE, [Setting("busy_opens", "node", "a-*", 0.03)])

    assert found is not None
    assert (found.opens_at, found.clears_at, found.where) == (0.03, 0.02, ("node", "a-*"))
