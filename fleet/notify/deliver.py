"""Sends one message to one Apprise URL; below it, heard.py hears what Apprise does not tell.

An Apprise URL is a secret. Nothing here logs it, no exception leaves a frame that holds it, and what others say about a failure is kept
only after every part of the URL was taken out.
"""

import contextvars
import logging
import re
import threading
import time
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final
from urllib.parse import unquote

from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType
from apprise.common import OverflowMode
from django.utils.translation import gettext

from fleet.notify import answers, heard, targets
from fleet.notify.drawing import Drawing
from fleet.notify.faults import SAYS
from fleet.notify.heard import Exchange, Hearing
from fleet.notify.note import Kind, Message
from fleet.notify.outcome import Failure, Outcome
from fleet.notify.plain import named
from fleet.notify.targets.alerted import Alerted

__all__ = ["Kind", "Message", "Outcome", "problem", "send", "service", "without_secrets"]

SHORT_WORD: Final = 12
"""Letters of a URL's part below which it may be an English word."""
SOCKET_S: Final = 10.0
"""The longest that one attempt waits for a connection or for the next byte, whatever the URL asks for."""
ALL_S: Final = 60.0
"""No further part of a message is begun after so many seconds; the next attempt goes on where this one ended."""
RATE_S: Final = 1.0
"""The longest pause between two parts; a target that wants a longer one says so."""
_LOCAL: Final = frozenset({"syslog", "dbus", "kde", "qt", "glib", "gnome", "macosx", "windows", "blink1"})
"""Services of the machine itself, without a network."""
_KEY: Final = "Idempotency-Key"
"""The header by which a receiver knows a message again, or a part of one."""
_SAID: Final = 200
"""Characters of what a target says of a refusal."""

# The debug lines of Apprise and of the HTTP library beneath it hold URLs. `send` looks at Apprise's for the reason of a
# failure; neither's may reach our own log, whatever its level.
_apprise_log = logging.getLogger("apprise")
_apprise_log.propagate = False
_apprise_log.addHandler(logging.NullHandler())
logging.getLogger("urllib3").setLevel(logging.ERROR)  # its warnings name paths


def problem(url: str) -> str | None:
    """Why Apprise cannot send to `url`, in one sentence without the URL; None when it can."""
    if len(url.split()) != 1:
        return gettext("Give one Apprise URL, without spaces.")
    try:
        known = _target(url) is not None
    except Exception:  # a plugin's; its frames hold the URL
        known = False
    return None if known else gettext("Apprise knows no such target; see its list of services for the form of the URL.")


def service(url: str) -> str:
    """The URL's scheme (`slack`, `mailto`, `json`): all of it that may be shown."""
    scheme, separator, _ = url.partition("://")
    return scheme if separator and re.fullmatch(r"[A-Za-z0-9+.-]{1,30}", scheme) else "?"


def send(url: str, message: Message, arrived: Sequence[str] = ()) -> Outcome:
    """Try once to send, but for parts whose digests are in `arrived`. Never raises for what the target does; the error holds no part of the URL."""
    try:
        target = _target(url)
        if target is None:
            return Outcome(False, gettext("Apprise cannot read the route's URL."), failure="never", arrived=tuple(arrived))
        return _Sending(target, url, message, arrived).all()
    except Exception as error:  # a plugin's; on its way up, its frames would show the URL to whoever collects them
        said = gettext("Sending failed within Apprise: {kind}.").format(kind=type(error).__name__)
        return Outcome(False, said, failure="later", arrived=tuple(arrived))


