"""This machine's GPUs: the driver that shows them, each read with a deadline, in a thread that only a GPU that hangs keeps.

A driver call that hangs costs that GPU's readings and nothing else. Where the driver cannot be used, it is tried again for ever;
a GPU that is lost, comes back, or is switched to MIG keeps its place in the columns and is told of.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from msgspec import structs

from agents.capabilities import Capabilities
from agents.device import SLOW_S, DeviceEvent, Driver, Versions
from agents.gpu_slot import MAX_GPUS, Opened, Round, Rows, Slot, Stock, add_account, instance, numbered
from agents.kept_driver import KeptDriver
from agents.source import GPU
from wire.messages import Cell, Hold

log = logging.getLogger(__name__)

DEAD_TICKS: Final = 3
"""After so many ticks without a single reading of any GPU the driver is opened anew: it was reloaded."""
KNOWN_AFTER: Final = 3
"""After so many ticks everything was asked once, means too: what is `unsupported` then is so for good."""
_WIDTH: Final = len(GPU)


class Gpus:
    """All GPUs of one driver; None: there is none to ask.

    `stock` is another object once GPUs came or changed, or once their counters may have begun anew.
    """

    def __init__(
        self, driver: Driver | None, deadline_s: float, slow_s: float = SLOW_S, capabilities: Capabilities | None = None
    ) -> None:
        self.stock = Stock()
        self._kept = KeptDriver(driver, self, deadline_s)
        self._deadline_s = deadline_s
        self._slow_s = slow_s
        self._versions = Versions()
        self._capabilities = Capabilities() if capabilities is None else capabilities
        self._paused_until = float("-inf")
        self._slots: list[Slot] = []
        self._dead_ticks = 0
        self._split_anew = False

    @property
    def state(self) -> str:
        """The driver's state, a key of `agents.device.DRIVER_STATES`."""
        return self._kept.state

    @property
    def state_detail(self) -> str:
        """What is wrong with the driver and what to do; empty where nothing is."""
        return self._kept.detail

    def notify(self, on_event: Callable[[], None]) -> None:
        """Call `on_event`, in any thread, as soon as the driver reports something."""
        self._kept.notify(on_event)

    def events(self) -> list[DeviceEvent]:
        """What the driver reported and what was found out about it since the call before."""
        return self._kept.events()

    def count_xid(self, uuid: str) -> None:
        """One more XID of this GPU, whoever reported it."""
        for slot in self._slots:
            if slot.facts.uuid == uuid:
                slot.xids += 1
                slot.reader.xids = slot.xids

    @property
    def labels(self) -> list[dict[str, str]]:
        """Who uses each GPU, in keys of `wire.labels.GPU_LABELS`; only dcgm-exporter tells."""
        return [getattr(slot.reader, "labels", {}) for slot in self._slots]

    @property
    def hangs(self) -> bool:
        """True while a driver call does not come back: the interpreter's own exit might wait for it."""
        return self._kept.is_busy or self.is_reading

    @property
    def has_any(self) -> bool:
        """True once a GPU was seen."""
        return bool(self._slots)

    @property
    def is_reading(self) -> bool:
        """True while the reading of a GPU does not come back."""
        return any(slot.is_reading for slot in self._slots)

    @property
    def wants_anew(self) -> bool:
        """True where the driver has to be opened anew though it answers: a GPU is lost, or was split."""
        return self._split_anew or any(slot.lost for slot in self._slots)

    def pause_profiling(self, until: float) -> None:
        """Leave the profiling counters of all GPUs to others until monotonic second `until`; they are let go with the next tick.

        A second that is over takes them up again.
        """
        self._paused_until = until
        for slot in self._slots:
            slot.reader.pause_profiling(until)

    async def release(self, until: float) -> bool:
        """Let the driver go until monotonic second `until`: it can be unloaded, and a GPU be reset. True when it is let go.

        False where a call does not come back: then it is let go as soon as it does. A second that is over takes the driver up
        again with the next tick.
        """
        return await self._kept.release(until)

    async def begin(self) -> "asyncio.Future[None] | None":
        """Start a tick's readings; a future that is done when all are, or at the deadline. None: nothing to wait for."""
        await self._kept.keep_open()
        ready = [slot for slot in self._slots if not slot.is_reading and not slot.gone]
        return Round(ready, time.monotonic(), self._deadline_s).future if ready and self._kept.is_readable else None

    def rows(self) -> Rows:
        """What the readings brought."""
        rows = Rows([], [], [], [], {})
        for number, slot in enumerate(self._slots):
            values, why = self._row(slot)
            self._notice(slot, why)
            rows.values.append(values)
            rows.reasons.append(why)
            unread = self._unread(slot)
            rows.holds_reasons.append(unread or slot.reader.holds_reason)
            if unread is None:
                for pid, used in slot.reader.holds:
                    rows.holds.append(Hold(number, pid, used))
                    add_account(rows.accounts.setdefault(pid, {}), slot.reader.accounts.of(pid))
        self._watch_death()
        self._watch_modes()
        return rows

    async def close(self) -> None:
        """Stop watching and let the driver go, within a second; a thread that hangs is left to the exit."""
        await self._kept.close()
        for slot in self._slots:
            slot.worker.close()

    def _row(self, slot: Slot) -> tuple[list[Cell], list[str | None]]:
        """One GPU's values and reasons."""
        late = slot.worker.busy
        if late != slot.late and not self._kept.is_opening:
            slot.late = late
            text = "does not answer in time" if late else "answers again"
            self._kept.tell("driver", slot.facts.uuid, f"The driver {text} for GPU {slot.facts.index}.")
        unread = self._unread(slot)
        if unread is not None:
            return [None] * _WIDTH, [unread] * _WIDTH
        reader = slot.reader
        lost = reader.is_lost
        if lost != slot.lost:
            slot.lost = lost
            if lost:
                self._kept.tell("gpu_lost", slot.facts.uuid, f"GPU {slot.facts.index} is lost: the driver no longer reaches it.")
                self._kept.retry_soon()
            else:
                self._kept.tell("gpu_back", slot.facts.uuid, f"GPU {slot.facts.index} answers again.")
        values, why = list(reader.values), list(reader.reasons)
        slot.withdraw_frozen(values, why, self._kept.tell)
        return values, why

    def _notice(self, slot: Slot, why: list[str | None]) -> None:
        """Tell what another profiler took, and what another driver no longer answers."""
        busy = "profiler_busy" in why
        if busy != slot.busy and (busy or slot.reader.answered):
            slot.busy = busy
            text = "are held by another profiler; they are asked for again now and then" if busy else "are free again"
            self._kept.tell("driver", slot.facts.uuid, f"The profiling counters of GPU {slot.facts.index} {text}.")
        slot.read += slot.reader.answered
        if slot.read != KNOWN_AFTER or slot.late or slot.lost:
            return
        slot.read += 1
        answers = {name for name, reason in zip(GPU, why, strict=True) if reason != "unsupported"}
        lost = self._capabilities.compare(slot.facts, self._versions.driver, answers)
        if lost is not None:
            driver = self._versions.driver
            now, then = f"Driver {driver} does not answer", lost.driver
            if lost.driver == driver:
                now, then = "This version of the agent does not read", lost.agent or "the one before"
            names = ", ".join(lost.names)
            self._kept.tell("driver", slot.facts.uuid, f"{now} what {then} did for {slot.facts.name}: {names}.")

    def _unread(self, slot: Slot) -> str | None:
        """Why nothing of this GPU is known in this tick, its processes least of all; None where its collector says."""
        if self._kept.is_opening:
            return "gpu_lost" if slot.lost else self._kept.silence
        if self.state == "released":
            return "paused"
        return "timeout" if slot.late else None

    def _watch_death(self) -> None:
        """Open the driver anew when no GPU has answered anything for a while, though none is called lost or late."""
        slots = self._slots
        if self._kept.is_opening or self.state != "ok" or any(slot.reader.answered or slot.lost or slot.late for slot in slots):
            self._dead_ticks = 0
            return
        self._dead_ticks += 1
        if self._dead_ticks >= DEAD_TICKS:
            self._dead_ticks = 0
            self._kept.give_up()

    def fail(self, reason: str) -> None:
        """Nothing can be read, for `reason`; a GPU that is lost stays so, unless the driver was let go."""
        for slot in self._slots:
            slot.reader.fail("gpu_lost" if slot.lost and reason != "paused" else reason)

    def attach(self, opened: Opened, was_ok: bool) -> None:
        """Read from these devices from now on; a GPU that was known keeps its place."""
        known = {slot.facts.uuid: slot for slot in self._slots}
        reloaded = bool(known) and not was_ok
        answering: set[str] = set()
        for device in opened.devices:
            uuid = device.facts.uuid
            if uuid in answering:
                log.warning("Two GPUs say that they are %s; the second one is left out.", uuid)
                continue
            answering.add(uuid)
            slot = known.get(uuid)
            if slot is None:
                slot = Slot(numbered(device.facts, self._slots), device, self._slow_s)
                self._slots.append(slot)
                if known and device.facts.parent_uuid is not None:
                    self._kept.tell("driver", uuid, f"{instance(slot.facts)} was created.")
            else:
                # NVML renumbers when a card is gone; a GPU keeps the number under which it is known
                slot.facts = structs.replace(device.facts, index=slot.facts.index)
                slot.attach(device)
            slot.reader.pause_profiling(self._paused_until)
        self._split_anew = False
        for slot in list(self._slots):
            if slot.facts.uuid in answering:
                continue
            if slot.facts.parent_uuid in answering:  # its card is there, it is not: the slice was taken away
                slot.worker.close()
                self._slots.remove(slot)
                self._kept.tell("driver", slot.facts.uuid, f"{instance(slot.facts)} was destroyed.")
                continue
            slot.reader.fail("gpu_lost")
            slot.gone = True
        self._forget_gone()
        self._versions = opened.versions
        self._take_stock(reloaded)

    def _forget_gone(self) -> None:
        """Keep no more places than a node may have: of GPUs that are not listed any more the first one goes first."""
        gone = [slot for slot in self._slots if slot.gone]
        for slot in gone[: max(0, len(self._slots) - MAX_GPUS)]:
            slot.worker.close()
            self._slots.remove(slot)
            self._kept.tell("driver", slot.facts.uuid, f"GPU {slot.facts.index} is gone, and its place is taken by others.")

    def _take_stock(self, is_new_epoch: bool = False) -> None:
        """Make the stock anew where it changed, or where counters may have begun anew: a hello of its own follows."""
        stock = Stock(tuple(slot.facts for slot in self._slots), self._versions)
        if is_new_epoch or stock != self.stock:
            self.stock = stock

    def _watch_modes(self) -> None:
        """A GPU that was switched to or from MIG is another card to the server; its instances are found by looking anew.

        Whether processes are accounted is a fact of it too.
        """
        for slot in self._slots:
            if slot.reader.instances != slot.instances and not slot.lost:
                slot.instances = slot.reader.instances
                self._split_anew = True
                self._kept.retry_at_once()
            mode = slot.reader.mig_mode
            if mode is not None and mode != slot.facts.mig_mode and not slot.lost:
                slot.facts = structs.replace(slot.facts, mig_mode=mode)
                self._kept.tell(
                    "driver", slot.facts.uuid, f"MIG was switched {'on' if mode else 'off'} on GPU {slot.facts.index}."
                )
                self._take_stock()
            accounting = slot.reader.accounts.mode
            if accounting is not None and accounting != slot.facts.accounting_mode:
                slot.facts = structs.replace(slot.facts, accounting_mode=accounting)
                self._take_stock()
