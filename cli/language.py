"""The reader's language on a terminal: that of LANGUAGE, LC_ALL, LC_MESSAGES and LANG, as gettext takes it, from the pages' own catalogue.

Where there is no catalogue, as in the agent's single file, all is English. What programs read (`--json`) always is.
"""

import os
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wire.sentence import Sentence, of

if TYPE_CHECKING:
    from gettext import NullTranslations

    from advisor.text import Text

CATALOGUES: Final = Path(__file__).resolve().parent.parent / "locale"
_HANS: Final = ("", "cn", "sg", "my", "hans")
"""What may follow `zh` where Simplified Chinese is meant."""
_WIDE: Final = ("W", "F")


def catalogue() -> "NullTranslations":
    """The texts of the first wanted language that there are texts of; English answers itself."""
    for name in _wanted():
        if name == "en":
            break
        if (found := _read(name)) is not None:
            return found
    return _english()


def _(text: str) -> str:
    """`text` in the reader's language."""
    return catalogue().gettext(text) if text else ""


def gettext_noop(text: str) -> str:
    """`text` as it is: marked for translation where it stands, translated where it is said."""
    return text


def said(what: object) -> str:
    """What an error or a sentence of the agent's says, in the reader's language; what nobody translated as it is."""
    text = of(what) if isinstance(what, BaseException) else what
    if not isinstance(text, Sentence):
        return _(str(text))
    values = {name: said(value) if isinstance(value, Sentence | BaseException) else value for name, value in text.values.items()}
    try:
        return _(text.text).format(**values)
    except (ValueError, TypeError, LookupError):  # a translation with a broken field
        return str(text)


def word(context: str, text: str) -> str:
    """A word whose meaning hangs on `context`, such as "low" of a confidence."""
    return catalogue().pgettext(context, text)


def sentence(text: "Text") -> str:
    """A text of the advisor with its values; a text of its own among them (`about`) is translated too."""
    from advisor.text import Text

    params = {name: _(str(value)) if name == "about" else value for name, value in text.params.items()}
    try:
        return Text(_(text.id), params).english()
    except (ValueError, TypeError, IndexError, AttributeError):  # a translation with a broken field
        return text.english()


def width(text: str) -> int:
    """The columns that `text` takes on a terminal: a Chinese character takes two."""
    return sum(0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in _WIDE else 1 for one in text)


def left(text: str, columns: int) -> str:
    """`text` with spaces behind it, `columns` wide where it is not wider."""
    return text + " " * (columns - width(text))


def right(text: str, columns: int) -> str:
    """`text` with spaces before it, `columns` wide where it is not wider."""
    return " " * (columns - width(text)) + text


def _wanted() -> Iterator[str]:
    """The names of catalogues that the environment asks for, the first before the others."""
    locale = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := os.environ.get(name))), "")
    if locale in ("C", "POSIX"):
        return
    for one in (os.environ.get("LANGUAGE") or locale).split(":"):
        name = one.partition(".")[0].partition("@")[0].replace("-", "_")
        language, *rest = name.lower().split("_") or [""]
        if language == "zh" and (rest or [""])[0] in _HANS:
            yield "zh_Hans"
        elif language == "en":
            yield "en"
        elif name and name.replace("_", "").isalnum():
            yield name


@cache
def _english() -> "NullTranslations":
    from gettext import NullTranslations

    return NullTranslations()


@cache
def _read(name: str) -> "NullTranslations | None":
    from gettext import GNUTranslations

    try:
        with (CATALOGUES / name / "LC_MESSAGES" / "django.mo").open("rb") as file:
            return GNUTranslations(file)
    except (OSError, ValueError):
        return None
