"""Sends one message to one Apprise URL; the only module that knows Apprise.

An Apprise URL is a secret. Nothing here logs it, and what Apprise says about a failure is kept only after every
part of the URL was taken out.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import unquote

from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType
from apprise.common import OverflowMode
from apprise.conversion import convert_between
from apprise.result import AppriseResultStatus
from django.utils.translation import gettext

from fleet.notify.plain import markdown

Kind: TypeAlias = Literal["info", "success", "warning", "failure"]

SHORT: Final = 500
"""A target that takes fewer characters, such as an SMS, gets the message's beginning; others get a long one in parts."""
SHORT_WORD: Final = 12
"""Letters of a URL's part below which it may be an English word."""
LIMIT_S: Final = 20
"""The longest that one attempt may take, all in all: Apprise stops waiting then, also for an answer that drips or never ends. It
bounds no bytes, and the thread that reads such an answer goes on until its target does."""
SOCKET_S: Final = 10.0
"""The longest that one attempt waits for a connection or for the next byte, whatever the URL asks for."""

# The debug lines of Apprise and of the HTTP library beneath it hold URLs. `send` looks at Apprise's for the reason of a
# failure, so they are made; neither's may reach our own log, whatever its level.
_apprise_log = logging.getLogger("apprise")
_apprise_log.setLevel(logging.DEBUG)
_apprise_log.propagate = False
_apprise_log.addHandler(logging.NullHandler())
logging.getLogger("urllib3").setLevel(logging.INFO)


@dataclass(frozen=True, slots=True)
class Message:
    """What to send, as plain text (see `plain`); `key` goes along where the target takes headers, so that a receiver may drop a repeat."""

    title: str
    body: str
    kind: Kind
    key: str
    extras: Mapping[str, Any] | None = None
    """Further fields of the body, where the target is a program that takes JSON."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one attempt. `unsure`: it failed here, and may have arrived all the same."""

    sent: bool
    error: str = ""
    unsure: bool = False


def problem(url: str) -> str | None:
    """Why Apprise cannot send to `url`, in one sentence without the URL; None when it can."""
    if len(url.split()) != 1:
        return gettext("Give one Apprise URL, without spaces.")
    if not Apprise.instantiate(url, asset=_asset()):
        return gettext("Apprise knows no such target; see its list of services for the form of the URL.")
    return None


def service(url: str) -> str:
    """The URL's scheme (`slack`, `mailto`, `json`): all of it that may be shown."""
    scheme, separator, _ = url.partition("://")
    return scheme if separator and re.fullmatch(r"[A-Za-z0-9+.-]{1,30}", scheme) else "?"


def send(url: str, message: Message) -> Outcome:
    """Try once to send. Never raises for what the target does; the error holds no part of the URL."""
    target = Apprise.instantiate(url, asset=_asset())
    if not target:
        return Outcome(False, "Apprise cannot read the route's URL.")
    target.socket_connect_timeout = min(float(target.socket_connect_timeout), SOCKET_S)
    target.socket_read_timeout = min(float(target.socket_read_timeout), SOCKET_S)
    headers = getattr(target, "headers", None)  # json://, xml:// and form:// take headers
    if isinstance(headers, dict):
        headers.setdefault("Idempotency-Key", message.key)
    fields = getattr(target, "payload_extras", None)
    if message.extras is not None and isinstance(fields, dict):
        fields |= {name: value for name, value in message.extras.items() if name not in fields}  # what the URL names stays
    if target.overflow_mode == OverflowMode.UPSTREAM:  # what is too long would be refused, and never arrive
        target.overflow_mode = OverflowMode.TRUNCATE if target.body_maxlen < SHORT else OverflowMode.SPLIT
    title, body, form = _written(message, _form(target), bool(target.title_maxlen))
    sender = Apprise(asset=_asset())
    sender.add(target)
    result = sender.notify(
        title=title,
        body=body,
        body_format=form,
        notify_type=NotifyType(message.kind),
        log_level=logging.DEBUG,
    )
    if result:
        return Outcome(True)
    entries = list(result.logs())
    said = "; ".join(entry.message for entry in entries if entry.level in ("WARNING", "ERROR", "CRITICAL"))
    late = result.status == AppriseResultStatus.TIMEOUT or any("Read timed out" in entry.message for entry in entries)
    if late:
        said = f"The target did not answer in time. {said}"
    return Outcome(False, without_secrets(said or "Apprise gave no reason.", url)[:500], unsure=late)


def _form(target: Any) -> NotifyFormat:
    """The form to send in: what the URL asks for, else plain text where the target shows it as such, Markdown where it is drawn anyway."""
    plain = target.resolve_format(NotifyFormat.TEXT)
    drawn = target.resolve_format(NotifyFormat.MARKDOWN)
    if (
        plain == NotifyFormat.TEXT
        and drawn == NotifyFormat.MARKDOWN
        and target.resolve_format(NotifyFormat.HTML) != NotifyFormat.HTML
    ):
        return NotifyFormat.MARKDOWN  # Slack and Discord; what also takes HTML is a webhook or a mail and keeps text as it is
    return NotifyFormat(plain)


def _written(message: Message, form: NotifyFormat, titled: bool) -> tuple[str, str, NotifyFormat]:
    """Title, body and form; the title stands in the body where it would be drawn, or where the target knows no titles."""
    if form == NotifyFormat.TEXT:
        return message.title, message.body, form
    title = message.title if form == NotifyFormat.HTML and titled else ""  # a mail's subject is text
    body = markdown("" if title else message.title, message.body)
    if form == NotifyFormat.HTML:
        body = convert_between(NotifyFormat.MARKDOWN, form, body)  # type: ignore[no-untyped-call] # the library has no types
    return title, body, form


def _asset() -> AppriseAsset:
    """Apprise set up to keep nothing on disk, to run no plugins of the machine's and to expand no templates."""
    return AppriseAsset(
        app_id="Fettle",
        app_desc="Fettle",
        storage_mode="memory",
        plugin_paths=[],
        secure_logging=True,
        allow_templates=False,
        service_timeout=LIMIT_S,
    )


def without_secrets(text: str, url: str) -> str:
    """The text with the URL, and every part of it long enough to be a secret, replaced by three stars."""
    rest = url.partition("://")[2]
    parts = {part for raw in (rest, unquote(rest)) for part in re.split(r"[/@:?&=#,+;\s]+", raw) if len(part) >= 4}
    for part in sorted({url, rest, *parts} - {""}, key=len, reverse=True):
        # a short word of letters is masked as a word alone: `/fail` in a URL must not eat the middle of "Failed"
        pattern = rf"(?<![A-Za-z]){re.escape(part)}(?![A-Za-z])" if part.isalpha() and len(part) < SHORT_WORD else re.escape(part)
        text = re.sub(pattern, "***", text, flags=re.IGNORECASE)
    return text
