"""Files of settings and tokens as they are read, and what keeps a token from being sent."""

import json
import re
from pathlib import Path
from typing import Final

import msgspec

from wire.sentence import Sentence, _
from wire.terminal import printable

_MAX_BYTES: Final = 1_000_000  # of a file of settings or tokens
_TOKEN_MAX: Final = 1024
_TOKEN: Final = re.compile(rf"[!-~]{{1,{_TOKEN_MAX}}}")


class ConfigError(Exception):
    """The settings cannot be used; the message says which and what to do, in one line that is fit for a terminal."""

    def __str__(self) -> str:
        return printable(super().__str__())


def sendable(token: str, where: str) -> str:
    """The token, where a header can hold it; else a ConfigError that says what is wrong with it, never what it is."""
    if _TOKEN.fullmatch(token):
        return token
    if not token:
        raise ConfigError(Sentence(_("{where}: there is no token in it; issue one on the server."), where=where))
    number, lines = len(token), len(token.splitlines())
    what = (
        Sentence(_("{total} lines"), total=lines)
        if lines > 1
        else Sentence(_("{total} characters, some of which no token has"), total=number)
        if number <= _TOKEN_MAX
        else Sentence(_("{total} characters"), total=number)
    )
    raise ConfigError(
        Sentence(
            _("{where}: it must hold the token alone, in one line of ASCII letters, digits and signs; it has {what}."),
            where=where,
            what=what,
        )
    )


def read(file: Path) -> str:
    """The text of a file; ConfigError where it cannot be read."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ConfigError(
                Sentence(_("{file}: cannot be read: it is larger than {most} MB."), file=file, most=_MAX_BYTES // 1000000)
            )
        return content.decode()
    except OSError as error:
        raise ConfigError(Sentence(_("{file}: cannot be read: {why}."), file=file, why=error.strerror or error)) from None
    except UnicodeDecodeError:  # which quotes what it stumbled over
        raise ConfigError(Sentence(_("{file}: cannot be read: it is not text in UTF-8."), file=file)) from None


def tokens_of(file: Path) -> dict[str, str]:
    """The tokens of nodes, by name; ConfigError where the file holds something else."""
    try:
        return msgspec.convert(json.loads(read(file)), dict[str, str])
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise ConfigError(
            Sentence(_("{file}: not a JSON object of node names and tokens: {why}."), file=file, why=error)
        ) from None
