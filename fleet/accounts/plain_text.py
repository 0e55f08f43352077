"""What people may write into a text: letters, not characters that steer a terminal, a log or the order of reading."""

import unicodedata
from typing import Final

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

REFUSED: Final = _("A text cannot hold control characters, such as NUL or a line end.")
_TURNS: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""They show the rest of a line in another order than it is written."""


def is_plain(text: str) -> bool:
    """Whether it is one line of letters, marks, signs and spaces of any script."""
    return text.isprintable() or not any(one in _TURNS or unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") for one in text)


def plain_text(text: str) -> None:
    """ValidationError for a text that is not; for forms and serializers alike."""
    if not is_plain(text):
        raise ValidationError(REFUSED, code="not_plain")


def all_plain(value: object) -> bool:
    """Whether every text in a value of JSON is plain, the names of its fields too: PostgreSQL cannot keep a NUL, and people read the others."""
    if isinstance(value, dict):
        return all(map(all_plain, (*value, *value.values())))
    if isinstance(value, list | tuple):
        return all(map(all_plain, value))
    return not isinstance(value, str) or is_plain(value)
