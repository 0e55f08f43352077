"""Reasons of serving engines travel once, and again when they change."""

import pytest

from agents.source import ENGINE
from agents.told_engines import CALM_S, ToldEngines
from wire.messages import EngineAbsence, Engines

URL = "http://127.0.0.1:8000"


class Told(ToldEngines):
    """With a clock that a test moves."""

    def __init__(self) -> None:
        self.t = 0.0
        super().__init__(lambda: self.t)

    def of(self, **reasons: str) -> list[EngineAbsence]:
        """What is told of one engine with these reasons, others answer."""
        return self.says([reasons.get(metric) for metric in ENGINE])

    def says(self, why: list[str | None]) -> list[EngineAbsence]:
        """What is told of one engine."""
        engines = Engines(name=[URL], kind=["vllm"], model=["m"], pid=[None], values=[[None]] * len(ENGINE))
        return self.news(engines, [why]).absent


@pytest.fixture
def told() -> Told:
    """Nothing was told yet."""
    return Told()


def test_an_engine_that_does_not_answer_has_one_reason(told: Told) -> None:
    """It is told once; that it answers is told too."""
    assert told.says(["no_previous"] * len(ENGINE)) == []  # not asked yet
    assert told.says(["timeout"] * len(ENGINE)) == [EngineAbsence(URL, "timeout", {})]
    assert told.says(["timeout"] * len(ENGINE)) == []
    assert told.says([None] * len(ENGINE)) == [EngineAbsence(URL, None, {})]


def test_metrics_that_an_engine_does_not_have_are_named(told: Told) -> None:
    """The others have values."""
    assert told.of(kv_cache_used="unsupported") == [EngineAbsence(URL, None, {"kv_cache_used": "unsupported"})]


def test_means_that_come_and_go_are_not_told_each_time(told: Told) -> None:
    """An engine with a request now and then; the newest state is told in the end."""
    said = []
    for round_ in range(120):
        told.t = round_ * 5.0
        said += told.of(**({"ttft_mean_s": "not_found"} if round_ % 2 else {}))

    assert 10 <= len(said) <= 120 * 5 / CALM_S + 1


def test_after_a_loss_and_with_a_new_boot_all_is_told_again(told: Told) -> None:
    """What was told may not have arrived."""
    told.of(kv_cache_used="unsupported")
    told.reset()

    assert told.of(kv_cache_used="unsupported") == [EngineAbsence(URL, None, {"kv_cache_used": "unsupported"})]


def test_an_engine_that_is_gone_is_forgotten() -> None:
    """The next one at its address is told anew; a recording tells no reasons at all."""
    told = Told()
    told.of(kv_cache_used="unsupported")
    told.news(Engines(), [])
    assert len(told.of(kv_cache_used="unsupported")) == 1
    recorded = Engines(name=[URL], kind=["vllm"], model=["m"], pid=[None], values=[[None]] * len(ENGINE))

    assert told.news(recorded, []).absent == []
