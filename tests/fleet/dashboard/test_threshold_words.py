"""What rules are made of is said in the reader's language: thresholds, features and sources, of every rule."""

import re

import pytest
from django.test import Client
from django.utils import translation

from advisor.rule import PARAM, load
from fleet.accounts.models import User
from fleet.dashboard import words
from fleet.dashboard.threshold_words import ROLE, THRESHOLD, role_of, threshold_label
from fleet.tuning.changes import save_own, set_override
from fleet.tuning.durations import settable

CHINESE = re.compile(r"[\u4e00-\u9fff]")
FLAG = re.compile(r"--[a-z0-9-]+")
DOCUMENT = re.compile(r"(\S+\.\S+(: [^()]+)?( \([A-Z][^()]*\))?)|(NVIDIA NVML: \w+)|(fettle bench)")
"""An address, with the title of a page or the name of what it tells of; a function of a library; a command: the same in every language."""
THRESHOLDS = sorted({one.name for rule in load() for one in settable(rule)})


def test_every_threshold_has_a_name_in_both_languages() -> None:
    """None is shown by its slug, in English or in Chinese; its part, where it has one, stands beside it."""
    assert len(THRESHOLDS) > 200
    assert [name for name in THRESHOLDS if threshold_label(name).partition(",")[0] == role_of(name)[0].replace("_", " ")] == []
    with translation.override("zh-hans"):
        about = {name: threshold_label(name).removesuffix(f"（{ROLE.get(role_of(name)[1], '')}）") for name in THRESHOLDS}
    assert {name: said for name, said in about.items() if not CHINESE.search(said)} == {}


def test_no_name_outlives_its_threshold() -> None:
    """What is listed is what some rule has."""
    assert set(THRESHOLD) - {role_of(name)[0] for name in THRESHOLDS} == set()


def test_a_threshold_is_named_with_its_part() -> None:
    """Opens, clears, confirms; one that is only a bound has none."""
    assert (
        threshold_label("profile_exposed_comm_share_confirms")
        == "In a profile: communication with no compute beside it, confirms"
    )
    assert threshold_label("canary_share_least") == "Traffic up to which a service counts as a canary, of all"
    with translation.override("zh-hans"):
        assert threshold_label("profile_exposed_comm_share_confirms") == "剖析数据中：未与计算重叠的通信（佐证）"
        assert threshold_label("canary_share_least") == "服务视为灰度的流量占比上限"


def test_every_feature_of_a_rule_has_a_chinese_name() -> None:
    """Those that must be measured, those of conditions, those of evidence; a flag is named as it is typed."""
    features = {name for rule in load() for name in rule.reads() if not name.startswith(PARAM)}
    features |= {show.feature for rule in load() for show in rule.evidence}
    with translation.override("zh-hans"):
        said = {name: words.evidence(name) for name in sorted(features)}

    assert len(said) > 300
    assert {name: text for name, text in said.items() if not CHINESE.search(text) and not FLAG.fullmatch(text)} == {}


def test_every_source_that_is_prose_is_said_in_chinese() -> None:
    """Documents keep their addresses and titles; all else is translated."""
    sources = {source for rule in load() for source in rule.sources}
    with translation.override("zh-hans"):
        said = {source: words.source(source) for source in sources if not DOCUMENT.fullmatch(source)}

    assert len(said) > 20
    assert {source for source, text in said.items() if not CHINESE.search(text)} == set()
    assert said["the job's own earlier runs"] == "该作业自身先前的运行"
    assert said["planner checkpoint-interval"] == "规划器 checkpoint-interval"


@pytest.mark.django_db
def test_a_rules_page_is_chinese_in_its_thresholds_overrides_and_trail(viewer: Client) -> None:
    """The slug stands only where it is shown as what the API calls the threshold."""
    user = User.objects.create_user("ann", password="x")
    set_override("scaling-inefficient", "efficiency_margin", 0.1, user)
    own = {
        "scope": "gpu",
        "severity": "advice",
        "group": "performance",
        "opens": "busy >= 0.5",
        "clears": "",
        "title": "A",
        "summary": "S",
    }
    save_own("site-one", own, user)
    save_own("site-one", own | {"title": "B", "summary": "T"}, user)
    page = viewer.get("/rules/scaling-inefficient/", headers={"Accept-Language": "zh-hans"}).content.decode()
    trail = viewer.get("/rules/site-one/", headers={"Accept-Language": "zh-hans"}).content.decode()

    assert page.count("efficiency_margin") == 1
    assert "efficiency margin" not in page
    assert "扩展效率须高出触发阈值多少才解除（整个站点）：默认值 → 0.1" in page
    assert "已修改：标题, 摘要" in trail
