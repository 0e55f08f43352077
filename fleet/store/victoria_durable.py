"""When VictoriaMetrics shows, and has written, what it took: it answers at once, keeps samples in memory for a while, and loses those when killed.

Its /metrics page tells its flags and when its process started. A write is durable once the time within which it flushes is
over and the process is still the same; a process that has started anew may have lost what it took before.
"""

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from fleet.store.deferred import Pending
from fleet.store.endpoint import Endpoint, PassingError
from fleet.store.series import StoreError

logger = logging.getLogger(__name__)
OLD_FLUSH: Final = "5s"
"""Before 1.86 there is no flag: parts leave memory every five seconds, as measured with 1.79."""
PENDING_S: Final = 2.0
"""Rows wait so long before they become a part in memory, whatever the flag says."""
MARGIN_S: Final = 1.0
PAGE_BYTES: Final = 64 << 20
"""Of a page of metrics, which has less than one MB."""
UNSEEN_S: Final = 5.0
"""So long what was taken is waited for where it cannot be asked to be shown: 1.79 shows new series after 2.0 s at the latest of 20."""
_FLUSH: Final = "inmemoryDataFlushInterval"
_DEDUP: Final = "dedup.minScrapeInterval"
_RETENTION: Final = "retentionPeriod"
_PERIOD: Final = re.compile(r"([0-9.]+)([hdwMy]?)")
_PERIODS: Final = {"h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0, "": 31 * 86_400.0, "M": 31 * 86_400.0, "y": 365 * 86_400.0}
"""What a unit of -retentionPeriod is in seconds; without one it counts months of 31 days."""
_FLAG: Final = re.compile(rb'^flag\{name="([^"]+)", ?value="([^"]*)"', re.MULTILINE)
_START: Final = re.compile(rb"^process_start_time_seconds ([0-9.e+]+)", re.MULTILINE)
_UPTIME: Final = re.compile(rb"^vm_app_uptime_seconds ([0-9.e+]+)", re.MULTILINE)
_DURATION: Final = re.compile(r"([0-9.]+)(ms|us|µs|ns|h|m|s)")
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, slots=True)
class Page:
    """What a /metrics page says: when its process started and how long ago (both in whole seconds), and its flags."""

    started: str
    flags: Mapping[str, str]
    uptime_s: float | None = None

    @property
    def durable_after_s(self) -> float:
        """Seconds after which what was taken has left memory, at the longest."""
        # A part in memory is due one interval after it was made, and who writes those due looks once an interval.
        return PENDING_S + 2 * max(PENDING_S, duration_s(self.flags.get(_FLUSH, OLD_FLUSH))) + MARGIN_S

    @property
    def keeps_s(self) -> float | None:
        """Seconds for which samples are kept: older ones are taken, and are gone. None where that is not told."""
        told = self.flags.get(_RETENTION)
        found = None if told is None else _PERIOD.fullmatch(told)
        return None if found is None else float(found[1]) * _PERIODS[found[2]]


class Watch:
    """Looks at the processes that hold samples: one for a single node, every vmstorage of a cluster."""

    def __init__(self, pages: Sequence[Endpoint], sleep: Callable[[float], None] = time.sleep) -> None:
        self._pages = pages
        self._shows = [page.beside("/metrics", "/internal/force_flush") for page in pages]
        self._is_slow = False
        self._sleep = sleep

    def look(self) -> tuple[Page, ...]:
        """The pages as they are now; StoreError when one does not answer, is another program's or has a flag that loses rows."""
        return tuple(_page(page) for page in self._pages)

    def show(self) -> None:
        """Return once all that was taken so far is found by who asks for it anew; StoreError when a server does not answer."""
        refused: str | None = None
        for page, shows in zip(self._pages, self._shows, strict=True):
            if shows is None:
                refused = f"{page.name} does not end with /metrics, so nobody knows how to have it show what it took"
                continue
            try:
                shows.get("")
            except PassingError:
                raise
            except StoreError as error:
                refused = str(error)
        if refused is not None and not self._is_slow:
            logger.warning("Rows that may be stored already wait for %g s until that can be asked: %s", UNSEEN_S, refused)
        self._is_slow = refused is not None
        if self._is_slow:
            self._sleep(UNSEEN_S)

    def pending(self, before: tuple[Page, ...]) -> Pending:
        """When all that was sent since `before` is durable, and how that is known."""
        after_s = max(page.durable_after_s for page in before)
        return Pending(after_s, partial(self._confirm, before, after_s))

    def wait(self, pending: Pending) -> None:
        """Return once it is durable; StoreError when that can no longer be known."""
        self._sleep(pending.after_s)
        pending.check()

    def _confirm(self, before: tuple[Page, ...], after_s: float) -> None:
        for endpoint, then, now in zip(self._pages, before, self.look(), strict=True):
            # A start within the same second as the one before shows in the time since.
            if then.started != now.started or (now.uptime_s is not None and now.uptime_s < after_s - 1):
                raise StoreError(f"{endpoint.name} was restarted before the samples were on its disk; they are sent again.")


def duration_s(text: str) -> float:
    """Seconds of a Go duration such as 1m30s or 1.5s; StoreError for what is none."""
    parts = _DURATION.findall(text)
    if "".join(number + unit for number, unit in parts) != text or not parts:
        raise StoreError(f"VictoriaMetrics tells of a duration {text!r}, which is none.")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _page(endpoint: Endpoint) -> Page:
    body = endpoint.get("", most=PAGE_BYTES)
    started = _START.search(body)
    if started is None:
        raise StoreError(
            f"{endpoint.name} tells no process_start_time_seconds, so nobody knows whether it was restarted: name VictoriaMetrics' page of metrics with FETTLE_STORE_STATUS_URLS."
        )
    flags = {name.decode(): value.decode(errors="replace") for name, value in _FLAG.findall(body)}
    if not flags:
        raise StoreError(
            f"{endpoint.name} is a page of another program's metrics: name VictoriaMetrics with FETTLE_STORE_URL, or its page with FETTLE_STORE_STATUS_URLS."
        )
    if duration_s(flags.get(_DEDUP, "0s")) > 1e-3:
        raise StoreError(
            f"{endpoint.name} runs with -{_DEDUP}={flags[_DEDUP]} and would drop samples: unset the flag, or set it to 1ms."
        )
    uptime = _UPTIME.search(body)
    return Page(started[1].decode(), flags, None if uptime is None else float(uptime[1]))
