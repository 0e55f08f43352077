"""Readers that may hang: the tick goes on without them."""

import threading
import time
from collections.abc import Iterator, Mapping

import pytest

from agents.collectors.slow import DEADLINE_S, Slow
from wire.metrics import Number


class Given:
    """A reader that answers how often it was asked, and hangs while `gate` is not set."""

    names = ("shm_used_bytes",)

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.asked = 0
        self.closed = threading.Event()
        self.error: Exception | None = None

    def read(self) -> Mapping[str, Number | str]:
        self.asked += 1
        self.gate.wait(30)
        if self.error is not None:
            raise self.error
        return {"shm_used_bytes": self.asked}

    def close(self) -> None:
        self.closed.set()


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.t = 0.0

    def __call__(self) -> float:
        return self.t


@pytest.fixture
def given() -> Iterator[Given]:
    """Let go at the end, whatever happened."""
    reader = Given()
    yield reader
    reader.gate.set()


def until(slow: Slow, answer: Number | str) -> None:
    """Wait until the thread brought this answer."""
    for _ in range(500):
        if slow.read()["shm_used_bytes"] == answer:
            return
        time.sleep(0.01)
    raise AssertionError(slow.read())


def test_answers_last_until_the_next_reading_is_due(given: Given) -> None:
    """Fifteen seconds of ticks ask once."""
    clock = Hand()
    slow = Slow(given, 15, clock)
    until(slow, 1)
    for _ in range(14):
        clock.t += 1
        slow.read()
    assert given.asked == 1
    clock.t += 1
    until(slow, 2)
    slow.close()


def test_a_reading_that_hangs_is_a_timeout_and_blocks_nobody(given: Given) -> None:
    """A mount whose server is gone; the last answers stand until the deadline, and it is back when it returns."""
    clock = Hand()
    slow = Slow(given, 15, clock)
    until(slow, 1)
    given.gate.clear()
    clock.t = 15
    slow.read()
    assert slow.read()["shm_used_bytes"] == 1
    clock.t += DEADLINE_S + 1
    assert slow.read()["shm_used_bytes"] == "timeout"
    given.gate.set()

    until(slow, 2)
    slow.close()


@pytest.mark.parametrize(
    ("error", "reason"),
    [(FileNotFoundError(), "unsupported"), (PermissionError(), "not_permitted"), (ValueError("text"), "not_a_number")],
)
def test_what_cannot_be_read_has_a_reason(given: Given, error: Exception, reason: str) -> None:
    """Each in the registry's words."""
    given.error = error
    slow = Slow(given)
    until(slow, reason)
    slow.close()

    assert given.closed.is_set()


def test_closing_does_not_wait_for_what_hangs(given: Given) -> None:
    """Its files are closed by the thread itself, if it ever comes back."""
    given.gate.clear()
    slow = Slow(given)
    slow.read()
    slow.close()
    assert not given.closed.is_set()
    given.gate.set()

    assert given.closed.wait(10)


def test_a_defect_in_a_reader_makes_its_readings_absent_and_no_others(
    given: Given, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What was read before it is not told for ever; it is logged once, and readings come back with it."""
    monkeypatch.setattr("agents.collectors.slow._told", set())
    clock = Hand()
    one = Slow(given, 1.0, clock)
    until(one, 1)
    given.error = KeyError("a defect")
    clock.t = 2.0
    until(one, "not_a_number")
    clock.t = 4.0
    one.read()
    for _ in range(500):
        if given.asked >= 3:
            break
        time.sleep(0.01)
    given.error = None
    clock.t = 6.0
    for _ in range(500):
        if isinstance(one.read()["shm_used_bytes"], int):
            break
        time.sleep(0.01)
    assert isinstance(one.read()["shm_used_bytes"], int)
    one.close()

    assert len([record for record in caplog.records if "shm_used_bytes could not be read" in record.message]) == 1
