"""Every slug of the code has a word."""

import typing

from django.utils import translation

from advisor.finding import SEVERITIES, Bottleneck, ChangeKind, Confidence, Scope
from fleet.dashboard import words
from fleet.findings.models import ADVICE, CONDITIONS
from wire.codec import CODES
from wire.messages import PODS, PROCESSES
from wire.metrics import METRICS, REASONS


def test_every_metric_has_a_label() -> None:
    """A metric that is added to the registry is named on the pages too, and no label outlives its metric."""
    assert set(words.METRIC) == {metric.key for metric in METRICS}
    assert set(words.ABSENT_TOO) == {f"gpu.{PROCESSES}", f"host.{PODS}"}
    assert words.metric(PROCESSES) == "Processes that hold a GPU"


def test_every_slug_has_a_word() -> None:
    """Reasons, codes, states, bottlenecks: none reaches a reader as a slug."""
    assert set(words.REASON) == set(REASONS)
    assert set(words.REFUSAL) == {*CODES, "out_of_range", "conflict", "double_gpu", "two_nodes", "clock_set_back"}
    assert set(words.SEVERITY) == set(SEVERITIES)
    assert set(words.CONDITION) == set(CONDITIONS)
    assert set(words.ADVICE) == set(ADVICE)
    assert set(words.BOTTLENECK) == set(words.BOTTLENECK_MEANS) == {*typing.get_args(Bottleneck), ""}
    assert set(words.SCOPE) == set(typing.get_args(Scope))
    assert set(words.CONFIDENCE) == set(typing.get_args(Confidence))
    assert set(words.CHANGE_KIND) == set(typing.get_args(ChangeKind))


def test_a_source_that_is_a_recording_is_named_in_the_readers_language() -> None:
    """Titles of documents stay as they are."""
    with translation.override("zh-hans"):
        told = [words.source(text) for text in ("recording leak", "recordings a and b", "docs.nvidia.com/deploy/mps")]

    assert told == ["录制数据 leak", "录制数据 a 和 b", "docs.nvidia.com/deploy/mps"]
    assert words.source("recording leak") == "recording leak"


def test_a_slug_that_nobody_named_is_shown_as_it_is() -> None:
    """Something new is not hidden."""
    assert words.word(words.REASON, "brand_new") == "brand_new"
    assert words.metric("brand_new") == "brand_new"
