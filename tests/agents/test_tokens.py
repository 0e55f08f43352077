"""Tokens that cannot be sent: said at the start with their place, never with a word of what they are."""

import json
from pathlib import Path

import pytest

from agents.config import AgentConfig, ConfigError


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"hunter2\nswordfish\n", "it has 2 lines"),
        (b"hunter2\0", "it has 8 characters, some of which no token has"),
        (b"hunter2 swordfish", "it has 17 characters, some of which no token has"),
        ("hunter2é".encode(), "it has 8 characters, some of which no token has"),
        (b"hunter2\xff", "it is not text in UTF-8"),
        (b"hunter2" * 200, "it has 1400 characters"),
        (b" \n", "there is no token in it"),
    ],
)
def test_a_token_file_that_holds_no_token_is_named_and_not_quoted(tmp_path: Path, content: bytes, said: str) -> None:
    """A header cannot hold it, and what refuses it there would print it into the log."""
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        AgentConfig(token_file=file).token("n")

    assert str(caught.value).startswith(f"{file}: ")
    assert said in str(caught.value)
    assert not any(word in str(caught.value) for word in ("hunter2", "swordfish", "0xff"))


def test_a_token_of_a_table_or_the_environment_is_looked_at_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it comes from."""
    table = tmp_path / "tokens.json"
    table.write_text(json.dumps({"n": "hunter2\nx"}))
    monkeypatch.setenv("FETTLE_AGENT_TOKEN", "hunter2\x1bx")

    with pytest.raises(ConfigError, match=rf"^{table}, node 'n': it must hold the token alone.* it has 2 lines\.$"):
        AgentConfig(tokens=table).token("n")
    with pytest.raises(ConfigError, match=r"^FETTLE_AGENT_TOKEN: it must hold the token alone"):
        AgentConfig().token("n")


def test_blanks_around_a_token_do_not_count(tmp_path: Path) -> None:
    """Editors end a file with a newline."""
    (tmp_path / "token").write_text(" hunter2_-.=/+\r\n")

    assert AgentConfig(token_file=tmp_path / "token").token("n") == "hunter2_-.=/+"
