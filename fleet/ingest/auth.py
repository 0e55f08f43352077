"""Which node a bearer token speaks for. Answers are kept for seconds only, so that a revoked token soon ends."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from fleet.accounts.models import AgentToken, digest
from fleet.ingest.threads import Threads

CACHE_S: Final = 5.0
MAX_CACHED: Final = 20_000


@dataclass(frozen=True, slots=True)
class Credential:
    """A live token: its row and the node that it names."""

    token: int
    node_name: str


class Tokens:
    """Asks the database, and for a few seconds itself."""

    def __init__(self, threads: Threads, clock: Callable[[], float] = time.monotonic) -> None:
        self._threads = threads
        self._clock = clock
        self._known: dict[str, tuple[float, Credential]] = {}

    async def of(self, scope: dict[str, Any]) -> Credential | None:
        """The credential in a connection's Authorization header; None for a missing, unknown or revoked token."""
        token = bearer(scope["headers"])
        if token is None:
            return None
        key = digest(token)
        known = self._known.get(key)
        if known is not None and self._clock() - known[0] < CACHE_S:
            return known[1]
        self._known.pop(key, None)
        credential = await self._threads.database(_read, token)
        if credential is not None:
            if len(self._known) >= MAX_CACHED:
                self._known.clear()
            self._known[key] = (self._clock(), credential)
        return credential


def bearer(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The token of `Authorization: Bearer TOKEN`; None when there is none or more than one such header."""
    found = [value for name, value in headers if name == b"authorization"]
    if len(found) != 1 or len(found[0]) > 500:
        return None
    kind, _, token = found[0].decode("latin-1").partition(" ")
    return token.strip() or None if kind.lower() == "bearer" else None


def _read(token: str) -> Credential | None:
    row = AgentToken.of(token)
    return None if row is None else Credential(row.pk, row.node_name)