class _Sending:
    """One message on its way to one target."""

    def __init__(self, target: Any, url: str, message: Message, arrived: Sequence[str]) -> None:
        self.target, self.url, self.message = target, url, message
        self.arrived = list(arrived)
        self.ends = time.monotonic() + ALL_S
        self.status: int | None = None
        headers = getattr(target, "headers", None)  # json://, xml:// and form:// take headers; one that the URL gives stays
        self.names_itself = isinstance(headers, dict) and _KEY not in headers
        self.is_local = not _LOCAL.isdisjoint(str(name) for name in type(target).schemas(target))
        _prepare(target, message)

    def all(self) -> Outcome:
        """Send what has not arrived yet, in order, up to the first part that fails."""
        failed = self._alerts(self.target) if isinstance(self.target, Alerted) else self._parts()
        return failed or Outcome(True, status=self.status, arrived=tuple(self.arrived))

    def _parts(self) -> Outcome | None:
        """Tell people, in parts where the target takes little at a time; the failure, if any."""
        drawing = Drawing(self.target, self.message)
        left, sent = drawing.pieces(), 0
        while left:
            digest = _digest(self.message.title, left[0])
            if digest not in self.arrived:
                if late := self._late(sent):
                    return late
                number = f" ({sent + 1}/{sent + len(left)})" if sent + len(left) > 1 else ""
                if self.names_itself:
                    self.target.headers[_KEY] = f"{self.message.key}-{sent + 1}" if sent else self.message.key
                failed, too_long = self._once(*drawing.written(left[0], number))
                if failed and too_long and (shorter := drawing.shorter(left)):
                    left = shorter
                    continue
                if failed:
                    return failed
                self.arrived.append(digest)
            left, sent = left[1:], sent + 1
        return None

    def _alerts(self, target: Alerted) -> Outcome | None:
        """Tell a program that keeps alerts of its own: all in one request, or each by itself; the failure, if any."""
        alerts = tuple(alert for alert in self.message.alerts if target.by_labels or not alert.is_relabelling)
        for number, some in enumerate([alerts] if target.by_labels and alerts else [(alert,) for alert in alerts]):
            digest = _digest(*(f"{alert.key} {alert.firing} {alert.severity} {alert.labels}" for alert in some))
            if digest in self.arrived:
                continue
            if late := self._late(number):
                return late
            target.alerts = some
            failed, _ = self._once(self.message.title, self.message.title, NotifyFormat.TEXT)
            if failed:
                return failed
            self.arrived.append(digest)
        return None

    def _late(self, sent: int) -> Outcome | None:
        if not sent or time.monotonic() < self.ends:
            return None
        said = gettext("Not all of it could be sent in time; the rest follows.")
        return Outcome(False, said, failure="later", status=self.status, arrived=tuple(self.arrived))

    def _once(self, title: str, body: str, form: NotifyFormat) -> tuple[Outcome | None, bool]:
        """One part: None, or how it failed; and whether it was too long."""
        said, hearing = _notify(self.target, title, body, form, self.message.kind)
        read = [(one, answers.read(one.host, one.status, one.body, one.retry_after_s)) for one in hearing.exchanges if one.status]
        refused = [(one, answer) for one, answer in read if answer.verdict != "taken"]
        self.status = read[-1][0].status if read else None
        if said is None and not any(one.status and 200 <= one.status < 300 for one, _ in refused):
            if hearing.reached or self.is_local:
                return None, False
            nothing = gettext("Nothing was sent: the service has nothing to do for a message of this kind, by its URL.")
            return Outcome(False, nothing, failure="never", arrived=tuple(self.arrived)), False
        partly = 0 < len(refused) < len(read)  # of several targets in one URL some took it
        gateway = any(one.status in (502, 504) for one in hearing.exchanges)
        error, failure, wait_s = self._why(said or "", hearing, refused)
        outcome = Outcome(
            False, error[:500], partly or gateway or hearing.unsure, failure, self.status, wait_s, tuple(self.arrived)
        )
        return outcome, any(answer.verdict == "long" for _, answer in refused)

    def _why(
        self, said: str, hearing: Hearing, refused: Sequence[tuple[Exchange, answers.Answer]]
    ) -> tuple[str, Failure, float | None]:
        """The failure in a sentence, of which kind it is, and for how long the target asks to wait."""
        newest = hearing.exchanges[-1] if hearing.exchanges else None
        if hearing.refused and (newest is None or newest.fault == "denied"):
            allow = gettext(
                "The target is at {address}, in the server's own network; FETTLE_NOTIFY_ALLOW names what may be reached there."
            )
            return allow.format(address=hearing.refused), "never", None
        if newest is not None and newest.fault:
            return " ".join(filter(None, [gettext(SAYS[newest.fault]), newest.detail])), "later", None
        if refused:
            exchange, answer = refused[-1]
            failure: Failure = "limited" if answer.verdict == "limited" else "later" if answer.verdict == "later" else "never"
            return self._quoted(exchange, answer), failure, answer.wait_s
        if hearing.late:
            return gettext(SAYS["timeout"]), "later", None
        if newest is not None:  # answered well, and not what the plugin waits for
            words = newest.body.decode("utf-8", "replace").strip()
            return self._quoted(newest, answers.Answer("later", words)), "later", None
        return without_secrets(said, self.url) or gettext("Apprise gave no reason."), "later", None

    def _quoted(self, exchange: Exchange, answer: answers.Answer) -> str:
        """Status and words of the target's answer, without what is secret."""
        says = named(without_secrets(answer.says, self.url))[:_SAID]
        if 300 <= (exchange.status or 0) < 400:
            elsewhere = gettext("The target answered {status} and leads elsewhere; give the address that it leads to.")
            return elsewhere.format(status=exchange.status)
        if answer.verdict == "long":
            return gettext("The target answered {status}, the message is too long: {says}").format(
                status=exchange.status, says=says
            )
        if not says:
            return gettext("The target answered {status}.").format(status=exchange.status)
        return gettext("The target answered {status}: {says}").format(status=exchange.status, says=says)


