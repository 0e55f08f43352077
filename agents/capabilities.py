"""What each model of GPU answered before: an upgrade of the driver or of the agent that takes metrics away is told of.

One small JSON file, beside the spool; without one the memory lasts as long as the agent.
"""

import logging
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct, field

from agents import own_file
from agents.source import GPU
from agents.worker import Worker
from wire.messages import GpuFacts

log = logging.getLogger(__name__)


class Lost(NamedTuple):
    """Metrics that were answered before and are not now."""

    driver: str
    agent: str
    """Versions of the driver and of the agent that told them; empty where an agent from before this was kept did."""
    names: tuple[str, ...]


class _Known(Struct):
    driver: str
    answers: list[str] = field(default_factory=list)
    agent: str = ""


class Capabilities:
    """By model and MIG mode: the driver and the agent that were last seen, and the metrics that they answered.

    `agent` is this agent's version.
    """

    def __init__(self, file: Path | None = None, agent: str = "") -> None:
        self._file = file
        self._agent = agent
        self._worker = Worker("capabilities")
        self._known: dict[str, _Known] = {}
        if file is None:
            return
        try:
            self._known = msgspec.json.decode(own_file.read(file), type=dict[str, _Known])
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            log.warning("%s is not read, what GPUs answered before is not known: %s", file, error)

    def compare(self, facts: GpuFacts, driver: str | None, answers: set[str]) -> Lost | None:
        """Remember what a GPU answers; what another driver or agent told before and this one does not, None where that is nothing.

        What this agent has no metric for any more was given up on purpose.
        """
        if driver is None:
            return None
        mode = "instance" if facts.parent_uuid else {True: "split", False: "whole", None: "no MIG"}[facts.mig_mode]
        key = f"{facts.name}, {mode}"
        before = self._known.get(key)
        if before is not None and (before.driver, before.agent) == (driver, self._agent):
            new = answers.difference(before.answers)
            if new:
                before.answers = sorted(new.union(before.answers))
                self._keep()
            return None
        self._known[key] = _Known(driver, sorted(answers), self._agent)
        self._keep()
        if before is None:
            return None
        lost = tuple(name for name in before.answers if name not in answers and name in GPU)
        return Lost(before.driver, before.agent, lost) if lost else None

    def _keep(self) -> None:
        """Write the file, in a thread of its own: a disk that hangs holds nothing up."""
        file, content = self._file, msgspec.json.encode(self._known)
        if file is None or self._worker.busy:
            return

        def job() -> None:
            part = file.with_name(file.name + ".part")
            try:
                part.write_bytes(content)
                part.replace(file)
            except OSError as error:
                log.warning("%s is not written: %s", file, error.strerror or error)

        self._worker.start(job, lambda: None)
