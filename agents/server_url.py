"""The address of the server's agent socket: what it may be, and how it is shown."""

from typing import Final
from urllib.parse import urlsplit

from agents.hosts import is_host_here

_EXAMPLE: Final = "give one like wss://fettle.example/ws/agent/"


def check(url: str) -> None:
    """ValueError with the end of a sentence where no agent can connect there; it repeats nothing of the address, for it may hold a password."""
    if not url.startswith(("ws://", "wss://")):
        raise ValueError(f"must begin with ws:// or wss://: {_EXAMPLE}")
    if not url.isprintable() or " " in url:
        raise ValueError(f"has a space or a control character in it: {_EXAMPLE}")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
    except ValueError:
        raise ValueError(f"has a host or a port that is none: {_EXAMPLE}") from None
    if parts.username is not None or parts.password is not None:
        raise ValueError("holds a user or a password: leave them out, the node's token says who speaks")
    if not is_host_here(host) or port == 0:
        raise ValueError(f"has a host or a port that is none: {_EXAMPLE}")
    if parts.fragment:
        raise ValueError(f"has a part after #, which no server sees: {_EXAMPLE}")


def shown(url: str) -> str:
    """The address for people: without credentials and without its query."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "the server"
    return f"{parts.scheme}://{host}{parts.path}"
