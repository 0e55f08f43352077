"""What a person may write into a text."""

import pytest
from django.core.exceptions import ValidationError

from fleet.accounts.plain_text import is_plain, plain_text


@pytest.mark.parametrize("text", ["", "Nsight on job 7", "作业 7 的分析", "50\u00a0%", "👩\u200d🔬", "naïve – “yes”"])
def test_letters_of_every_script_are_plain(text: str) -> None:
    """Spaces and joined signs too."""
    plain_text(text)
    assert is_plain(text)


@pytest.mark.parametrize("text", ["\x00", "a\nb", "a\tb", "\x1b[2J", "\x7f", "\x9b", "\u2028", "\u202e", "\ud800"])
def test_what_steers_a_terminal_or_a_log_is_not(text: str) -> None:
    """Control characters, line ends of every kind, halves of characters, and what turns the order of reading."""
    with pytest.raises(ValidationError):
        plain_text(text)
