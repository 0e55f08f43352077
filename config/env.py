"""Settings from the environment, read loudly: a value that cannot be understood stops the start.

Every read says what it is `about`: docs/reference/settings.md is generated from these calls.
"""

import difflib
import ipaddress
import os
import re
from collections.abc import Collection, Mapping
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, urlsplit

_NOT_IN_A_HOST = re.compile(r"""[\s<>"{}|\\^`]""")
NO_HOST = "it has a control character, or a server whose name has blanks or other signs that none has."
"""What is wrong with a URL that `names_host` is false for."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")  # of which urlsplit drops some in silence
_asked: set[str] = set()
"""Every variable that was read, set or not."""


class SettingError(Exception):
    """An environment variable is missing or cannot be understood; the message says which and how to set it."""


def text(name: str, default: str | None = None, *, about: str) -> str:
    """The variable's text; SettingError when it is unset and there is no default."""
    value = _value(name, default)
    if value is None:
        raise SettingError(f"{name} is not set; give it in the environment: {about}")
    return value


def choice(name: str, default: str, allowed: Collection[str], *, about: str) -> str:
    """One of `allowed`."""
    value = text(name, default, about=about)
    if value not in allowed:
        raise SettingError(f"{name}={value!r} is none of {', '.join(allowed)}; give one of them.")
    return value


def url(name: str, default: str, schemes: Collection[str], *, about: str) -> str:
    """A URL that begins with one of `schemes`; all but unix URLs name a host. What is wrong is said without the URL: it may hold a password."""
    value = text(name, default, about=about)
    try:
        parts = urlsplit(value)
        _ = parts.port  # a port that is none raises
    except ValueError:  # its words repeat a part of the URL, which may be the password's
        raise SettingError(
            f"{name} is no URL: the part before its path cannot be read; write signs such as / and @ in a password as %2F and %40."
        ) from None
    if parts.scheme not in schemes or not (parts.path if parts.scheme == "unix" else parts.hostname):
        raise SettingError(f"{name} is no URL that can be used: give one such as {' or '.join(f'{one}://…' for one in schemes)}.")
    if not names_host(value):
        raise SettingError(f"{name} is no URL that can be used: {NO_HOST}")
    return value


def names_host(url: str) -> bool:
    """False for a URL with control characters, or with a host that can be none; one without a host has nothing wrong with it."""
    host = urlsplit(url).hostname or ""
    try:
        host.encode("idna")  # as whoever looks it up does
    except UnicodeError:
        return False
    return not _NOT_IN_A_HOST.search(host) and not _CONTROL.search(url)


def refuse_unknown(prefix: str, others: Collection[str], elsewhere: tuple[str, ...] = ()) -> None:
    """SettingError for a variable that begins with `prefix` and that nobody reads, with the name that is nearest.

    `others` are read outside the settings; names that begin with one of `elsewhere` are other programs'.
    """
    known = {name for name in _asked if name.startswith(prefix)} | set(others)
    for name in sorted(os.environ):
        if name.startswith(prefix) and name not in known and not name.startswith(elsewhere):
            near = difflib.get_close_matches(name, known, 1)
            raise SettingError(
                f"{name} is no setting{f'; {near[0]} is' if near else ''}. docs/reference/settings.md lists them; unset it or correct its name."
            )


def _value(name: str, default: str | None = None) -> str | None:
    _asked.add(name)
    return os.environ.get(name, default)


def boolean(name: str, default: bool, *, about: str) -> bool:
    """True for 1, true, yes, on; False for 0, false, no, off and the empty string."""
    value = _value(name)
    if value is None:
        return default
    if value.lower() in ("1", "true", "yes", "on"):
        return True
    if value.lower() in ("", "0", "false", "no", "off"):
        return False
    raise SettingError(f"{name}={value!r} is neither yes nor no; use 1 or 0.")


