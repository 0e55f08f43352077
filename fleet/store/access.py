"""How a server is asked that settings of one prefix name (FETTLE_STORE, FETTLE_FORWARD): its secrets, its headers, and what is wrong with them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from fleet.store.endpoint import Access, basic
from fleet.store.series import StoreError

_NO_HOST: Final = re.compile(r"""[\s<>"{}|\\^`]""")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
"""Of which urlsplit drops some in silence."""
_HEADER: Final = re.compile(r"([A-Za-z0-9-]{1,100}): ?([^\r\n]{1,4000})")


def access(prefix: str) -> Access:
    """The access that PREFIX_USER, PREFIX_TOKEN_FILE, … say, secrets read from their files; StoreError when one cannot be read."""
    headers = dict(_headers(prefix))
    if _of(prefix, "TOKEN_FILE"):
        headers["Authorization"] = f"Bearer {_secret(prefix, 'TOKEN_FILE')}"
    elif _of(prefix, "USER"):
        headers["Authorization"] = basic(_of(prefix, "USER"), _secret(prefix, "PASSWORD_FILE"))
    ca = Path(_of(prefix, "CA_FILE")) if _of(prefix, "CA_FILE") else None
    return Access(headers, ca, getattr(settings, f"{prefix}_TIMEOUT_S"))


def mistakes(prefix: str) -> Iterator[str]:
    """A sentence for each of these settings that cannot be right."""
    if _of(prefix, "USER") and _of(prefix, "TOKEN_FILE"):
        yield f"{prefix}_USER and {prefix}_TOKEN_FILE are both set; a request carries one of them: unset the other."
    if bool(_of(prefix, "USER")) != bool(_of(prefix, "PASSWORD_FILE")):
        yield f"{prefix}_USER and {prefix}_PASSWORD_FILE belong together; set both or neither."
    for name in ("PASSWORD_FILE", "TOKEN_FILE"):
        if _of(prefix, name):
            try:
                _secret(prefix, name)
            except StoreError as error:
                yield str(error)
    ca = _of(prefix, "CA_FILE")
    if ca and not _has_certificate(Path(ca)):
        yield f"{prefix}_CA_FILE={ca} has no certificate in PEM that can be read; name a file that has."
    try:
        dict(_headers(prefix))
    except StoreError as error:
        yield str(error)


def is_url(url: str) -> bool:
    """True for an address of a server, with a host that can be one."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        host.encode("idna")  # as whoever looks it up does
        port = parts.port or 1
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https") and bool(host) and port > 0 and not _NO_HOST.search(host) and not _CONTROL.search(url)
    )


def _of(prefix: str, name: str) -> str:
    value: str = getattr(settings, f"{prefix}_{name}")
    return value


def _headers(prefix: str) -> Iterator[tuple[str, str]]:
    for text in getattr(settings, f"{prefix}_HEADERS"):
        found = _HEADER.fullmatch(text)
        if found is None:
            raise StoreError(
                f"{prefix}_HEADERS has a part that is no header; write them as X-Scope-OrgID: fleet, with commas between."
            )
        yield found[1], _carried(f"{prefix}_HEADERS", found[2])


def _secret(prefix: str, name: str) -> str:
    path = Path(_of(prefix, name))
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise StoreError(f"{prefix}_{name}={path} cannot be read: {reason}.") from error
    if not lines or not lines[0].strip():
        raise StoreError(f"{prefix}_{name}={path} is empty; its first line is the secret.")
    secret = lines[0].strip()
    return _carried(f"{prefix}_{name}={path}", secret) if name == "TOKEN_FILE" else secret


def _carried(what: str, text: str) -> str:
    """The text of a header; StoreError when it has a character that none can carry."""
    if any(ord(character) > 0xFF or not character.isprintable() for character in text):
        raise StoreError(f"{what} has characters that no HTTP header can carry; write it in ASCII.")
    return text


def _has_certificate(path: Path) -> bool:
    try:
        return "-----BEGIN CERTIFICATE-----" in path.read_text()
    except (OSError, UnicodeDecodeError):
        return False
