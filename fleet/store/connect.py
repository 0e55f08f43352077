"""The engines that live on a server, made from the settings; and what is wrong with those settings."""

import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from django.conf import settings

from fleet.store import access as accesses
from fleet.store import selector
from fleet.store.endpoint import Access, Endpoint
from fleet.store.series import StoreError

if TYPE_CHECKING:
    from fleet.store.prometheus import PrometheusSeries
    from fleet.store.victoria import VictoriaSeries

logger = logging.getLogger(__name__)
SERVERS: Final = {"victoriametrics": "VictoriaMetrics", "prometheus-read": "Prometheus"}
"""Values of FETTLE_STORE that name a server, and what it is called."""
PATIENCE_S: Final = 2.0
"""Of one who asks whether the server is there."""
_FLEET: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def connect(patience_s: float | None = None) -> "PrometheusSeries | VictoriaSeries":
    """The engine that settings.FETTLE_STORE names, which waits for its server as long as the settings or `patience_s` say; StoreError with what is wrong first."""
    if wrong := next(mistakes(), None):
        raise StoreError(wrong)
    what = SERVERS[settings.FETTLE_STORE]
    how = access() if patience_s is None else replace(access(), read_s=patience_s)
    read = Endpoint(settings.FETTLE_STORE_URL, how, what)
    if settings.FETTLE_STORE == "prometheus-read":
        from fleet.store.prometheus import PrometheusSeries

        return PrometheusSeries(read, settings.FETTLE_STORE_SELECTOR, cluster_label=settings.FETTLE_STORE_CLUSTER_LABEL)
    from fleet.store.labels import Labels
    from fleet.store.victoria import VictoriaSeries
    from fleet.store.victoria_durable import Watch

    write = Endpoint(settings.FETTLE_STORE_WRITE_URL, how, what) if settings.FETTLE_STORE_WRITE_URL else read
    pages = settings.FETTLE_STORE_STATUS_URLS or [_beside(settings.FETTLE_STORE_URL, "/metrics")]
    return VictoriaSeries(
        write, read, Watch([Endpoint(page, how, what) for page in pages]), settings.FETTLE_STORE_FLEET, Labels()
    )


def unready() -> str | None:
    """Why the store's server cannot be used, in words that name no address, or None. The log says more."""
    what = SERVERS[settings.FETTLE_STORE]
    try:
        engine = connect(PATIENCE_S)
        engine.ready()
    except StoreError as error:
        logger.warning("The store is not ready: %s", error)
        return f"{what} cannot be used."
    return None


def access() -> Access:
    """How the store's server is asked, secrets read from their files; StoreError when one cannot be read."""
    return accesses.access("FETTLE_STORE")


def mistakes() -> Iterator[str]:
    """A sentence for each setting of the store's server that cannot be right."""
    if settings.FETTLE_STORE not in SERVERS:
        return
    for name, urls in (
        ("FETTLE_STORE_URL", [settings.FETTLE_STORE_URL]),
        ("FETTLE_STORE_WRITE_URL", [settings.FETTLE_STORE_WRITE_URL] if settings.FETTLE_STORE_WRITE_URL else []),
        ("FETTLE_STORE_STATUS_URLS", settings.FETTLE_STORE_STATUS_URLS),
    ):
        if not all(accesses.is_url(url) for url in urls):
            yield f"{name} is no address of a server; give one such as http://127.0.0.1:8428."
    yield from accesses.mistakes("FETTLE_STORE")
    if not _FLEET.fullmatch(settings.FETTLE_STORE_FLEET):
        yield f"FETTLE_STORE_FLEET={settings.FETTLE_STORE_FLEET!r} is no label; use letters, digits, dots, dashes and underscores."
    if wrong := selector.mistake(settings.FETTLE_STORE_SELECTOR):
        yield f"FETTLE_STORE_SELECTOR={settings.FETTLE_STORE_SELECTOR!r} {wrong}."
    if settings.FETTLE_STORE_CLUSTER_LABEL and not _LABEL.fullmatch(settings.FETTLE_STORE_CLUSTER_LABEL):
        yield f"FETTLE_STORE_CLUSTER_LABEL={settings.FETTLE_STORE_CLUSTER_LABEL!r} is no name of a label; write one such as cluster."


def _beside(url: str, path: str) -> str:
    """The address of another page of the same server, with its path in front."""
    parts = urlsplit(url)
    return parts._replace(path=parts.path.rstrip("/") + path).geturl()
