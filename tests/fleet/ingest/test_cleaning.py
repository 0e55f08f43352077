"""What is left of text that strangers send."""

import sys
import unicodedata

from fleet.ingest.cleaning import CATEGORIES, clean


def test_no_control_or_format_character_of_any_plane_is_left() -> None:
    """Whatever Unicode this Python knows."""
    bad = [chr(n) for n in range(sys.maxunicode + 1) if unicodedata.category(chr(n)) in CATEGORIES]

    assert len(bad) > 200
    assert clean("a" + "".join(bad) + "训练 b", len(bad) + 10) == "a训练 b"
