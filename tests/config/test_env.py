"""Settings from the environment are read loudly."""

from pathlib import Path

import pytest

from config import env


@pytest.mark.parametrize(("text", "value"), [("1", True), ("Yes", True), ("on", True), ("0", False), ("no", False), ("", False)])
def test_it_reads_yes_and_no(monkeypatch: pytest.MonkeyPatch, text: str, value: bool) -> None:
    """The usual spellings are understood."""
    monkeypatch.setenv("FETTLE_X", text)

    assert env.boolean("FETTLE_X", not value, about="") is value


def test_it_refuses_a_word_that_is_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the variable and what may stand there."""
    monkeypatch.setenv("FETTLE_X", "maybe")

    with pytest.raises(env.SettingError, match="FETTLE_X='maybe' is neither yes nor no"):
        env.boolean("FETTLE_X", True, about="")


@pytest.mark.parametrize(
    ("text", "message"), [("ten", "is not a whole number"), ("0", "outside 1 to 60"), ("61", "outside 1 to 60")]
)
def test_it_refuses_a_number_that_cannot_be(monkeypatch: pytest.MonkeyPatch, text: str, message: str) -> None:
    """Text and numbers out of bounds stop the start."""
    monkeypatch.setenv("FETTLE_X", text)

    with pytest.raises(env.SettingError, match=message):
        env.integer("FETTLE_X", 5, 1, 60, about="")


def test_it_takes_a_secret_from_its_file_only_when_the_variable_is_unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment comes first."""
    file = tmp_path / "key"
    file.write_text("f" * 40 + "\n")

    assert env.secret("FETTLE_X", file, about="") == "f" * 40
    monkeypatch.setenv("FETTLE_X", "e" * 40)
    assert env.secret("FETTLE_X", file, about="") == "e" * 40


@pytest.mark.parametrize("key", ["", "short", "x" * 31])
def test_it_refuses_a_secret_that_anybody_could_guess(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str) -> None:
    """An empty or short key never signs a session."""
    monkeypatch.setenv("FETTLE_X", key)

    with pytest.raises(env.SettingError, match="empty or shorter than 32"):
        env.secret("FETTLE_X", tmp_path / "none", about="")


def test_it_says_how_to_get_a_secret_that_is_missing(tmp_path: Path) -> None:
    """The first start without `make up` is told what to do."""
    with pytest.raises(env.SettingError, match="`make up` writes one"):
        env.secret("FETTLE_NOT_SET", tmp_path / "none", about="")
