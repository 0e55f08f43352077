"""This machine's GPUs: the driver that shows them, each read in a thread of its own with a deadline.

A driver call that hangs costs that GPU's readings and nothing else. Where the driver cannot be used, it is tried again for ever;
a GPU that is lost, comes back, or is switched to MIG keeps its place in the columns and is told of.
"""

import asyncio
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import structs

from agents.capabilities import Capabilities
from agents.device import DRIVER_STATES, SLOW_S, DeviceError, DeviceEvent, Driver, DriverError, Versions
from agents.gpu_slot import Opened, Rows, Slot, Stock, add_account, instance, reading
from agents.source import GPU
from agents.worker import Worker
from wire.messages import Cell, GpuFacts, Hold

log = logging.getLogger(__name__)

OPEN_DEADLINE_S: Final = 30.0
RETRY_FIRST_S: Final = 5.0
RETRY_LAST_S: Final = 300.0
RELEASE_S: Final = 1.8
"""How long letting the driver go may take."""
DEAD_TICKS: Final = 3
"""After so many ticks without a single reading of any GPU the driver is opened anew: it was reloaded."""
KNOWN_AFTER: Final = 3
"""After so many ticks everything was asked once, means too: what is `unsupported` then is so for good."""
FIRST_INSTANCE: Final = 100
"""The first MIG instance of GPU 0 is number 100, of GPU 1 number 200."""
_EVENT_WAIT_MS: Final = 500
_WIDTH: Final = len(GPU)


