"""The driver of this machine: opened, opened anew for ever where it cannot be used, let go on command, closed; and what it reports.

Each of that is a job in one thread of its own: a call that hangs there holds nothing else up.
"""

import asyncio
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from agents.device import DRIVER_STATES, DeviceError, DeviceEvent, Driver, DriverError
from agents.gpu_slot import Opened
from agents.worker import Worker, finish, soon

log = logging.getLogger(__name__)

OPEN_DEADLINE_S: Final = 30.0
RETRY_FIRST_S: Final = 5.0
RETRY_LAST_S: Final = 300.0
RELEASE_S: Final = 1.8
"""How long letting the driver go may take."""
_EVENT_WAIT_MS: Final = 500


class Users(Protocol):
    """Who reads GPUs through the driver."""

    @property
    def has_any(self) -> bool:
        """True once a GPU was seen."""

    @property
    def is_reading(self) -> bool:
        """True while a reading does not come back: to shut the driver down under it might crash."""

    @property
    def wants_anew(self) -> bool:
        """True where the driver has to be opened anew though it answers: a GPU is lost, or was split."""

    def attach(self, opened: Opened, was_ok: bool) -> None:
        """Read from these devices from now on."""

    def fail(self, reason: str) -> None:
        """Nothing can be read, for `reason`."""


