"""Draws a message as its target shows it best, in parts as long as the target takes them."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from apprise import NotifyFormat
from apprise.conversion import convert_between
from django.template.loader import render_to_string

from fleet.notify.note import Message
from fleet.notify.parts import longest, split
from fleet.notify.plain import markdown

SHORT: Final = 500
"""A target that takes fewer characters, such as an SMS, gets the message in a line; others get a long one in parts."""
LEAST: Final = 400
"""What a target refuses as too long is cut in halves, down to so much."""
BYTES: Final = {"feishu": 19_000, "lark": 19_000, "dingtalk": 19_000, "wecombot": 2_000}
"""Targets that count bytes of UTF-8, which Apprise takes for characters, with what they take, less some for what is around the text."""
_MAIL: Final = frozenset({"mailto", "mailtos"})
_NUMBER: Final = len(" (10/10)")
_NOTICE: Final = 100
"""Room for a notice, in characters or bytes."""


class Drawing:
    """A message for one target of Apprise's."""

    def __init__(self, target: Any, message: Message) -> None:
        self.target, self.message = target, message
        self.kinds = {str(name) for name in type(target).schemas(target)}
        self.form = form(target)
        self.limit = min([int(target.body_maxlen), *(BYTES[name] for name in self.kinds & BYTES.keys())])
        self.is_line = self.limit < SHORT

    def pieces(self) -> list[str]:
        """The body in pieces that fit, whatever stands around each; of a target that takes but a line, that line."""
        return [self._line()] if self.is_line else split(self.message.body, self._fits)

    def shorter(self, left: Sequence[str]) -> list[str]:
        """What is left, of which the first was too long, in pieces half as long; none where it is short already."""
        least = self._length(self._around("")) + LEAST
        length = self._length(self._around(left[0]))
        if length <= least or self.is_line:
            return []
        self.limit = max(length // 2, least)
        return split("\n".join(left), self._fits)

    def written(self, piece: str, number: str = "", noticed: bool = True) -> tuple[str, str, NotifyFormat]:
        """Title, body and form; the title stands in the body where it would be drawn, or where the target knows no titles."""
        title, text = f"{self.message.title}{number}", self._around(piece, noticed)
        if self.is_line:
            return "", text, NotifyFormat.TEXT
        if self.form == NotifyFormat.TEXT:
            return title, text, self.form
        apart = self.form == NotifyFormat.HTML and bool(self.target.title_maxlen)  # a mail's subject is text
        body = markdown("" if apart else title, text)
        if self.form == NotifyFormat.HTML:
            body = convert_between(NotifyFormat.MARKDOWN, self.form, body)  # type: ignore[no-untyped-call] # the library has no types
            if self.kinds & _MAIL:
                body = render_to_string("notify/mail.html", {"title": title, "body": body, "kind": self.message.kind})
        return title if apart else "", body, self.form

    def _around(self, piece: str, noticed: bool = True) -> str:
        """A piece with what stands in each part: that it may be a repeat, the link and the key."""
        if self.is_line:
            return piece
        text = "\n".join(filter(None, [self.message.notice if noticed else "", piece]))
        return f"{text}\n\n{self.message.tail}" if self.message.tail else text

    def _fits(self, piece: str) -> bool:
        title, body, form = self.written(piece, noticed=False)  # with or without a notice, the parts are the same
        convert: Callable[..., str] = self.target.dialect_convert
        shared = self.target.title_maxlen <= 0 or self.target.overflow_amalgamate_title
        longer = max(self._length(body), self._length(convert(body, form)))  # Apprise looks before and after
        return longer + (self._length(title) if shared else 0) + _NUMBER + _NOTICE <= self.limit

    def _length(self, text: str) -> int:
        return len(text.encode()) if self.kinds & BYTES.keys() else len(text)

    def _line(self) -> str:
        """The message in a line: whatever is left out of it, its link and its key are not."""
        end = " ".join(filter(None, [self.message.link, self.message.key]))
        if len(end) > self.limit:
            end = self.message.link[: self.limit]
        begin = longest(self.message.short or self.message.title, lambda text: len(f"{text} {end}") <= self.limit)
        return f"{begin} {end}".strip()


def form(target: Any) -> NotifyFormat:
    """The form to send in: what the URL asks for, else plain text where the target shows it as such, Markdown where it is drawn anyway."""
    plain, drawn, rich = (target.resolve_format(one) for one in (NotifyFormat.TEXT, NotifyFormat.MARKDOWN, NotifyFormat.HTML))
    kinds = {str(name) for name in type(target).schemas(target)}
    if kinds & _MAIL:
        return NotifyFormat(rich)  # Apprise adds the same as plain text
    if kinds & BYTES.keys():
        return NotifyFormat(plain)  # their Markdown is a dialect that knows neither code nor escapes
    if plain == NotifyFormat.TEXT and drawn == NotifyFormat.MARKDOWN and rich != NotifyFormat.HTML:
        return NotifyFormat.MARKDOWN  # Slack and Discord; what also takes HTML is a webhook and keeps text as it is
    return NotifyFormat(plain)
