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