def _notify(target: Any, title: str, body: str, form: NotifyFormat, kind: Kind) -> tuple[str | None, Hearing]:
    """What Apprise says of a failure, None where it says that it sent; and what was heard meanwhile.

    In a thread of its own, so that no plugin holds up the delivery for longer than its time; what goes on after that reaches nobody.
    """
    sender = Apprise(asset=_asset())
    sender.add(target)
    said: list[str | None] = []

    def work() -> None:
        try:
            result = sender.notify(title=title, body=body, body_format=form, notify_type=NotifyType(kind))
            bad = [entry.message for entry in result.logs() if entry.level in ("WARNING", "ERROR", "CRITICAL")]
            said.append(None if result else "; ".join(bad))
        except Exception as error:  # a thread's exception is printed, with frames that hold the URL
            said.append(type(error).__name__)

    with heard.hearing() as hearing:
        thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), daemon=True)
        thread.start()
        thread.join(max(0.0, hearing.ends - time.monotonic()) + 0.5)
        hearing.end(late=thread.is_alive())
    return (said[0] if said else ""), hearing


def _target(url: str) -> Any:
    """Apprise's object for the URL; None where it knows none."""
    targets.register()
    target = Apprise.instantiate(url, asset=_asset())
    heard.listen()
    return target or None


def _prepare(target: Any, message: Message) -> None:
    """Set up what the URL does not, and what it may not."""
    target.socket_connect_timeout = min(float(target.socket_connect_timeout), SOCKET_S)
    target.socket_read_timeout = min(float(target.socket_read_timeout), SOCKET_S)
    target.request_rate_per_sec = min(float(target.request_rate_per_sec), RATE_S)
    target.retry = 0  # an attempt is one; the next says whether it may be a repeat
    target.optional = False  # a failure is one
    target.overflow_mode = OverflowMode.SPLIT  # what we did not foresee still arrives
    fields = getattr(target, "payload_extras", None)
    if message.extras is not None and isinstance(fields, dict):
        fields |= {name: value for name, value in message.extras.items() if name not in fields}  # what the URL names stays


def _asset() -> AppriseAsset:
    """Apprise set up to keep nothing on disk, to run no plugins of the machine's, to expand no templates and to start no threads."""
    return AppriseAsset(
        app_id="Fettle",
        app_desc="Fettle",
        storage_mode="memory",
        plugin_paths=[],
        secure_logging=True,
        allow_templates=False,
        async_mode=False,
        service_timeout=0,
    )


def _digest(*texts: str) -> str:
    return sha256("\x00".join(texts).encode()).hexdigest()[:16]


def without_secrets(text: str, url: str) -> str:
    """The text with the URL, and every part of it long enough to be a secret, replaced by three stars."""
    rest = url.partition("://")[2]
    parts = {part for raw in (rest, unquote(rest)) for part in re.split(r"[/@:?&=#,+;\s]+", raw) if len(part) >= 4}
    login, at, _ = rest.partition("@")
    parts |= {b64encode(unquote(login).encode()).decode()} if at else set()  # as it stands in a header that a target repeats
    for part in sorted({url, rest, *parts} - {""}, key=len, reverse=True):
        # a short word of letters is masked as a word alone: `/fail` in a URL must not eat the middle of "Failed"
        pattern = rf"(?<![A-Za-z]){re.escape(part)}(?![A-Za-z])" if part.isalpha() and len(part) < SHORT_WORD else re.escape(part)
        text = re.sub(pattern, "***", text, flags=re.IGNORECASE)
    return text
