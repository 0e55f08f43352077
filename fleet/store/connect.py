"""The engines that live on a server, made from the settings; and what is wrong with those settings."""

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from fleet.store.endpoint import Access, Endpoint, basic
from fleet.store.series import Series, StoreError

logger = logging.getLogger(__name__)
SERVERS: Final = {"victoriametrics": "VictoriaMetrics", "prometheus-read": "Prometheus"}
"""Values of FETTLE_STORE that name a server, and what it is called."""
PATIENCE_S: Final = 2.0
"""Of one who asks whether the server is there."""
_HEADER: Final = re.compile(r"([A-Za-z0-9-]{1,100}): ?([^\r\n]{1,4000})")
_FLEET: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_MATCHERS: Final = re.compile(r'(\s*[A-Za-z_]\w*\s*(=~|!~|!=|=)\s*"(?:[^"\\]|\\.)*"\s*(,|$))*')


def connect() -> Series:
    """The engine that settings.FETTLE_STORE names; StoreError with what is wrong first."""
    if wrong := next(mistakes(), None):
        raise StoreError(wrong)
    what = SERVERS[settings.FETTLE_STORE]
    read = Endpoint(settings.FETTLE_STORE_URL, access(), what)
    if settings.FETTLE_STORE == "prometheus-read":
        from fleet.store.prometheus import PrometheusSeries

        return PrometheusSeries(read, settings.FETTLE_STORE_SELECTOR)
    from fleet.store.labels import Labels
    from fleet.store.victoria import VictoriaSeries
    from fleet.store.victoria_durable import Watch

    write = Endpoint(settings.FETTLE_STORE_WRITE_URL, access(), what) if settings.FETTLE_STORE_WRITE_URL else read
    pages = settings.FETTLE_STORE_STATUS_URLS or [_beside(settings.FETTLE_STORE_URL, "/metrics")]
    return VictoriaSeries(
        write, read, Watch([Endpoint(page, access(), what) for page in pages]), settings.FETTLE_STORE_FLEET, Labels()
    )


def unready() -> str | None:
    """Why the store's server cannot be used, in words that name no address, or None. The log says more."""
    what = SERVERS[settings.FETTLE_STORE]
    try:
        server = Endpoint(settings.FETTLE_STORE_URL, replace(access(), read_s=PATIENCE_S), what)
        server.get("/api/v1/query", {"query": "1"})  # all that speak PromQL have it
    except StoreError as error:
        logger.warning("The store is not ready: %s", error)
        return f"{what} cannot be used."
    return None


def access() -> Access:
    """How the store's server is asked, secrets read from their files; StoreError when one cannot be read."""
    headers = dict(_headers())
    if settings.FETTLE_STORE_TOKEN_FILE:
        headers["Authorization"] = f"Bearer {_secret('FETTLE_STORE_TOKEN_FILE')}"
    elif settings.FETTLE_STORE_USER:
        headers["Authorization"] = basic(settings.FETTLE_STORE_USER, _secret("FETTLE_STORE_PASSWORD_FILE"))
    ca = Path(settings.FETTLE_STORE_CA_FILE) if settings.FETTLE_STORE_CA_FILE else None
    return Access(headers, ca, settings.FETTLE_STORE_TIMEOUT_S)


def mistakes() -> Iterator[str]:
    """A sentence for each setting of the store's server that cannot be right."""
    if settings.FETTLE_STORE not in SERVERS:
        return
    for name, urls in (
        ("FETTLE_STORE_URL", [settings.FETTLE_STORE_URL]),
        ("FETTLE_STORE_WRITE_URL", [settings.FETTLE_STORE_WRITE_URL] if settings.FETTLE_STORE_WRITE_URL else []),
        ("FETTLE_STORE_STATUS_URLS", settings.FETTLE_STORE_STATUS_URLS),
    ):
        if not all(_is_url(url) for url in urls):
            yield f"{name} is no address of a server; give one such as http://127.0.0.1:8428."
    if settings.FETTLE_STORE_USER and settings.FETTLE_STORE_TOKEN_FILE:
        yield "FETTLE_STORE_USER and FETTLE_STORE_TOKEN_FILE are both set; a request carries one of them: unset the other."
    if bool(settings.FETTLE_STORE_USER) != bool(settings.FETTLE_STORE_PASSWORD_FILE):
        yield "FETTLE_STORE_USER and FETTLE_STORE_PASSWORD_FILE belong together; set both or neither."
    for name in ("FETTLE_STORE_PASSWORD_FILE", "FETTLE_STORE_TOKEN_FILE"):
        if getattr(settings, name):
            try:
                _secret(name)
            except StoreError as error:
                yield str(error)
    if settings.FETTLE_STORE_CA_FILE and not _has_certificate(Path(settings.FETTLE_STORE_CA_FILE)):
        yield f"FETTLE_STORE_CA_FILE={settings.FETTLE_STORE_CA_FILE} has no certificate in PEM that can be read; name a file that has."
    try:
        dict(_headers())
    except StoreError as error:
        yield str(error)
    if not _FLEET.fullmatch(settings.FETTLE_STORE_FLEET):
        yield f"FETTLE_STORE_FLEET={settings.FETTLE_STORE_FLEET!r} is no label; use letters, digits, dots, dashes and underscores."
    if not _MATCHERS.fullmatch(settings.FETTLE_STORE_SELECTOR):
        yield f'FETTLE_STORE_SELECTOR={settings.FETTLE_STORE_SELECTOR!r} is no list of matchers; write them as job="dcgm",cluster=~"a|b".'


def _headers() -> Iterator[tuple[str, str]]:
    for text in settings.FETTLE_STORE_HEADERS:
        found = _HEADER.fullmatch(text)
        if found is None:
            raise StoreError(
                "FETTLE_STORE_HEADERS has a part that is no header; write them as X-Scope-OrgID: fleet, with commas between."
            )
        yield found[1], found[2]


def _secret(name: str) -> str:
    path = Path(getattr(settings, name))
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise StoreError(f"{name}={path} cannot be read: {reason}.") from error
    if not lines or not lines[0].strip():
        raise StoreError(f"{name}={path} is empty; its first line is the secret.")
    return lines[0].strip()


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _has_certificate(path: Path) -> bool:
    try:
        return "-----BEGIN CERTIFICATE-----" in path.read_text()
    except (OSError, UnicodeDecodeError):
        return False


def _beside(url: str, path: str) -> str:
    """The address of another page of the same server, with its path in front."""
    parts = urlsplit(url)
    return parts._replace(path=parts.path.rstrip("/") + path).geturl()