class KeptDriver:
    """`driver` for its `users`; None: there is none. `state` is a key of DRIVER_STATES, `detail` a sentence."""

    def __init__(self, driver: Driver | None, users: Users, deadline_s: float) -> None:
        self.state = "not_read"
        self.detail = ""
        self.is_opening = False
        self._is_exporter: bool = getattr(driver, "is_exporter", False)  # only dcgm-exporter is no driver
        self._driver = driver
        self._users = users
        self._deadline_s = deadline_s
        self._released_until = float("-inf")
        self._opener = Worker("driver")
        self._retry_at = float("-inf")
        self._retry_s = RETRY_FIRST_S
        self._happened: deque[DeviceEvent] = deque(maxlen=10_000)  # the watcher's thread appends
        self._outcome: Opened | DriverError | None = None
        self._is_shut = False
        self._is_given_up = False
        self._defect = ""
        self._watcher: threading.Thread | None = None
        self._watching = threading.Event()
        self._on_event: Callable[[], None] = _nothing

    def notify(self, on_event: Callable[[], None]) -> None:
        """Call `on_event`, in any thread, as soon as the driver reports something."""
        self._on_event = on_event

    def events(self) -> list[DeviceEvent]:
        """What was reported and told since the call before."""
        happened = []
        while self._happened:
            happened.append(self._happened.popleft())
        return happened

    def tell(self, kind: str, uuid: str | None, text: str) -> None:
        """Add what was found out to the events."""
        self._happened.append(DeviceEvent(kind, uuid, None, text))

    @property
    def is_busy(self) -> bool:
        """True while a call of the driver's own thread does not come back."""
        return self._opener.busy

    @property
    def is_readable(self) -> bool:
        """True where GPUs may be read."""
        return self.state == "ok" and not self.is_opening and time.monotonic() >= self._released_until

    @property
    def silence(self) -> str:
        """Why the readings of GPUs are absent of which nothing can be asked: one of wire.metrics.REASONS."""
        return "timeout" if self._is_exporter else "driver_error"

    def give_up(self) -> None:
        """No GPU has answered for a while: open it anew with the next tick."""
        self.retry_at_once()
        self._is_given_up = True
        if not self._is_exporter:  # one that is silent is asked first what is wrong with it
            self.enter("driver_error", "no GPU answers any more; the driver may have been reloaded")
        self._users.fail(self.silence)

    def retry_at_once(self) -> None:
        """Open it anew with the next tick."""
        self._retry_s, self._retry_at = RETRY_FIRST_S, float("-inf")

    def retry_soon(self) -> None:
        """Open it anew after the first pause of all."""
        self._retry_s = RETRY_FIRST_S
        self._retry_at = time.monotonic() + self._retry_s

    def enter(self, state: str, detail: str) -> None:
        """Be in `state` from now on, and tell where that is another one."""
        if state != self.state:
            if state != "ok":
                log.warning("No GPU is read: %s", detail)
                self.tell("driver", None, f"No GPU is read: {detail}")
            elif self.state != "not_read":
                text = f"{'dcgm-exporter' if self._is_exporter else 'The driver'} answers again."
                log.info("%s", text)
                self.tell("driver", None, text)
        self.state, self.detail = state, detail

    async def release(self, until: float) -> bool:
        """Let the driver go until monotonic second `until`: it can be unloaded, and a GPU be reset. True when it is let go.

        False after RELEASE_S where a call does not come back: then it is let go as soon as it does. A second that is over takes
        the driver up again with the next tick.
        """
        self._released_until = until
        if until <= time.monotonic():
            self.retry_at_once()
            return True
        return self._driver is None or await self._let_go(self._driver, RELEASE_S)

    async def _let_go(self, driver: Driver, seconds: float) -> bool:
        began = time.monotonic()
        while self._hangs and time.monotonic() - began < seconds - 1:
            await asyncio.sleep(0.02)
        if self._hangs or self.is_opening:
            return False
        if self.state == "ok":
            self._is_shut = False
            await self._in_time(self._shut(driver), began + seconds - time.monotonic())
            if not self._is_shut:
                return False
        self.enter("released", DRIVER_STATES["released"])
        self._users.fail("paused")
        return True

    @property
    def _hangs(self) -> bool:
        return self._opener.busy or self._users.is_reading

    async def keep_open(self) -> None:
        """Open the driver when it is not, and again now and then while its users want it."""
        driver = self._driver
        if driver is None:
            return
        if self.is_opening:
            self._take_outcome(driver)
            return
        if time.monotonic() < self._released_until:
            if self.state != "released":
                await self._let_go(driver, self._deadline_s)
            return
        if self.state == "ok" and not (self._users.wants_anew or self._is_given_up):
            return
        if time.monotonic() < self._retry_at or self._hangs:
            return
        self._is_given_up = False
        first = self.state == "not_read"
        was_open = self.state == "ok" or (self._users.has_any and self.state != "released")
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
                if repr(error) != self._defect:
                    self._defect = repr(error)
                    log.exception("The GPUs could not be read, which is a defect; it is tried again")
                self._outcome = DriverError("no_exporter" if self._is_exporter else "driver_error", str(error))

        self.is_opening = True
        # at the start it is worth waiting: the first hello should name the GPUs
        await self._in_time(job, OPEN_DEADLINE_S if first else self._deadline_s)
        self._take_outcome(driver)

    def _take_outcome(self, driver: Driver) -> None:
        """Go on with what opening the driver brought, if it came back."""
        if self._opener.busy:
            state = "no_exporter" if self._is_exporter else "timeout"
            self.enter(state, DRIVER_STATES[state])
            return
        outcome, self._outcome = self._outcome, None
        self.is_opening = False
        if not isinstance(outcome, Opened):
            error = outcome or DriverError("no_exporter" if self._is_exporter else "driver_error")
            self.enter(error.state, str(error))
            self._users.fail(self.silence)
            return
        was_ok = self.state == "ok"
        self._users.attach(outcome, was_ok)
        if not was_ok:
            for sentence in outcome.unreachable:
                self.tell("gpu_lost", None, sentence)
        self.enter("ok", "")
        self._watching.set()
        self._watcher = threading.Thread(target=self._watch, args=(driver,), name="gpu-events", daemon=True)
        self._watcher.start()

    async def close(self) -> None:
        """Stop watching and let the driver go, within a second; a thread that hangs is left to the exit."""
        self._watching.clear()
        if self._driver is not None and self.state == "ok" and not self._hangs:
            await self._in_time(self._shut(self._driver), 0.9)
        self._opener.close()

    async def _in_time(self, job: Callable[[], None], seconds: float) -> bool:
        """Do `job` in the driver's thread; False when it took longer than `seconds` (it then goes on alone)."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, finish, future)
        self._opener.start(job, lambda: soon(loop, finish, future))
        await future
        timer.cancel()
        return not self._opener.busy

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

    def _watch(self, driver: Driver) -> None:
        """Wait for the driver's events, in a thread of its own; one that cannot be read costs itself alone."""
        has_failed = False
        while self._watching.is_set():
            try:
                event = driver.event(_EVENT_WAIT_MS)
                if event is not None:
                    self._happened.append(event)
                    self._on_event()
            except DeviceError as error:
                log.info("The driver reports no events: %s", error)
                return
            except Exception:
                if not has_failed:
                    log.exception("An event of the driver could not be read, which is a defect; those after it are")
                has_failed = True
                time.sleep(_EVENT_WAIT_MS / 1000)  # it may fail at once, again and again


def _nothing() -> None:
    pass
