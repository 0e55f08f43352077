"""Words of strangers on a terminal."""

import json

import pytest

from wire.terminal import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train 训练 50\u00a0%", "train 训练 50\u00a0%"),
        ("\x1b]0;owned\x07", "\\u001b]0;owned\\u0007"),
        ("a\nGPU 0 is fine", "a\\nGPU 0 is fine"),
        ("\x9b2J\x7f", "\\u009b2J\\u007f"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\udc80", "\\udc80"),
    ],
)
def test_what_moves_the_cursor_is_written_out(text: str, shown: str) -> None:
    """Letters of every script and spaces stay; control, format and half characters are escaped."""
    assert printable(text) == shown


def test_json_stays_the_same_json() -> None:
    """The escapes are JSON's own."""
    said = json.dumps({"name": "\x9b\U000e0001\x7f"}, ensure_ascii=False)
    assert json.loads(printable(said)) == {"name": "\x9b\U000e0001\x7f"}
