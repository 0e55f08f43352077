"""Messages as ids with parameters: the advisor writes English source text, others translate it.

`_` marks a string for gettext's extraction and returns it as it is; `Text.english()` fills it in.
Number formats stand in the text (`{share:.0%}`), so a translation may place and format them its own way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Value: TypeAlias = str | int | float


def _(text: str) -> str:
    """Mark `text` for translation."""
    return text


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence: `id` is the English source with `{name:format}` fields, `params` their values."""

    id: str
    params: Mapping[str, Value] = field(default_factory=dict)

    def english(self) -> str:
        """The sentence in English."""
        return self.id.format_map(self.params)
