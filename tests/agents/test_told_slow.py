"""Slow metrics travel when they are read, not with every tick."""

from agents.source import GPU
from agents.told_slow import ToldSlow
from wire.messages import Cell
from wire.metrics import HELD, SLOW_S


def tick(**values: Cell) -> list[list[Cell]]:
    """The columns of one GPU; what is not named is 1."""
    return [[values.get(name, 1)] for name in GPU]


def told(columns: list[list[Cell]]) -> set[str]:
    """The metrics whose column is there."""
    return {name for name, column in zip(GPU, columns, strict=True) if column}


class Clock:
    """Seconds that the test counts."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_they_are_told_once_and_again_when_one_changes_or_it_is_time() -> None:
    """A reading that became absent is a change; what is fast is told each time."""
    clock = Clock()
    slow = ToldSlow(clock)
    kinds = []
    for values in (
        {},
        {"power_w": 2},
        {"power_limit_w": 600},
        {"power_limit_w": 600},
        {"power_limit_w": None},
        {"power_limit_w": None},
    ):
        kinds.append(told(slow.news(tick(**values), holds=True)))
        clock.now += 1
    clock.now += SLOW_S
    kinds.append(told(slow.news(tick(power_limit_w=None), holds=True)))
    every, fast = set(GPU), set(GPU) - HELD

    assert kinds == [every, fast, every, fast, every, fast, every]


def test_a_server_that_does_not_hold_them_is_told_each_time() -> None:
    """One from before it could, and while none has answered yet."""
    slow = ToldSlow(Clock())
    for _ in range(3):
        assert told(slow.news(tick(), holds=False)) == set(GPU)
    assert told(slow.news(tick(), holds=True)) == set(GPU) - HELD


def test_after_a_loss_all_is_told_again() -> None:
    """What was told may not have arrived."""
    slow = ToldSlow(Clock())
    slow.news(tick(), holds=True)
    slow.reset()

    assert told(slow.news(tick(), holds=True)) == set(GPU)


def test_the_readings_themselves_stay_as_they_are() -> None:
    """Others read the same tick: the node's pages and its exporter."""
    slow, columns = ToldSlow(Clock()), tick()
    slow.news(columns, holds=True)
    slow.news(columns, holds=True)

    assert columns == tick()
