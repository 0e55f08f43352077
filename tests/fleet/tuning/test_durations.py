"""How long what is seen must last before it fires: set as thresholds are, for each severity that a rule can have."""

from datetime import timedelta

import polars as pl
import pytest

from advisor.features import Frames
from advisor.rule import load
from fleet.tuning import durations
from fleet.tuning.changes import TuneError, set_override
from fleet.tuning.in_force import in_force
from fleet.tuning.matching import Setting
from tests.advisor.rules.cases import frames
from tests.fleet.rows import person

BY_ID = {rule.id: rule for rule in load()}
FULL = BY_ID["memory-nearly-full"]
NAME = "fires_after_warn_s"


def two_cards() -> Frames:
    """An H200 with key 0 and an A100 with key 1."""
    one = frames()
    rows = [one.gpu.with_columns(gpu=pl.lit(key), name=pl.lit(name)) for key, name in enumerate(("NVIDIA H200", "NVIDIA A100"))]
    return Frames(gpu=pl.concat(rows), node=one.node, job=one.job, service=one.service, fleet=one.fleet)


def of(*settings: Setting) -> durations.Durations:
    """The durations in force with these settings of one rule."""
    return durations.in_force({FULL.id: settings}, (FULL,), two_cards(), {})


def test_as_shipped_nothing_has_to_last() -> None:
    """Two windows, or one of what is critical, are enough."""
    assert of().of(FULL.id, "warn", "0") == timedelta()


def test_the_site_and_a_model_may_have_different_ones() -> None:
    """The narrower is in force where it matches; another severity and another rule keep theirs."""
    ours = of(Setting(NAME, "site", "", 60.0), Setting(NAME, "gpu_model", "*H200*", 600.0))

    assert ours.of(FULL.id, "warn", "0") == timedelta(minutes=10)
    assert ours.of(FULL.id, "warn", "1") == timedelta(minutes=1)
    assert ours.of(FULL.id, "critical", "0") == timedelta()
    assert ours.of("another-rule", "warn", "0") == timedelta()


def test_a_model_alone_leaves_the_others_as_shipped() -> None:
    """What a pattern does not match has the default."""
    ours = of(Setting(NAME, "gpu_model", "*H200*", 600.0))

    assert (ours.of(FULL.id, "warn", "0"), ours.of(FULL.id, "warn", "1")) == (timedelta(minutes=10), timedelta())


def test_conditions_read_none_of_them() -> None:
    """The engine gets what its expressions name, and no more."""
    other = Setting("mem_used_share_opens", "site", "", 0.95)

    assert durations.without({"a": (Setting(NAME, "site", "", 60.0),), "b": (Setting(NAME, "site", "", 60.0), other)}) == {
        "b": (other,)
    }


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        pytest.param("memory-nearly-full", ["fires_after_warn_s"], id="one severity"),
        pytest.param(
            "nvlink-fault",
            ["fires_after_info_s", "fires_after_advice_s", "fires_after_warn_s", "fires_after_critical_s"],
            id="the evidence decides",
        ),
    ],
)
def test_a_rule_has_one_for_each_severity_that_it_can_have(rule: str, names: list[str]) -> None:
    """A rule of one severity has one."""
    assert [one.name for one in durations.of_rule(BY_ID[rule])] == names


@pytest.mark.django_db
def test_it_is_set_as_a_threshold_is() -> None:
    """With who, when and a line in the trail; within its bounds."""
    ann = person("ann")
    set_override(FULL.id, NAME, 300.0, ann)
    assert in_force().settings[FULL.id] == (Setting(NAME, "site", "", 300.0),)

    with pytest.raises(TuneError, match="can be from 0 to 86,400"):
        set_override(FULL.id, NAME, 1e6, ann)
    with pytest.raises(TuneError, match="has no threshold fires_after_critical_s"):
        set_override(FULL.id, "fires_after_critical_s", 60.0, ann)
