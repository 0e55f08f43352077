"""Several words for one second of one thing, sent before VictoriaMetrics shows the one before: one of them counts, whole."""

import logging
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl
import pytest

from fleet.store.endpoint import Access, Endpoint
from fleet.store.victoria import VictoriaSeries
from fleet.store.victoria_durable import UNSEEN_S, Watch
from tests.fleet.store.servers import Program, running, victoria, victoria_program

T: Final = 1_790_000_000
FIRST: Final = {"power_w": 100.0, "temperature_c": 50.0}
SECOND: Final = {"power_w": 300.0, "sm_clock_mhz": 1500}
THIRD: Final = {"power_w": 500.0, "sm_active": 0.5}
NAMES: Final = ["power_w", "temperature_c", "sm_clock_mhz", "sm_active"]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """A VictoriaMetrics of this test's own."""
    with running(victoria_program(tmp_path)) as one:
        yield one


def say(store: VictoriaSeries, entity: int, word: dict[str, float], ts: int = T) -> None:
    """Send a row; what was sent is not waited for."""
    store.send({"gpu": pl.DataFrame({"entity": [entity], "ts": [ts], **word})})


def show(program: Program, key: str = "") -> None:
    """Have it show all that it took."""
    urllib.request.urlopen(f"{program.url}/internal/force_flush?authKey={key}", timeout=10).close()


def kept(program: Program, entity: int, key: str = "") -> list[tuple[float | None, ...]]:
    """The values that count, read by who wrote none of them."""
    show(program, key)
    found = victoria(program.url, f"fleet-{entity}").window("gpu", T, T + 1, [entity], NAMES)
    rows: list[tuple[float | None, ...]] = found.select(NAMES).rows()
    return rows


def writer(program: Program, entity: int) -> VictoriaSeries:
    """An engine of a process of its own; no reader has asked for its fleet's series."""
    return victoria(program.url, f"fleet-{entity}")


@pytest.mark.parametrize("is_new", [True, False])
def test_the_later_of_two_words_that_are_sent_seconds_apart_counts_whole(program: Program, is_new: bool) -> None:
    """Of series that were just made and of those that are known, however long after the word before."""
    stores = {entity: writer(program, entity) for entity in range(1, 9)}
    if not is_new:
        for entity, store in stores.items():
            say(store, entity, {**FIRST, **SECOND}, T - 60)
        show(program)
    for entity, store in stores.items():
        say(store, entity, FIRST)
        if entity % 2:  # again, so that the server is asked, and remembers that there is nothing, before the series show
            say(store, entity, FIRST)
        time.sleep(0.2 * entity)
        say(store, entity, SECOND)

    assert {entity: kept(program, entity) for entity in stores} == {entity: [(300.0, None, 1500.0, None)] for entity in stores}


def test_the_words_of_two_processes_mix_no_values_and_the_later_counts(program: Program) -> None:
    """A node that goes from one process to another and back within a moment, each with another word for the same second."""
    for entity in range(1, 5):
        one, other = writer(program, entity), writer(program, entity)
        say(one, entity, FIRST)
        say(one, entity, SECOND)
        say(other, entity, THIRD)
        if entity % 2:
            assert kept(program, entity) == [(500.0, None, None, 0.5)]
        else:
            one.forget("gpu", [entity])
            say(one, entity, FIRST)
            assert kept(program, entity) == [(100.0, 50.0, None, None)]


def test_the_same_word_is_not_sent_twice(program: Program) -> None:
    """What comes again a moment later, as from an agent that has connected anew, leaves one sample."""
    store = writer(program, 1)
    for _ in range(3):
        say(store, 1, FIRST)
    show(program)
    asked = f"{program.url}/api/v1/export?match[]=fettle_gpu_power_w&start={T}&end={T + 1}"
    with urllib.request.urlopen(asked, timeout=10) as answer:
        (line,) = answer.read().splitlines()

    assert line.count(b"100") == 1


def test_a_server_that_does_not_show_what_it_took_when_asked_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its flush needs a key that we have not: rows that may be there wait until they show. That is said once."""
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        time.sleep(seconds)

    with running(victoria_program(tmp_path, "-forceFlushAuthKey=a-key")) as program, caplog.at_level(logging.WARNING):
        server = Endpoint(program.url, Access(), "VictoriaMetrics")
        watch = Watch([Endpoint(program.url + "/metrics", Access(), "VictoriaMetrics")], wait)
        store = VictoriaSeries(server, server, watch, "fleet-1")
        for word in (FIRST, SECOND):
            say(store, 1, word)
        say(store, 1, FIRST, T + 1)  # newer than all: it waits for nothing
        assert kept(program, 1, "a-key") == [(300.0, None, 1500.0, None)]
    assert waited == [UNSEEN_S, UNSEEN_S]
    (said,) = [record.getMessage() for record in caplog.records if record.name == "fleet.store.victoria_durable"]
    assert said.startswith("Rows that may be stored already wait for 5 s until that can be asked: VictoriaMetrics at")
    assert "/internal/force_flush refuses the request" in said


def test_a_page_of_metrics_at_another_address_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """A proxy may give the page any name; then nobody knows where to ask."""
    waited: list[float] = []
    Watch([Endpoint("http://127.0.0.1:9/status", Access(), "VictoriaMetrics")], waited.append).show()

    assert waited == [UNSEEN_S]
    assert "does not end with /metrics" in caplog.text
