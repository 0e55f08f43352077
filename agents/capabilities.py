"""What each model of GPU answered under the driver before: an upgrade that takes metrics away is told of.

One small JSON file, beside the spool; without one the memory lasts as long as the agent.
"""

import logging
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct, field

from agents.worker import Worker
from wire.messages import GpuFacts

log = logging.getLogger(__name__)


class Lost(NamedTuple):
    """Metrics that the driver before answered and this one does not."""

    driver: str
    names: tuple[str, ...]


class _Known(Struct):
    driver: str
    answers: list[str] = field(default_factory=list)


class Capabilities:
    """By model and MIG mode: the driver that was last seen, and the metrics that it answered."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._worker = Worker("capabilities")
        self._known: dict[str, _Known] = {}
        if file is None:
            return
        try:
            self._known = msgspec.json.decode(file.read_bytes(), type=dict[str, _Known])
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            log.warning("%s is not read, what GPUs answered before is not known: %s", file, error)

    def compare(self, facts: GpuFacts, driver: str | None, answers: set[str]) -> Lost | None:
        """Remember what a GPU answers; what another driver answered before and this one does not, None where that is nothing."""
        if driver is None:
            return None
        mode = "instance" if facts.parent_uuid else {True: "split", False: "whole", None: "no MIG"}[facts.mig_mode]
        key = f"{facts.name}, {mode}"
        before = self._known.get(key)
        if before is not None and before.driver == driver:
            new = answers.difference(before.answers)
            if new:
                before.answers = sorted(new.union(before.answers))
                self._keep()
            return None
        self._known[key] = _Known(driver, sorted(answers))
        self._keep()
        if before is None:
            return None
        lost = tuple(name for name in before.answers if name not in answers)
        return Lost(before.driver, lost) if lost else None

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
