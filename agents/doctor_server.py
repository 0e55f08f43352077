"""The doctor's look at where things are sent: the server, its clock, the token, the collector for OTLP. Sends no telemetry."""

import http.client
import json
import stat
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final, Literal

from websockets.exceptions import InvalidStatus
from websockets.http11 import Response

from agents import otlp_protobuf
from agents.config import AgentConfig, ConfigError
from agents.otlp import NO_JSON, PATH, is_taken, post, reason
from agents.outbox import plain
from agents.scrape import target
from agents.server_socket import FAILURES, RedirectError, connected
from agents.server_url import shown

Found = tuple[str, Literal["ok", "note", "wrong"], str, str]

PATIENCE_S: Final = 10.0
SKEW_S: Final = 5.0
"""The server tells its time in whole seconds, so that a second or two is no finding."""
AHEAD_S: Final = 60.0
"""Servers refuse samples of a clock that is further ahead of theirs (docs/explanation/how-nothing-is-lost.md)."""
BEHIND_S: Final = 3600.0
"""Servers keep samples for an hour at least, most for a day or more, and refuse those of a clock that is further behind theirs."""


async def server(config: AgentConfig, now: Callable[[], float] = time.time) -> list[Found]:
    """Whether it is reached, takes the token, and has the same time. A connection is opened and closed, no hello is said."""
    if config.server is None:
        return [("server", "note", "none is set", "Give --server, or the --config of the agent.")]
    if config.replay:
        return [("server", "note", "recordings have tokens of their own; not asked", "")]
    found = _token_file(config.token_file)
    try:
        token = config.token(config.node)
    except ConfigError as error:
        return [*found, ("token", "wrong", str(error), "On the server: `manage.py agent_token NODE`.")]
    began = time.monotonic()
    try:
        async with connected(config.server, token, PATIENCE_S) as socket:
            took = time.monotonic() - began
            date = None if socket.response is None else _date(socket.response)
    except InvalidStatus as error:
        return [*found, _refused(config, error.response.status_code), *_skew(_date(error.response), now())]
    except RedirectError as error:
        return [*found, ("server", "wrong", f"{shown(config.server)} cannot be reached: {error}", "")]
    except FAILURES as error:
        said = plain(str(error).partition("\n")[0]) or "no answer"
        reason = "no answer in time" if isinstance(error, TimeoutError) else said
        remedy = "Check the address, that the server runs (curl its /healthz), DNS, and firewalls between the two."
        return [*found, ("server", "wrong", f"{shown(config.server)} cannot be reached: {reason}", remedy)]
    reached: Found = ("server", "ok", f"{shown(config.server)} takes the token of {config.node} ({took * 1000:.0f} ms)", "")
    return [*found, reached, *_skew(date, now())]


def _refused(config: AgentConfig, status: int) -> Found:
    if status in (401, 403):
        remedy = f"On the server: `manage.py agent_token {config.node}`, then put the token into the token file."
        return ("token", "wrong", f"HTTP {status}: it is unknown, revoked or another node's", remedy)
    remedy = "Check the address: it should end in /ws/agent/, and a proxy must pass WebSockets on."
    return ("server", "wrong", f"{shown(config.server or '')} answers with HTTP status {status}", remedy)


def _date(response: Response) -> str | None:
    """What the server says the time is; None where it says nothing, or several things."""
    told = response.headers.get_all("Date")
    return told[0] if len(told) == 1 else None


def _skew(date: str | None, now: float) -> list[Found]:
    """The difference to the server's clock, by its Date header."""
    try:
        theirs = None if date is None else parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        theirs = None
    if theirs is None:
        return [("clock", "note", "the server did not tell its time", "")]
    skew = now - theirs - 0.5  # the header leaves the fraction out
    if abs(skew) <= SKEW_S:
        return [("clock", "ok", f"within {SKEW_S:.0f} s of the server's", "")]
    ahead = "ahead of" if skew > 0 else "behind"
    remedy = "Let NTP or chrony set the clock of whichever is wrong: findings of this node are placed in time by it."
    if skew > AHEAD_S:
        remedy += f" Samples more than {AHEAD_S:.0f} s ahead are refused for good (bad_time)."
    elif skew < -BEHIND_S:
        remedy += " Samples of a clock that is further behind than the server keeps them (24 hours unless it is set) are refused for good (bad_time)."
    return [("clock", "wrong", f"{abs(skew):.0f} s {ahead} the server's", remedy)]


def _token_file(path: Path | None) -> list[Found]:
    if path is None:
        return []
    try:
        mode = path.stat().st_mode
    except OSError:
        return []  # the token itself tells
    if stat.S_IMODE(mode) & 0o077:
        return [("token file", "wrong", f"{path} can be read by others (mode {stat.S_IMODE(mode):o})", f"chmod 600 {path}")]
    return [("token file", "ok", f"{path} is this user's alone", "")]


def otlp(config: AgentConfig) -> list[Found]:
    """Whether the collector takes a request; the one that is sent has no metrics in it."""
    if config.otlp is None:
        return []
    where = target(config.otlp, PATH)
    try:
        status, _ = post(where, json.dumps({"resourceMetrics": []}).encode())
        if status in NO_JSON:
            status, _ = post(where, b"", otlp_protobuf.KIND)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return [
            (
                "otlp",
                "wrong",
                f"{where.url}: {reason(error)}",
                "Check the address and that a collector with OTLP over HTTP listens there.",
            )
        ]
    if not is_taken(status):
        return [
            (
                "otlp",
                "wrong",
                f"{where.url} answers with HTTP status {status}",
                "It must take OTLP/HTTP, in JSON or protobuf, at that path.",
            )
        ]
    return [("otlp", "ok", f"{where.url} takes metrics", "")]
