"""The WebSocket to the server: to the address that was set and to no other, and an error of a few kinds where it cannot be had."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException
from websockets.http11 import Response

from agents.outbox import plain

FAILURES: Final = (OSError, WebSocketException)
"""What `connected` raises."""


class RedirectError(InvalidHandshake):
    """The server, or a proxy before it, points elsewhere; the sentence names that place's host alone, for its path may hold a session."""


class _Direct(connect):
    """Follows no redirect: readings and events would go to whomever a proxy names, without the token, and nobody would know."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


@asynccontextmanager
async def connected(url: str, token: str, patience_s: float) -> AsyncIterator[ClientConnection]:
    """A connection, closed with the block. One of FAILURES where it cannot be opened; what the block raises is not touched."""
    headers = {"Authorization": f"Bearer {token}"}
    try:
        socket = await _Direct(
            url, additional_headers=headers, compression=None, open_timeout=patience_s, close_timeout=1, proxy=None
        )
    except InvalidStatus as error:
        place = _place(error.response)
        if place is None:
            raise
        raise RedirectError(
            f"HTTP {error.response.status_code}: it redirects to {place}, which is not followed; give the address of the server itself,"
            " and let a proxy before it pass WebSockets on"
        ) from None
    except asyncio.TimeoutError:  # on Python 3.10 not yet the built-in one
        raise TimeoutError(f"it did not answer within {patience_s:.0f} s") from None
    except FAILURES:
        raise
    except Exception as error:  # a name that IDNA does not take, and whatever an answer does to the library
        raise ConnectionError(f"the connection cannot be opened: {type(error).__name__}: {error}") from error
    async with socket:
        yield socket


def _place(response: Response) -> str | None:
    """Where an answer points; None where it points nowhere."""
    told = response.headers.get_all("Location")
    if not 300 <= response.status_code < 400 or not told:
        return None
    if len(told) > 1:
        return "several places at once"
    try:
        host = urlsplit(told[0]).hostname
    except ValueError:
        return "an address that is none"
    return "another path" if host is None else plain(host)
