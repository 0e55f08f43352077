"""Labels travel when a process is first told of, when they change, and after something was lost."""

from agents.loop import NodeLoop
from agents.source import Tick
from agents.spool import Spool
from agents.told_labels import BYTES_A_TICK, ToldLabels
from tests.agents.test_loop import Given, Hand, batches
from wire.messages import Labels, Processes


def processes(**labels: dict[str, str]) -> Processes:
    """Processes p1, p2 … with these labels; None of them for an empty dict."""
    pids = [int(name[1:]) for name in labels]
    told = [Labels(pid, words) for pid, words in zip(pids, labels.values(), strict=True) if words]
    return Processes(pid=pids, name=[""] * len(pids), user=[""] * len(pids), labels=told)


def test_labels_are_told_once_and_when_they_change() -> None:
    """And once as none at all, where a process has lost them."""
    told = ToldLabels()

    assert told.news(processes(p1={"pod": "a"}, p2={})).labels == [Labels(1, {"pod": "a"})]
    assert told.news(processes(p1={"pod": "a"}, p2={"pod": "b"})).labels == [Labels(2, {"pod": "b"})]
    assert told.news(processes(p1={"pod": "c"}, p2={})).labels == [Labels(1, {"pod": "c"}), Labels(2, {})]
    assert told.news(processes(p1={"pod": "c"}, p2={})).labels == []


def test_a_process_that_comes_back_is_told_again() -> None:
    """The server may have forgotten it; it may be another one."""
    told = ToldLabels()
    told.news(processes(p1={"pod": "a"}))
    told.news(processes())

    assert told.news(processes(p1={"pod": "a"})).labels == [Labels(1, {"pod": "a"})]


def test_what_does_not_fit_a_frame_goes_with_the_next_ticks() -> None:
    """Nothing is left out for good, however many there are."""
    told = ToldLabels()
    everything = processes(**{f"p{pid}": {f"env.NCCL_{i}": "x" * 200 for i in range(48)} for pid in range(1, 40)})
    rounds = []
    while news := told.news(everything).labels:
        assert sum(len(value) for one in news for value in one.labels.values()) <= BYTES_A_TICK
        rounds.append([one.pid for one in news])
    sent = [pid for one in rounds for pid in one]

    assert len(rounds) > 1
    assert sent == everything.pid


class Labelled(Given):
    """A source with one process."""

    async def collect(self) -> Tick:
        tick = await super().collect()
        tick.processes = processes(p7={"pod": "a"})
        return tick


class Losing:
    """As much of a sender as the loop asks, which has lost something before the third tick."""

    def __init__(self) -> None:
        self.ticks = 0
        self.holds = False

    def lost_some(self) -> bool:
        self.ticks += 1
        return self.ticks == 3

    def offer(self, kind: int, seq: int) -> None:
        """Nothing to send."""

    def begin(self) -> None:
        """Nothing to begin."""


async def test_the_loop_tells_labels_again_after_something_was_lost() -> None:
    """Like absences."""
    spool = Spool()
    node = NodeLoop("n", Labelled(), spool, Losing(), Hand())  # type: ignore[arg-type]
    for t in range(4):
        await node.tick(float(t))

    assert [[one.pid for one in batch.processes.labels] for batch in batches(spool)] == [[7], [], [7], []]
