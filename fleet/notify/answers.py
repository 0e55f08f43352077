"""Reads what chats answer: taken, refused for now, refused for good, or too long; and how long to wait.

Some say so in the body of an answer whose status is 200, each in its own way. Codes are those of the services' documentation.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Any, Final, Literal, TypeAlias

Verdict: TypeAlias = Literal["taken", "later", "limited", "never", "long"]
"""later: try again. limited: so should everything else that goes to this target. never: it will not take this. long: it takes shorter ones."""
WAIT_MOST_S: Final = 3600.0
"""The longest that a target may ask us to wait."""
_TOO_LONG: Final = re.compile(
    r"too[ _]?(long|large|big|many[ _]characters)|max[ _]?(imum)?[ _]?(message[ _])?length|length[ _]exceed|exceeds? (the )?(max|limit|length|size)"
    r"|size out of limit|长度(超|过)|超长|内容过长",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What an answer means; `says`: the target's own words, to be shown once secrets are taken out; `wait_s`: before the next try."""

    verdict: Verdict
    says: str = ""
    wait_s: float | None = None


_LIMITED: Final[dict[str, dict[int, float]]] = {
    "feishu": {11232: 5, 99991400: 5},
    "dingtalk": {
        130101: 600,
        130102: 600,
        130103: 600,
        410100: 600,
        90018: 60,
    },  # twenty in a minute, then ten minutes of nothing
    "wecom": {45009: 60, 45033: 10},
}
"""Codes that say "too fast", with the seconds to wait by the service's documentation; their answers carry none."""
_NEVER: Final[dict[str, frozenset[int]]] = {
    "feishu": frozenset({9499, 19001, 19002, 19021, 19022, 19024}),  # no such bot; the signature, the address, the key word
    "dingtalk": frozenset({300001, 300005, 310000, 400013, 400101, 400102, 400105, 40035, 43004}),
    "wecom": frozenset({40008, 93000, 93004, 93008, 93017}),
}
"""Codes that say that it will never be taken as it is. Others, which nobody told us of, are tried again."""
_LONG: Final[dict[str, frozenset[int]]] = {
    "feishu": frozenset({230025}),
    "dingtalk": frozenset({460101}),
    "wecom": frozenset({40058, 45002, 45008}),
}
_SERVICES: Final = {
    "open.feishu.cn": "feishu",
    "open.larksuite.com": "feishu",
    "oapi.dingtalk.com": "dingtalk",
    "qyapi.weixin.qq.com": "wecom",
    "slack.com": "slack",
    "slack-gov.com": "slack",
    "webhook.office.com": "teams",
    "logic.azure.com": "teams",
}
_SLACK_LATER: Final = frozenset(
    {"service_unavailable", "internal_error", "fatal_error", "request_timeout", "team_added_to_org", "rollup_error"}
)
_SLACK_LONG: Final = frozenset({"msg_too_long", "msg_blocks_too_long", "invalid_blocks", "invalid_attachments"})


def read(host: str, status: int, body: bytes, wait_s: float | None) -> Answer:
    """What an answer of `host` means. `wait_s`: what its Retry-After says."""
    text = body.decode("utf-8", "replace").strip()
    service = next((name for end, name in _SERVICES.items() if host == end or host.endswith(f".{end}")), "")
    if status < 500 and (said := _in_body(service, text)):
        return Answer(said.verdict, said.says, wait_s if wait_s is not None else said.wait_s)
    if 200 <= status < 300:
        return Answer("taken")
    if status == 429 or (status == 503 and wait_s is not None):
        return Answer("limited", text, wait_s)
    if status == 413 or (400 <= status < 500 and _TOO_LONG.search(text)):
        return Answer("long", text)
    if status in (408, 425) or status >= 500 or status < 200:
        return Answer("later", text, wait_s)
    return Answer("never", text)


def retry_after_s(headers: Mapping[str, str], body: bytes) -> float | None:
    """Seconds that the target asks us to wait, by its Retry-After (seconds or a date) or its JSON; None where it asks for nothing."""
    for name in ("Retry-After", "X-RateLimit-Reset-After"):
        if (value := headers.get(name)) and (found := _seconds(value)) is not None:
            return found
    values = _json(body.decode("utf-8", "replace"))
    inner = values.get("parameters")  # Telegram
    for place in (values, inner if isinstance(inner, dict) else {}):
        for name, scale in (("retry_after", 1.0), ("retryAfter", 1.0), ("retryAfterSeconds", 1.0), ("retry_after_ms", 1e-3)):
            value = place.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
                return _bounded(value * scale)
    return None


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
        return _bounded(seconds) if isfinite(seconds) else None
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return _bounded((at - datetime.now(UTC)).total_seconds())


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), WAIT_MOST_S)


def _in_body(service: str, text: str) -> Answer | None:
    """What the service says in a body of its own form; None where it says nothing of the kind."""
    if service == "slack":
        return _slack(text)
    if service == "teams":  # its connectors answer 200 and quote the status that they got
        quoted = re.search(r"returned HTTP error (\d{3})", text)
        return read("", int(quoted[1]), text.encode(), None) if quoted else None
    values = _json(text)
    number = values.get("errcode" if service in ("dingtalk", "wecom") else "code")
    if service not in _LIMITED or isinstance(number, bool) or not isinstance(number, int) or number == 0:
        return None
    says = f"{number} {values.get('errmsg') or values.get('msg') or ''}".strip()
    if number in _LIMITED[service]:
        return Answer("limited", says, _LIMITED[service][number])
    if number in _LONG[service] or _TOO_LONG.search(says):
        return Answer("long", says)
    return Answer("never" if number in _NEVER[service] else "later", says)


def _slack(text: str) -> Answer | None:
    """A webhook answers with a word, an API call with JSON that holds one."""
    values = _json(text)
    word = str(values.get("error", "")) if values.get("ok") is False else text if re.fullmatch(r"[a-z_]{3,60}", text) else ""
    if word in ("", "ok"):
        return None
    if word in ("ratelimited", "rate_limited", "message_limit_exceeded"):
        return Answer("limited", word, 30.0)
    if word in _SLACK_LONG:
        return Answer("long", word)
    return Answer("later" if word in _SLACK_LATER else "never", word)


def _json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
