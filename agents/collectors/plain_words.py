"""Which values of flags are plain enough to leave the node: numbers, booleans, short words, the last part of a model's path.

What might hold a secret, a user's name, a path or an address is not told. Doubt means no.
"""

import re
from typing import Final

from wire.labels import FlagKind

_NUMBER: Final = re.compile(r"[-+]?\d{1,18}(?:\.\d{1,18})?(?:[eE][-+]?\d{1,3})?")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_MODEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}")
_HOMES: Final = re.compile(r"(?:^|/)(?:home|Users|users|root|~\w*)$")
_SNAPSHOT: Final = re.compile(r"models--([A-Za-z0-9_.+-]{1,80})")
_TELLING: Final = re.compile(r"token|secret|passw|passphrase|credential|(?:^|[_-])(?:key|auth|pwd|pass)(?:$|[_-])", re.IGNORECASE)
_KEY: Final = re.compile(r"(?:hf|sk|gh[pousr]|glpat|xox[a-z]|AKIA|eyJ)[_A-Za-z0-9-]{12,}")
_PARTS: Final = re.compile(r"[_.+-]")
_NAME_ANYWHERE: Final = 4
"""A name of so many letters is looked for within longer words too."""
_SCRAMBLED_FROM: Final = 16
"""Words this long with digits strewn through their letters look like keys."""
_TRUE: Final = ("true", "yes", "on", "1")
_FALSE: Final = ("false", "no", "off", "0")


def of_kind(kind: FlagKind, value: str, user: str, is_switch: bool = False) -> str | None:
    """A flag's value as it may be told; None where it is not what the flag should have.

    `is_switch`: the flag stands alone or before a value; what follows is then its own only if it is a boolean.
    """
    if kind == "number":
        return value if _NUMBER.fullmatch(value) else None
    if kind == "boolean":
        if value.lower() in _TRUE + _FALSE:
            return "true" if value.lower() in _TRUE else "false"
        return "true" if is_switch else None
    if kind == "model":
        return model(value, user)
    return None if not _WORD.fullmatch(value) or names(value, user) or _is_a_secret(value) else value


def model(value: str, user: str) -> str | None:
    """The last part of a model's name or path; None for what looks like a person's, a secret or an address."""
    if any(mark in value for mark in ("://", "@", "?")):
        return None
    snapshot = _SNAPSHOT.search(value)
    if snapshot is not None:
        last, above = snapshot[1].rpartition("--")[2], ""
    else:
        above, _, last = value.rstrip("/").rpartition("/")
    if _HOMES.search(above) or not _MODEL.fullmatch(last) or _is_a_secret(last) or names(last, user):
        return None
    return last


def names(word: str, user: str) -> bool:
    """True where the user's name stands in the word, whatever separates its parts; a short one only where it stands by itself."""
    name, text = _PARTS.sub("-", user.lower()), _PARTS.sub("-", word.lower())
    if len(name) >= _NAME_ANYWHERE:
        return name in text or name.replace("-", "") in text.replace("-", "")
    return bool(name) and f"-{name}-" in f"-{text}-"


def _is_a_secret(word: str) -> bool:
    """Long runs of letters and digits without a break, a known service's key, or a name that says so."""
    longest = max(_PARTS.split(word), key=len)
    is_scrambled = len(longest) >= _SCRAMBLED_FROM and any(c.isdigit() for c in longest) and any(c.isalpha() for c in longest)
    return is_scrambled or len(longest) > 32 or _TELLING.search(word) is not None or _KEY.match(word) is not None
