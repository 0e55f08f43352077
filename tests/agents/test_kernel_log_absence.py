"""That the kernel's log is not read is told like an absent reading, once, and taken back."""

from agents.source import Absences, Tick
from wire.messages import KERNEL_LOG, AbsentChange
from wire.metrics import sent


def tick(reason: str | None) -> Tick:
    """A second of a node without GPUs."""
    hosts = len(list(sent("host")))
    return Tick(gpu=[], gpu_reasons=[], host=[None] * hosts, host_reasons=[None] * hosts, kernel_log_reason=reason)


def test_a_log_that_is_not_read_any_more_is_told_once_and_taken_back() -> None:
    """The server may say then that XIDs go unseen; after a lost batch it is told anew."""
    absences = Absences()
    told = [absences.changes(tick(reason)) for reason in (None, "not_found", "not_found", None)]

    assert told == [[], [AbsentChange(-1, KERNEL_LOG, "not_found")], [], [AbsentChange(-1, KERNEL_LOG, None)]]
    absences.changes(tick("not_found"))
    absences.reset()
    assert absences.changes(tick("not_found")) == [AbsentChange(-1, KERNEL_LOG, "not_found")]