class Gpus:
    """All GPUs of one driver; None: there is none to ask.

    `stock` is another object once GPUs came or changed, or once their counters may have begun anew.
    """

    def __init__(
        self, driver: Driver | None, deadline_s: float, slow_s: float = SLOW_S, capabilities: Capabilities | None = None
    ) -> None:
        self.state = "not_read"
        self.state_detail = ""
        self.stock = Stock()
        self._driver = driver
        self._deadline_s = deadline_s
        self._slow_s = slow_s
        self._versions = Versions()
        self._capabilities = Capabilities() if capabilities is None else capabilities
        self._released_until = self._paused_until = float("-inf")
        self._slots: list[Slot] = []
        self._opener = Worker("driver")
        self._retry_at = float("-inf")
        self._retry_s = RETRY_FIRST_S
        self._happened: deque[DeviceEvent] = deque(maxlen=10_000)  # the watcher's thread appends
        self._opening = False
        self._outcome: Opened | DriverError | None = None
        self._dead_ticks = 0
        self._split_anew = self._is_shut = False
        self._watcher: threading.Thread | None = None
        self._watching = threading.Event()
        self._on_event: Callable[[], None] = _nothing

    def notify(self, on_event: Callable[[], None]) -> None:
        """Call `on_event`, in any thread, as soon as the driver reports something."""
        self._on_event = on_event

    def events(self) -> list[DeviceEvent]:
        """What the driver reported and what was found out about it since the call before."""
        happened = []
        while self._happened:
            happened.append(self._happened.popleft())
        return happened

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
        return self._opener.busy or any(slot.worker.busy for slot in self._slots)

    def pause_profiling(self, until: float) -> None:
        """Leave the profiling counters of all GPUs to others until monotonic second `until`; they are let go with the next tick.

        A second that is over takes them up again.
        """
        self._paused_until = until
        for slot in self._slots:
            slot.reader.pause_profiling(until)

    async def release(self, until: float) -> bool:
        """Let the driver go until monotonic second `until`: it can be unloaded, and a GPU be reset. True when it is let go.

        False after RELEASE_S where a call does not come back: then it is let go as soon as it does. A second that is over takes
        the driver up again with the next tick.
        """
        self._released_until = until
        if until <= time.monotonic():
            self._retry_s, self._retry_at = RETRY_FIRST_S, float("-inf")
            return True
        return self._driver is None or await self._let_go(self._driver, RELEASE_S)

    async def _let_go(self, driver: Driver, seconds: float) -> bool:
        began = time.monotonic()
        while self.hangs and time.monotonic() - began < seconds - 1:
            await asyncio.sleep(0.02)
        if self.hangs or self._opening:
            return False
        if self.state == "ok":
            self._is_shut = False
            await self._in_time(self._shut(driver), began + seconds - time.monotonic())
            if not self._is_shut:
                return False
        self._enter("released", DRIVER_STATES["released"])
        for slot in self._slots:
            slot.reader.fail("paused")
        return True

    async def begin(self) -> "asyncio.Future[None] | None":
        """Start a tick's readings; a future that is done when all are, or at the deadline. None: nothing to wait for."""
        if self._driver is not None:
            await self._keep_open(self._driver)
        return self._start(time.monotonic())

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
        self._watching.clear()
        if self._driver is not None and self.state == "ok" and not self.hangs:
            await self._in_time(self._shut(self._driver), 0.9)
        for slot in self._slots:
            slot.worker.close()
        self._opener.close()

    def _start(self, now: float) -> "asyncio.Future[None] | None":
        if self._opening or self.state != "ok" or now < self._released_until:
            return None
        ready = [slot for slot in self._slots if not slot.worker.busy and not slot.gone]
        if not ready:
            return None
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        left = len(ready)
        lock = threading.Lock()
        timer = loop.call_later(self._deadline_s, _finish, future)

        def done() -> None:
            nonlocal left
            with lock:
                left -= 1
                last = left == 0
            if last:
                _soon(loop, finish)

        def finish() -> None:
            timer.cancel()
            _finish(future)

        for slot in ready:
            slot.worker.start(reading(slot.reader, now), done)
        return future

    def _row(self, slot: Slot) -> tuple[list[Cell], list[str | None]]:
        """One GPU's values and reasons."""
        late = slot.worker.busy
        if late != slot.late and not self._opening:
            slot.late = late
            text = "does not answer in time" if late else "answers again"
            self._happen("driver", slot.facts.uuid, f"The driver {text} for GPU {slot.facts.index}.")
        unread = self._unread(slot)
        if unread is not None:
            return [None] * _WIDTH, [unread] * _WIDTH
        reader = slot.reader
        lost = reader.is_lost
        if lost != slot.lost:
            slot.lost = lost
            if lost:
                self._happen("gpu_lost", slot.facts.uuid, f"GPU {slot.facts.index} is lost: the driver no longer reaches it.")
                self._retry_s = RETRY_FIRST_S
                self._retry_at = time.monotonic() + self._retry_s
            else:
                self._happen("gpu_back", slot.facts.uuid, f"GPU {slot.facts.index} answers again.")
        values, why = list(reader.values), list(reader.reasons)
        self._withdraw_frozen(slot, values, why)
        return values, why

    def _withdraw_frozen(self, slot: Slot, values: list[Cell], why: list[str | None]) -> None:
        """Make absent what cannot be true any more because it stands still."""
        frozen, now = [], time.monotonic()
        for standstill in slot.standstills:
            if standstill.look(values, now):
                what = f"The {standstill.group.name} of GPU {slot.facts.index}"
                text = "stand still, which those of a live card cannot" if standstill.is_frozen else "move again"
                self._happen("driver", slot.facts.uuid, f"{what} {text}.")
            if standstill.is_frozen:
                frozen.append(standstill)
        for standstill in frozen:  # only now: each group judges the whole row
            standstill.withdraw(values, why)

    def _notice(self, slot: Slot, why: list[str | None]) -> None:
        """Tell what another profiler took, and what another driver no longer answers."""
        busy = "profiler_busy" in why
        if busy != slot.busy and (busy or slot.reader.answered):
            slot.busy = busy
            text = "are held by another profiler; they are asked for again now and then" if busy else "are free again"
            self._happen("driver", slot.facts.uuid, f"The profiling counters of GPU {slot.facts.index} {text}.")
        slot.read += slot.reader.answered
        if slot.read != KNOWN_AFTER or slot.late or slot.lost:
            return
        slot.read += 1
        answers = {name for name, reason in zip(GPU, why, strict=True) if reason != "unsupported"}
        lost = self._capabilities.compare(slot.facts, self._versions.driver, answers)
        if lost is not None:
            text = f"Driver {self._versions.driver} does not answer what {lost.driver} did for {slot.facts.name}: "
            self._happen("driver", slot.facts.uuid, text + ", ".join(lost.names) + ".")

    def _unread(self, slot: Slot) -> str | None:
        """Why nothing of this GPU is known in this tick, its processes least of all; None where its collector says."""
        if self._opening:
            return "gpu_lost" if slot.lost else "driver_error"
        if self.state == "released":
            return "paused"
        return "timeout" if slot.late else None

    def _watch_death(self) -> None:
        """Open the driver anew when no GPU has answered anything for a while, though none is called lost or late."""
        slots = self._slots
        if self._opening or self.state != "ok" or any(slot.reader.answered or slot.lost or slot.late for slot in slots):
            self._dead_ticks = 0
            return
        self._dead_ticks += 1
        if self._dead_ticks >= DEAD_TICKS:
            self._dead_ticks = 0
            self._retry_s, self._retry_at = RETRY_FIRST_S, float("-inf")
            self._enter("driver_error", "no GPU answers any more; the driver may have been reloaded")
            for slot in slots:
                slot.reader.fail("driver_error")

    async def _keep_open(self, driver: Driver) -> None:
        """Open the driver when it is not, and again now and then while a GPU is lost."""
        if self._opening:
            self._take_outcome(driver)
            return
        if time.monotonic() < self._released_until:
            if self.state != "released":
                await self._let_go(driver, self._deadline_s)
            return
        if self.state == "ok" and not self._split_anew and not any(slot.lost for slot in self._slots):
            return
        if time.monotonic() < self._retry_at or self._opener.busy or any(slot.worker.busy for slot in self._slots):
            return
        first = self.state == "not_read"
        was_open = self.state == "ok" or (bool(self._slots) and self.state != "released")
        if not first:
            self._retry_s = min(RETRY_LAST_S, self._retry_s * 2)
        self._retry_at = time.monotonic() + self._retry_s * random.uniform(0.8, 1.2)  # noqa: S311 - jitter

        def job() -> None:
            try:
                if was_open:
                    self._shut(driver)()
                devices = driver.open()
                self._outcome = Opened(devices, driver.versions(), driver.unreachable())
            except DriverError as error:
                self._outcome = error
            except Exception as error:
                log.exception("The GPU driver could not be opened; it is tried again")
                self._outcome = DriverError("driver_error", str(error))

        self._opening = True
        # at the start it is worth waiting: the first hello should name the GPUs
        await self._in_time(job, OPEN_DEADLINE_S if first else self._deadline_s)
        self._take_outcome(driver)

    def _take_outcome(self, driver: Driver) -> None:
        """Go on with what opening the driver brought, if it came back."""
        if self._opener.busy:
            self._enter("timeout", DRIVER_STATES["timeout"])
            return
        outcome, self._outcome = self._outcome, None
        self._opening = False
        if isinstance(outcome, Opened):
            self._attach(driver, outcome)
            return
        error = outcome or DriverError("driver_error")
        self._enter(error.state, str(error))
        for slot in self._slots:
            slot.reader.fail("gpu_lost" if slot.lost else "driver_error")

    async def _in_time(self, job: Callable[[], None], seconds: float) -> bool:
        """Do `job` in the driver's thread; False when it took longer than `seconds` (it then goes on alone)."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, _finish, future)
        self._opener.start(job, lambda: _soon(loop, _finish, future))
        await future
        timer.cancel()
        return not self._opener.busy

    def _attach(self, driver: Driver, opened: Opened) -> None:
        known = {slot.facts.uuid: slot for slot in self._slots}
        reloaded = bool(known) and self.state != "ok"
        answering: set[str] = set()
        for device in opened.devices:
            uuid = device.facts.uuid
            if uuid in answering:
                log.warning("Two GPUs say that they are %s; the second one is left out.", uuid)
                continue
            answering.add(uuid)
            slot = known.get(uuid)
            if slot is None:
                slot = Slot(self._numbered(device.facts), device, self._slow_s)
                self._slots.append(slot)
                if known and device.facts.parent_uuid is not None:
                    self._happen("driver", uuid, f"{instance(slot.facts)} was created.")
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
                self._happen("driver", slot.facts.uuid, f"{instance(slot.facts)} was destroyed.")
                continue
            slot.reader.fail("gpu_lost")
            slot.gone = True
        if self.state != "ok":
            for sentence in opened.unreachable:
                self._happen("gpu_lost", None, sentence)
        self._enter("ok", "")
        self._versions = opened.versions
        self._take_stock(reloaded)
        self._watching.set()
        self._watcher = threading.Thread(target=self._watch, args=(driver,), name="gpu-events", daemon=True)
        self._watcher.start()

    def _numbered(self, facts: GpuFacts) -> GpuFacts:
        """`facts` with a number that no other GPU has; a slice's begin at FIRST_INSTANCE, so that cards keep theirs."""
        taken = {slot.facts.index for slot in self._slots}
        index = facts.index if facts.parent_uuid is None else FIRST_INSTANCE * (facts.index + 1)
        while index in taken:
            index += 1
        return structs.replace(facts, index=index)

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
                self._retry_s, self._retry_at = RETRY_FIRST_S, float("-inf")
            mode = slot.reader.mig_mode
            if mode is not None and mode != slot.facts.mig_mode and not slot.lost:
                slot.facts = structs.replace(slot.facts, mig_mode=mode)
                self._happen("driver", slot.facts.uuid, f"MIG was switched {'on' if mode else 'off'} on GPU {slot.facts.index}.")
                self._take_stock()
            accounting = slot.reader.accounts.mode
            if accounting is not None and accounting != slot.facts.accounting_mode:
                slot.facts = structs.replace(slot.facts, accounting_mode=accounting)
                self._take_stock()

    def _shut(self, driver: Driver) -> Callable[[], None]:
        def job() -> None:
            self._watching.clear()
            if self._watcher is not None:
                self._watcher.join(2 * _EVENT_WAIT_MS / 1000)
                if self._watcher.is_alive():
                    return  # it hangs in the driver: shutting down under it might crash
            driver.close()
            self._is_shut = True

        return job

    def _enter(self, state: str, detail: str) -> None:
        if state != self.state:
            if state != "ok":
                log.warning("No GPU is read: %s", detail)
                self._happen("driver", None, f"No GPU is read: {detail}")
            elif self.state != "not_read":
                log.info("The driver answers again.")
                self._happen("driver", None, "The driver answers again.")
        self.state, self.state_detail = state, detail

    def _watch(self, driver: Driver) -> None:
        """Wait for the driver's events, in a thread of its own."""
        while self._watching.is_set():
            try:
                event = driver.event(_EVENT_WAIT_MS)
            except DeviceError as error:
                log.info("The driver reports no events: %s", error)
                return
            if event is None:
                continue
            self._happened.append(event)
            self._on_event()

    def _happen(self, kind: str, uuid: str | None, text: str) -> None:
        self._happened.append(DeviceEvent(kind, uuid, None, text))


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: object) -> None:
    """Call in the loop; a loop that has ended meanwhile no longer wants to know."""
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        log.debug("A driver call came back after the end.")


def _nothing() -> None:
    pass
