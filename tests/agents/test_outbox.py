"""What a server said, as it may stand in a log."""

import logging
from pathlib import Path

import pytest

from agents.outbox import Outbox, plain
from agents.segment import BATCH
from agents.spool import Spool
from wire.messages import Hello


@pytest.mark.parametrize(
    ("said", "logged"),
    [
        ("disk full: 3 of 4", "disk full: 3 of 4"),
        ("\x1b[2J\x1b]0;mine\x07all well", "[2J]0;mineall well"),
        ("first\nERROR forged line\r", "firstERROR forged line"),
        ("abc\u202etxt.exe\u2066", "abctxt.exe"),
        ("nul\x00\ud800", "nul"),
        ("磁盘已满", "磁盘已满"),
        ("", ""),
    ],
)
def test_what_a_server_says_cannot_steer_a_terminal_or_forge_a_line(said: str, logged: str) -> None:
    """Control, direction and other format characters go, letters of any language stay."""
    assert plain(said) == logged


def test_what_a_server_says_is_short_in_the_log() -> None:
    """However long it is, and however much of it is left out."""
    assert plain("x" * 1_000_000) == "x" * 200
    assert plain("\x00" * 300 + "x" * 300) == "x" * 100


def test_a_code_that_was_invented_is_logged_plain_and_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A server that refuses with terminal codes: one clean line, and the records are counted under what it said."""
    spool = Spool(tmp_path)
    spool.begin(Hello(node="n", boot="b0", agent_version="1", schema="s"))
    outbox = Outbox(spool, as_text=False)
    for seq in range(3):
        spool.append(BATCH, seq, b"x")
        outbox.refuse(spool.current, BATCH, seq, "\x1b[31mno\n")
    spool.close()

    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "([31mno)" in line
    assert line.isprintable()
    assert outbox.refused == {"\x1b[31mno\n": 3}
