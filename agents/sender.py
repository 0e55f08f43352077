"""One node's line to the server: connects, delivers the spool, and tries again when the connection breaks."""

import asyncio
import logging
import random
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Final

from websockets.exceptions import ConnectionClosed, InvalidStatus, InvalidURI

from agents.clock import Clock
from agents.config import ConfigError
from agents.outbox import Outbox, plain
from agents.segment import Group
from agents.server_socket import FAILURES, RedirectError, connected
from agents.server_url import shown
from agents.session import WELCOME_S, ServerRefusedError, Session
from agents.spool import Spool
from wire.codec import WireError
from wire.messages import Command

log = logging.getLogger(__name__)

BACKOFF_FIRST_S: Final = 0.5
BACKOFF_LAST_S: Final = 60.0
REFUSED_BACKOFF_S: Final = 120.0
_CLOSE_REVOKED: Final = 4403


class Sender:
    """Delivers one node's spool. `run` goes on until it is cancelled."""

    def __init__(self, url: str, token: Callable[[], str], spool: Spool, clock: Clock, as_text: bool = False) -> None:
        self._spool = spool
        self._clock = clock
        self._url = url
        self._shown = shown(url)
        self._token = token
        self._outbox = Outbox(spool, as_text)
        self._session: Session | None = None
        self._begun = asyncio.Event()
        self._said = ""
        self._defects: set[tuple[str, str, int | None]] = set()
        self._lost = 0
        self._stopping = False
        self.on_command: Callable[[Command], None] | None = None
        """What to do with the server's commands; None: none is obeyed."""

    @property
    def refused(self) -> Counter[str]:
        """Records that were given up, by the server's code."""
        return self._outbox.refused

    @property
    def stored(self) -> int:
        """Records that the server stored."""
        return self._outbox.stored

    @property
    def is_connected(self) -> bool:
        """True while the server takes what is sent."""
        return self._session is not None and self._session.is_welcome

    @property
    def holds(self) -> bool:
        """True while the server holds what was told of slow metrics, so that their columns may be empty."""
        return self._session is not None and self._session.holds

    def stop(self) -> None:
        """End the connection in order; `run` returns, unless it waits for its next try."""
        self._stopping = True
        if self._session is not None:
            self._session.stop()

    def begin(self) -> None:
        """The spool has a (new) hello: connect, or connect anew."""
        self._begun.set()
        if self._session is not None:
            self._session.stop()

    def offer(self, kind: int, seq: int) -> None:
        """A record was put into the spool: send it now if there is a connection."""
        if self._session is not None:
            self._session.offer(kind, seq)

    def lost_some(self) -> bool:
        """True once after records were lost on the way: what they told of absences must be told again."""
        lost = self._spool.dropped + self.refused.total()
        changed, self._lost = lost != self._lost, lost
        return changed

    async def run(self) -> None:
        """Connect, deliver, connect again."""
        await self._begun.wait()
        failures = 0
        while not self._stopping:
            began = self._clock.monotonic()
            group = self._spool.current
            refused = False
            try:
                await self._deliver(group)
            except ServerRefusedError as error:
                refused = True
                self._say(f"The server refuses this node: {error}", logging.ERROR)
            except (*FAILURES, WireError) as error:
                self._say(f"No connection to {self._shown}: {_short(error)}", logging.WARNING)
            except Exception as error:
                self._tell_defect(error)
            finally:
                self._session = None
            if self._stopping or group is not self._spool.current:
                failures = 0
                continue  # the end, or a new hello
            failures = 0 if self._clock.monotonic() - began > BACKOFF_LAST_S else failures + 1
            delay = REFUSED_BACKOFF_S if refused else min(BACKOFF_LAST_S, BACKOFF_FIRST_S * 2**failures)
            await self._clock.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 - jitter

    async def _deliver(self, group: Group) -> None:
        """One connection; returns when it is stopped."""
        try:
            async with connected(self._url, self._token(), WELCOME_S) as socket:
                self._session = Session(self._outbox, self._clock, socket, group, self._welcomed, self.on_command)
                await self._session.run()
        except InvalidStatus as error:
            status = error.response.status_code
            if status in (401, 403):
                raise ServerRefusedError(
                    f"HTTP {status}: the token of node {group.hello.node!r} is unknown, revoked or another node's; "
                    "issue one on the server and put it into the token file"
                ) from None
            raise
        except (ConfigError, InvalidURI, RedirectError) as error:
            raise ServerRefusedError(str(error)) from None
        except ConnectionClosed as error:
            if error.rcvd is not None and error.rcvd.code == _CLOSE_REVOKED:
                raise ServerRefusedError(plain(error.rcvd.reason)) from None
            raise

    def _welcomed(self) -> None:
        self._say(f"Connected to {self._shown}.", logging.INFO)

    def _tell_defect(self, error: Exception) -> None:
        """Log where it is, once for each place: whatever is wrong here, what is spooled shall be sent, now or by a later version."""
        place = traceback.extract_tb(error.__traceback__)[-1]
        defect = (type(error).__name__, place.filename, place.lineno)
        if defect not in self._defects:
            self._defects.add(defect)
            log.error("The line to %s broke over a defect; it is tried again.", self._shown, exc_info=error)
        self._said = ""

    def _say(self, what: str, level: int) -> None:
        """Log a change of state, once."""
        if what != self._said:
            self._said = what
            log.log(level, "%s", what)


def _short(error: BaseException) -> str:
    return plain((str(error).splitlines() or [""])[0]) or type(error).__name__
