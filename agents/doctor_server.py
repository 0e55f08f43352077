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
from wire.sentence import Sentence, _, of

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
        return [(_("server"), "note", _("none is set"), _("Give --server, or the --config of the agent."))]
    if config.replay:
        return [(_("server"), "note", _("recordings have tokens of their own; not asked"), "")]
    found = _token_file(config.token_file)
    try:
        token = config.token(config.node)
    except ConfigError as error:
        return [*found, (_("token"), "wrong", of(error), _("On the server: `manage.py agent_token NODE`."))]
    began = time.monotonic()
    try:
        async with connected(config.server, token, PATIENCE_S) as socket:
            took = time.monotonic() - began
            date = None if socket.response is None else _date(socket.response)
    except InvalidStatus as error:
        return [*found, _refused(config, error.response.status_code), *_skew(_date(error.response), now())]
    except RedirectError as error:
        return [
            *found,
            (_("server"), "wrong", Sentence(_("{server} cannot be reached: {why}"), server=shown(config.server), why=error), ""),
        ]
    except FAILURES as error:
        said = plain(str(error).partition("\n")[0]) or Sentence(_("no answer"))
        reason: str = Sentence(_("no answer in time")) if isinstance(error, TimeoutError) else said
        remedy = _("Check the address, that the server runs (curl its /healthz), DNS, and firewalls between the two.")
        return [
            *found,
            (
                _("server"),
                "wrong",
                Sentence(_("{server} cannot be reached: {why}"), server=shown(config.server), why=reason),
                remedy,
            ),
        ]
    reached: Found = (
        _("server"),
        "ok",
        Sentence(
            _("{server} takes the token of {node} ({ms:.0f} ms)"), server=shown(config.server), node=config.node, ms=took * 1000
        ),
        "",
    )
    return [*found, reached, *_skew(date, now())]


def _refused(config: AgentConfig, status: int) -> Found:
    if status in (401, 403):
        remedy: str = Sentence(
            _("On the server: `manage.py agent_token {node}`, then put the token into the token file."), node=config.node
        )
        return (
            _("token"),
            "wrong",
            Sentence(_("HTTP {status}: it is unknown, revoked or another node's"), status=status),
            remedy,
        )
    remedy = _("Check the address: it should end in /ws/agent/, and a proxy must pass WebSockets on.")
    return (
        _("server"),
        "wrong",
        Sentence(_("{server} answers with HTTP status {status}"), server=shown(config.server or ""), status=status),
        remedy,
    )


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
        return [(_("clock"), "note", _("the server did not tell its time"), "")]
    skew = now - theirs - 0.5  # the header leaves the fraction out
    if abs(skew) <= SKEW_S:
        return [(_("clock"), "ok", Sentence(_("within {seconds:.0f} s of the server's"), seconds=SKEW_S), "")]
    says = _("{seconds:.0f} s ahead of the server's") if skew > 0 else _("{seconds:.0f} s behind the server's")
    remedy = Sentence(_("Let NTP or chrony set the clock of whichever is wrong: findings of this node are placed in time by it."))
    if skew > AHEAD_S:
        remedy = Sentence(
            _("{remedy} Samples more than {seconds:.0f} s ahead are refused for good (bad_time)."), remedy=remedy, seconds=AHEAD_S
        )
    elif skew < -BEHIND_S:
        remedy = Sentence(
            _(
                "{remedy} Samples of a clock that is further behind than the server keeps them (24 hours unless it is set) are refused for good (bad_time)."
            ),
            remedy=remedy,
        )
    return [(_("clock"), "wrong", Sentence(says, seconds=abs(skew)), remedy)]


def _token_file(path: Path | None) -> list[Found]:
    if path is None:
        return []
    try:
        mode = path.stat().st_mode
    except OSError:
        return []  # the token itself tells
    if stat.S_IMODE(mode) & 0o077:
        return [
            (
                _("token file"),
                "wrong",
                Sentence(_("{path} can be read by others (mode {mode:o})"), path=path, mode=stat.S_IMODE(mode)),
                f"chmod 600 {path}",
            )
        ]
    return [(_("token file"), "ok", Sentence(_("{path} is this user's alone"), path=path), "")]


def otlp(config: AgentConfig) -> list[Found]:
    """Whether the collector takes a request; the one that is sent has no metrics in it."""
    if config.otlp is None:
        return []
    where = target(config.otlp, PATH)
    try:
        status, _answer = post(where, json.dumps({"resourceMetrics": []}).encode())
        if status in NO_JSON:
            status, _answer = post(where, b"", otlp_protobuf.KIND)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return [
            (
                "otlp",
                "wrong",
                f"{where.url}: {reason(error)}",
                _("Check the address and that a collector with OTLP over HTTP listens there."),
            )
        ]
    if not is_taken(status):
        return [
            (
                "otlp",
                "wrong",
                Sentence(_("{url} answers with HTTP status {status}"), url=where.url, status=status),
                _("It must take OTLP/HTTP, in JSON or protobuf, at that path."),
            )
        ]
    return [("otlp", "ok", Sentence(_("{url} takes metrics"), url=where.url), "")]
