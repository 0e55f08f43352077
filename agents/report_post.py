"""Gives a report to the server that the agent of this node is set to: of a bench run, of a profile."""

import http.client
import json
from typing import Final
from urllib.parse import urlsplit

from agents.config import AgentConfig, ConfigError
from agents.otlp import is_taken, post, reason
from agents.outbox import plain
from agents.scrape import Target
from agents.server_url import shown
from wire.sentence import Sentence, _, of

_SOCKET: Final = "ws/agent/"
_PATIENCE_S: Final = 30.0


class SendError(Exception):
    """The report did not arrive; the message is a sentence without its first word's capital."""


def endpoint(server: str, api: str) -> Target:
    """Where reports go: the path `api`, by the address of the agents' socket."""
    parts = urlsplit(server)
    scheme = "https" if parts.scheme == "wss" else "http"
    path = parts.path or "/"
    before = path.removesuffix(_SOCKET) if path.endswith("/" + _SOCKET) else "/"
    return Target(scheme, parts.hostname or "", parts.port or (443 if scheme == "https" else 80), before + api)


def send(body: bytes, node: str, api: str, config: AgentConfig) -> str:
    """What the server says of a report of `node`, as the end of a sentence; SendError where it did not take it."""
    if config.server is None:
        raise SendError(Sentence(_("no server is set: give --server, or --config with the agent's settings.")))
    try:
        token = config.token(node)
    except ConfigError as error:
        raise SendError(of(error)) from None
    where = endpoint(config.server, api)._replace(secret=f"Bearer {token}")
    try:
        status, answer = post(where, body, deadline_s=_PATIENCE_S)
    except TimeoutError:
        raise SendError(
            Sentence(_("{server} did not answer within {seconds:.0f} s."), server=shown(config.server), seconds=_PATIENCE_S)
        ) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SendError(
            Sentence(_("{server} cannot be reached: {why}."), server=shown(config.server), why=reason(error))
        ) from None
    if is_taken(status):
        return "it had it already" if status == 200 else "it is kept"
    raise SendError(Sentence(_("{url} answers with HTTP status {status}{more}"), url=where.url, status=status, more=said(answer)))


def said(answer: bytes) -> str:
    """What a problem document says, in one line; nothing of other answers."""
    try:
        told = json.loads(answer)
        text = str(told.get("detail") or "")
        errors = told.get("errors") or {}
        more = "; ".join(str(one) for several in errors.values() for one in several)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return "."
    return f": {plain(more or text)}" if more or text else "."
