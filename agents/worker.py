"""A thread for calls that may hang: the caller waits as long as it likes, and goes on without the answer."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class Worker:
    """One daemon thread that does one job at a time. `busy` is True from `start` until its job ended.

    `failures` counts the jobs that raised: a defect, which is logged the first time and ends neither the thread nor the next job.
    """

    def __init__(self, name: str) -> None:
        self.busy = False
        self.failures = 0
        self._name = name
        self._jobs: queue.SimpleQueue[tuple[Callable[[], None], Callable[[], None]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self, job: Callable[[], None], done: Callable[[], None]) -> None:
        """Begin `job`; `done` is called in the thread when it ended. Not while busy."""
        if self.busy:
            raise RuntimeError(f"{self._name} is still at its last job")
        self.busy = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put((job, done))

    def close(self) -> None:
        """Let the thread end after its job; does not wait for it."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (work := self._jobs.get()) is not None:
            job, done = work
            self._try(job)
            self.busy = False
            self._try(done)

    def _try(self, call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException:  # a thread that ends takes all jobs to come with it, and SystemExit ends one without a word
            self.failures += 1
            if self.failures == 1:
                log.exception("A job of the thread %s failed, which is a defect; later ones are done as usual", self._name)


def finish(future: "asyncio.Future[None]") -> None:
    """Let whoever waits for it go on, once."""
    if not future.done():
        future.set_result(None)


def soon(loop: asyncio.AbstractEventLoop, call: Callable[..., None], *args: object) -> None:
    """Call in the loop; a loop that has ended meanwhile no longer wants to know."""
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        log.debug("A call came back after the end.")
