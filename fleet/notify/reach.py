"""Where messages may go: public addresses, and those of the site's own networks that FETTLE_NOTIFY_ALLOW names.

Looked at where a connection begins, by its very address: whatever name led there, whichever library of Apprise's plugins connects, and
wherever a redirect or a second look at the name would lead. Python's audit events tell of each; only a thread that delivers is asked.
"""

import ipaddress
import socket
import sys
from contextvars import ContextVar
from typing import Any, Final, Protocol

from apprise.utils.http import is_public_ip_address
from django.conf import settings
from urllib3.util.connection import allowed_gai_family


class RefusedError(OSError):
    """The connection would lead where messages may not go; no byte went out."""


class Watched(Protocol):
    """A delivery under way, told of what its thread does on the network; it raises RefusedError for what it may not."""

    def connects(self, address: object) -> None:
        """Before a connection begins."""

    def looks_up(self) -> None:
        """Before a name is looked up."""

    def writes(self, data: object) -> None:
        """Before bytes of a request or of a mail go out."""


watched: Final[ContextVar[Watched | None]] = ContextVar("notify_watched", default=None)
"""The delivery that the current thread works for."""
_PEER: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_WRITES: Final = frozenset({"http.client.send", "smtplib.send"})
_installed = False


def watch() -> None:
    """Listen to Python's audit events, once in a process; it costs nobody else anything but a look into a set."""
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_heard)


def _heard(
    event: str,
    args: tuple[Any, ...],
    events: frozenset[str] = _PEER | _WRITES | {"socket.getaddrinfo"},
    current: ContextVar[Watched | None] = watched,
) -> None:
    if event not in events or (delivery := current.get()) is None:
        return
    if event == "socket.getaddrinfo":
        delivery.looks_up()
    elif event in _WRITES:
        delivery.writes(args[1])
    elif args[1] is not None:  # a datagram on a connected socket names no peer
        delivery.connects(args[1])


def allowed(address: str) -> bool:
    """True when messages may go to this IP address."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    if is_public_ip_address(str(ip)):  # type: ignore[no-untyped-call] # the library has no types
        return True
    networks = [network for word in settings.FETTLE_NOTIFY_ALLOW if (network := _network(word)) is not None]
    if any(ip.version == network.version and ip in network for network in networks):
        return True
    names = [word for word in settings.FETTLE_NOTIFY_ALLOW if _network(word) is None]
    return any(str(ip) in addresses(name) for name in names)


def addresses(name: str) -> frozenset[str]:
    """The addresses that a name has now; none where it is unknown."""
    before = watched.set(None)  # our own look is nobody's delivery
    try:
        found = socket.getaddrinfo(name, None, allowed_gai_family(), socket.SOCK_STREAM)
    except OSError:
        return frozenset()
    finally:
        watched.reset(before)
    return frozenset(str(one[4][0]) for one in found)


def _network(word: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(word, strict=False)
    except ValueError:
        return None