def integer(name: str, default: int, low: int = 0, high: int = 1 << 31, *, about: str) -> int:
    """A whole number between `low` and `high`."""
    value = _value(name)
    if value is None:
        return default
    try:
        number = int(value)
    except ValueError:
        raise SettingError(f"{name}={value!r} is not a whole number; give one from {low} to {high}.") from None
    if not low <= number <= high:
        raise SettingError(f"{name}={number} is outside {low} to {high}; give a number between them.")
    return number


def number(name: str, default: float | None, low: float, high: float, *, about: str) -> float | None:
    """A finite number between `low` and `high`; an empty variable counts as unset."""
    value = _value(name)
    if value is None or not value.strip():
        return default
    try:
        found = float(value)
    except ValueError:
        raise SettingError(f"{name}={value!r} is not a number; give one from {low:g} to {high:g}.") from None
    if not low <= found <= high:  # not-a-number too
        raise SettingError(f"{name}={value} is outside {low:g} to {high:g}; give a number between them.")
    return found


def rises(values: Mapping[str, float], unit: str) -> None:
    """SettingError unless each value, by its variable, is at least the one before."""
    pairs = list(values.items())
    for (finer, less), (coarser, more) in pairwise(pairs):
        if more < less:
            raise SettingError(f"{coarser} is {more:g} {unit} and {finer} is {less:g}: give {coarser} as long a time, or longer.")


def words(name: str, default: str = "", *, about: str) -> list[str]:
    """A list separated by commas; empty words are dropped. One that has a default may not be empty."""
    found = [word.strip() for word in text(name, default, about=about).split(",") if word.strip()]
    if default and not found:
        raise SettingError(f"{name} is empty; give words with commas between, or unset it for {default}.")
    return found


def places(name: str, *, about: str) -> list[str]:
    """IP addresses, networks and host names, separated by commas."""
    found = words(name, about=about)
    for word in found:
        try:
            ipaddress.ip_network(word, strict=False)
        except ValueError:
            if not re.fullmatch(r"(?!\d+(\.\d+)*$)[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", word):
                raise SettingError(
                    f"{name} has {word!r}, which is neither an address, nor a network such as 10.20.0.0/16, nor a host's name."
                ) from None
    return found


def secret(name: str, file: Path, *, about: str) -> str:
    """The variable, else the first line of the file that NAME_FILE names, else of `file`; SettingError for less than 32 characters."""
    value, named = _value(name), _value(f"{name}_FILE")
    if value is not None and named is not None:
        raise SettingError(f"{name} and {name}_FILE are both set; unset one of them.")
    if value is None:
        if named is not None:
            value = first_line(f"{name}_FILE", named)
        else:
            try:
                value = file.read_text().strip()
            except FileNotFoundError:
                raise SettingError(
                    f"{name} is not set and {file} does not exist; `make up` writes one. Where it ran with DATA=FOLDER, give FETTLE_DATA=FOLDER."
                ) from None
    if len(value) < 32:
        raise SettingError(f"{name} is empty or shorter than 32 characters; anybody could guess it.")
    return value


def password(name: str, url: str, of: str, *, about: str) -> str:
    """`url`, which the variable `of` gave, with the password from the file that `name` names; as it is where that is unset.

    SettingError where the URL holds a password already, or names no server.
    """
    named = _value(name)
    if named is None:
        return url
    parts = urlsplit(url)
    if not parts.hostname:
        raise SettingError(f"{name} is set and {of} names no server that would ask for a password; unset one of them.")
    if parts.password is not None:
        raise SettingError(f"{name} is set and {of} holds a password too; take one of them away.")
    user, at, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user if at else ''}:{quote(first_line(name, named), safe='')}@{host}").geturl()


def first_line(name: str, file: str) -> str:
    """The first line of the file that the variable `name` names, without blanks around it; SettingError where it holds none."""
    try:
        lines = Path(file).read_text().splitlines()
    except OSError as error:
        raise SettingError(f"{name}={file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingError(f"{name}={file} is no text; its first line should be the secret.") from None
    if not lines or not lines[0].strip():
        raise SettingError(f"{name}={file} is empty; its first line should be the secret.")
    return lines[0].strip()
