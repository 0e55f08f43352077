"""Settings from the environment, read loudly: a value that cannot be understood stops the start.

Every read says what it is `about`: docs/reference/settings.md is generated from these calls.
"""

import os
from pathlib import Path


class SettingError(Exception):
    """An environment variable is missing or cannot be understood; the message says which and how to set it."""


def text(name: str, default: str | None = None, *, about: str) -> str:
    """The variable's text; SettingError when it is unset and there is no default."""
    value = os.environ.get(name, default)
    if value is None:
        raise SettingError(f"{name} is not set; give it in the environment: {about}")
    return value


def boolean(name: str, default: bool, *, about: str) -> bool:
    """True for 1, true, yes, on; False for 0, false, no, off and the empty string."""
    value = os.environ.get(name)
    if value is None:
        return default
    if value.lower() in ("1", "true", "yes", "on"):
        return True
    if value.lower() in ("", "0", "false", "no", "off"):
        return False
    raise SettingError(f"{name}={value!r} is neither yes nor no; use 1 or 0.")


def integer(name: str, default: int, low: int = 0, high: int = 1 << 31, *, about: str) -> int:
    """A whole number between `low` and `high`."""
    value = os.environ.get(name)
    if value is None:
        return default
    try:
        number = int(value)
    except ValueError:
        raise SettingError(f"{name}={value!r} is not a whole number; give one from {low} to {high}.") from None
    if not low <= number <= high:
        raise SettingError(f"{name}={number} is outside {low} to {high}; give a number between them.")
    return number


def words(name: str, default: str = "", *, about: str) -> list[str]:
    """A list separated by commas; empty words are dropped."""
    return [word.strip() for word in os.environ.get(name, default).split(",") if word.strip()]


def secret(name: str, file: Path, *, about: str) -> str:
    """The variable, else the first line of `file`; SettingError when neither holds 32 characters or more."""
    value = os.environ.get(name)
    if value is None:
        try:
            value = file.read_text().strip()
        except FileNotFoundError:
            raise SettingError(f"{name} is not set and {file} does not exist; `make up` writes one.") from None
    if len(value) < 32:
        raise SettingError(f"{name} is empty or shorter than 32 characters; anybody could guess it.")
    return value
