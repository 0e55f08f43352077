"""What the driver and the kernel's log both report is one event."""

from collections import Counter
from collections.abc import Callable

import pytest

from agents.device import DeviceEvent
from agents.merged_events import HOLD_S, LOST_S, MERGE_S, MergedEvents


class Source:
    """Events that a test says."""

    def __init__(self) -> None:
        self.is_read = True
        self.said: list[DeviceEvent] = []

    def notify(self, on_event: Callable[[], None]) -> None:
        """Nobody waits."""

    def events(self) -> list[DeviceEvent]:
        said, self.said = self.said, []
        return said


class Node:
    """A driver, a log, and what becomes of their events."""

    def __init__(self) -> None:
        self.t = 100.0
        self.driver, self.log = Source(), Source()
        self.counts: Counter[str] = Counter()
        self.merged = MergedEvents(self.driver, self.log, self.count, lambda: self.t)

    def count(self, uuid: str) -> None:
        self.counts[uuid] += 1

    def texts(self, seconds: float = 0.0) -> list[str]:
        """What is told after so long."""
        self.t += seconds
        return [event.text for event in self.merged.events()]


def xid(text: str, code: int = 79, uuid: str | None = "GPU-a") -> DeviceEvent:
    """An XID."""
    return DeviceEvent("xid", uuid, code, text)


def lost(text: str, kind: str = "gpu_lost") -> DeviceEvent:
    """A lost GPU."""
    return DeviceEvent(kind, "GPU-a", None, text)


@pytest.fixture
def node() -> Node:
    """Nothing happened yet."""
    return Node()


def test_an_xid_of_both_sides_is_one_with_the_richer_text(node: Node) -> None:
    """The driver is first: its event waits a moment for the log's."""
    node.driver.said = [xid("driver")]
    assert node.texts() == []
    node.log.said = [xid("log")]

    assert node.texts(HOLD_S / 2) == ["log"]
    assert node.texts(MERGE_S) == []
    assert node.counts == {"GPU-a": 1}


def test_the_log_is_first_and_the_driver_adds_nothing(node: Node) -> None:
    """Told at once, counted once."""
    node.log.said = [xid("log")]
    assert node.texts() == ["log"]
    node.driver.said = [xid("driver")]

    assert node.texts(MERGE_S - 1) == []
    assert node.texts(MERGE_S) == []
    assert node.counts == {"GPU-a": 1}


def test_the_drivers_event_does_not_wait_for_ever(node: Node) -> None:
    """A log that says nothing of it; what comes too late is another one."""
    node.driver.said = [xid("driver")]
    assert node.texts() == []
    assert node.texts(HOLD_S) == ["driver"]
    node.log.said = [xid("log")]
    assert node.texts(HOLD_S) == []
    node.log.said = [xid("later")]

    assert node.texts(MERGE_S + 1) == ["later"]
    assert node.counts == {"GPU-a": 2}


def test_without_a_log_the_driver_tells_at_once(node: Node) -> None:
    """There is nothing to wait for; and where the driver tells none, the log alone counts."""
    node.log.is_read = False
    node.driver.said = [xid("driver")]
    assert node.texts() == ["driver"]
    node.log.said = [xid("log", 48)]

    assert node.texts() == ["log"]
    assert node.counts == {"GPU-a": 2}


def test_other_codes_and_other_gpus_are_other_events(node: Node) -> None:
    """Two cards may fall at once, and one fault has several codes."""
    node.log.said = [xid("a 79"), xid("b 79", uuid="GPU-b"), xid("a 154", 154), xid("who", uuid=None)]
    node.driver.said = [xid("driver b", uuid="GPU-b"), xid("driver who", uuid=None)]

    assert node.texts() == ["a 79", "b 79", "a 154", "who"]
    assert node.texts(HOLD_S) == ["driver who"]
    assert node.counts == {"GPU-a": 2, "GPU-b": 1}


def test_a_storm_is_counted_as_often_as_one_side_saw_it(node: Node) -> None:
    """Pairs are one to one: 2,500 of the log and 900 of the driver are 2,500; of many that wait none is lost."""
    node.log.said = [xid("log", 45)] * 2500
    assert len(node.texts()) == 2500
    node.driver.said = [xid("driver", 45)] * 900
    assert node.texts() == []
    assert node.counts == {"GPU-a": 2500}
    node.driver.said = [xid("driver", 13)] * 12_000
    told = len(node.texts())

    assert told + len(node.texts(HOLD_S)) == 12_000


def test_a_lost_gpu_is_told_once_until_it_is_back(node: Node) -> None:
    """The kernel's text, the driver's event and the missing card are three witnesses of one thing (D01)."""
    node.log.said = [xid("XID 79"), lost("text")]
    assert node.texts() == ["XID 79", "text"]
    node.driver.said = [lost("inventory")]
    assert node.texts(2) == []
    node.log.said = [lost("text again")]
    assert node.texts(10 * LOST_S) == []
    node.driver.said = [lost("back", "gpu_back"), lost("lost anew")]

    assert node.texts() == ["back", "lost anew"]


def test_a_loss_that_the_log_alone_told_of_may_come_again(node: Node) -> None:
    """Nobody says when such a card is back."""
    node.log.said = [lost("first")]
    assert node.texts() == ["first"]
    node.log.said = [lost("still")]
    assert node.texts(LOST_S / 2) == []
    node.log.said = [lost("again")]

    assert node.texts(LOST_S + 1) == ["again"]
