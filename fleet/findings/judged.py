"""What one judgement of the fleet saw: which targets, by which rules, and what that says of a finding that is open."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from fleet.findings import witnesses
from fleet.findings.models import Finding
from fleet.findings.permitted import Permitted
from fleet.tuning.durations import AT_ONCE, Durations

JOB_GRACE: Final = timedelta(minutes=10)
"""How long a job may be away, from when its finding was last seen, and come back as the same: crash, queue and start take minutes."""
EVENT_QUIET: Final = timedelta(days=1)
"""How long a device must run without a repeat before what an event reported counts as clear, unless its rule says."""
QUIET: Final = timedelta(minutes=15)
"""How long a noisy finding must keep still: firing all the while, or clear all the while."""
COME_AND_GO: Final = ("job", "service")

Target: TypeAlias = tuple[str, str]  # scope, key


@dataclass(frozen=True, slots=True)
class Place:
    """Where a target lives."""

    node: int | None
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """What one fresh window judged: these targets, by these rules, less the pairs that lacked a metric."""

    rules: Collection[str] = frozenset()
    targets: Collection[Target] = frozenset()
    missing: Collection[tuple[str, str]] = frozenset()  # rule, target
    fresh_nodes: Collection[int] = frozenset()
    gpus: Collection[int] = frozenset()  # that gave values, and whose holders are known
    quiet: Mapping[str, timedelta] = field(default_factory=dict)  # by rule, for what events reported
    resting: Collection[Target] = frozenset()  # jobs of which no GPU worked
    unused: Collection[Target] = frozenset()  # jobs that hold GPUs, on which no process was listed
    over: Collection[Target] = frozenset()  # jobs that are not there, and of which their scheduler told the end
    may: Permitted | None = None  # None: every rule may say what it likes
    covers: timedelta = timedelta(minutes=5)  # how far back from its end the window saw
    durations: Durations = AT_ONCE

    def is_gone(self, row: Finding, gpus: Collection[int]) -> bool:
        """True for a job's or service's finding when node and every GPU of it, `gpus`, report, who holds them is known, and it does not.

        A job that still has its GPUs and runs nothing there is gone too, but for what idleness itself was found by.
        """
        if row.scope not in COME_AND_GO or row.origin == "event":
            return False
        if (row.scope, row.target) in self.targets:
            return (row.scope, row.target) in self.unused and row.bottleneck != "idle"
        return row.node_id in self.fresh_nodes and all(gpu in self.gpus for gpu in gpus)

    def saw_clear(self, row: Finding, at: datetime) -> bool:
        """True when the window shows that the trouble of the row is not there now; silence alone does not."""
        if (row.scope, row.target) not in self.targets:
            return False
        if (
            row.origin == "event"
        ):  # each of its witnesses has to say so: that telemetry reads well does not undo the kernel's word
            return self._judges(row) if witnesses.TELEMETRY & row.witnesses.keys() and row.rule in self.rules else True
        # One that does nothing shows no more than one that is away: it may be starting.
        if (row.scope, row.target) in self.resting and row.bottleneck != "idle" and at - row.last_seen_at < JOB_GRACE:
            return False
        return self._judges(row)

    def must_be_quiet(self, row: Finding) -> timedelta:
        """How long windows must have seen the row clear before it is over, beside being so twice."""
        held = QUIET if row.condition == "noisy" else timedelta()
        if row.origin != "event" or witnesses.is_over(row):
            return held
        return max(held, self.quiet.get(row.rule, EVENT_QUIET))

    def _judges(self, row: Finding) -> bool:
        return row.rule in self.rules and (row.rule, row.target) not in self.missing
