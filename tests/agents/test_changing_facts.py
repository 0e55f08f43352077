"""Facts of the host that change while the agent runs: noticed by a slow look, told as other facts, not too often."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agents.changing_facts import EVERY_S, TELL_S, ChangingFacts
from agents.machine import Machine
from wire.messages import HostFacts


class Host:
    """A host whose governor a test changes, and the time."""

    def __init__(self) -> None:
        self.t = 0.0
        self.facts = HostFacts(cpu_governor="powersave", mem_total_bytes=100)
        self.looks = 0
        self.changing = ChangingFacts(self._read, lambda: self.t)

    def _read(self, gpus: tuple[object, ...]) -> HostFacts:
        self.looks += 1
        return self.facts

    def news(self, told: HostFacts) -> HostFacts | None:
        """What a tick is told, a look and a moment later."""
        self.changing.news(told, ())
        until(lambda: not self.changing._worker.busy)
        return self.changing.news(told, ())


def until(condition: Callable[[], bool]) -> None:
    """Wait for a thread."""
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


@pytest.fixture
def host() -> Host:
    """At the start of the agent."""
    return Host()


def test_a_changed_governor_is_news_once(host: Host) -> None:
    """The look comes a minute after the start; what was told is not told again."""
    told, host.facts = host.facts, HostFacts(cpu_governor="performance", mem_total_bytes=100)
    assert host.news(told) is None
    host.t = EVERY_S
    news = host.news(told)

    assert news == host.facts
    host.t = EVERY_S + TELL_S
    assert host.news(news) is None


def test_a_governor_that_goes_to_and_fro_makes_no_storm_of_hellos(host: Host) -> None:
    """Each hello costs a connection: one follows another after TELL_S, with the newest state."""
    told, hellos = host.facts, 0
    for minute in range(1, 61):
        host.t = minute * EVERY_S
        host.facts = HostFacts(cpu_governor=f"governor-{minute}", mem_total_bytes=100)
        news = host.news(told)
        if news is not None:
            told, hellos = news, hellos + 1

    assert hellos == 3600 / TELL_S
    assert host.looks == 60


def test_memory_that_a_balloon_moves_is_no_news(host: Host) -> None:
    """Virtual machines get and give memory all the time."""
    told, host.facts = host.facts, HostFacts(cpu_governor="powersave", mem_total_bytes=99)
    host.t = EVERY_S

    assert host.news(told) is None
    assert host.looks == 1


def test_facts_that_cannot_be_read_stand(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    """A defect there costs no tick."""
    told = host.facts
    host.changing._read = lambda gpus: HostFacts(cores=1 // 0)
    host.t = EVERY_S

    assert host.news(told) is None
    assert "are read again" in caplog.text


async def test_a_machine_says_hello_anew_when_its_governor_changed(tmp_path: Path) -> None:
    """Another inventory is another hello; the same facts are the same object."""
    place = tmp_path / "devices/system/cpu/cpu0/cpufreq/scaling_governor"
    place.parent.mkdir(parents=True)
    place.write_text("powersave\n")
    machine = Machine(None, sys=tmp_path)
    try:
        await machine.collect()
        before = machine.inventory
        place.write_text("performance\n")
        machine._changing._due = 0.0
        await machine.collect()
        assert machine.inventory is before or machine.inventory.host.cpu_governor == "performance"
        until(lambda: not machine._changing._worker.busy)
        await machine.collect()

        assert before.host.cpu_governor == "powersave"
        assert machine.inventory.host.cpu_governor == "performance"
    finally:
        await machine.close()
