"""Names the failure of a request that got no whole answer."""

import socket
import ssl
from collections.abc import Iterator
from http.client import IncompleteRead
from typing import Final, Literal, TypeAlias

import requests
from django.utils.translation import gettext_noop
from urllib3 import exceptions as urllib3

from fleet.notify.reach import RefusedError

Fault: TypeAlias = Literal[
    "denied", "name", "refused", "unreachable", "connect_timeout", "timeout", "tls", "reset", "cut", "broken"
]
SAYS: Final[dict[Fault, str]] = {
    "denied": gettext_noop("The target is in the server's own network; FETTLE_NOTIFY_ALLOW names what may be reached there."),
    "name": gettext_noop("The name of the target's server is unknown."),
    "refused": gettext_noop("The target's server refuses connections."),
    "unreachable": gettext_noop("The target's server cannot be reached."),
    "connect_timeout": gettext_noop("The target's server does not take connections in time."),
    "timeout": gettext_noop("The target did not answer in time."),
    "tls": gettext_noop("The target's server is not trusted: TLS failed."),
    "reset": gettext_noop("The target's server broke the connection off."),
    "cut": gettext_noop("The target's server broke off in the middle of its answer."),
    "broken": gettext_noop("The connection to the target failed."),
}


def kind(error: BaseException, late: bool, cut: bool) -> Fault:
    """What went wrong; `late`: we cut it off when the time was over, `cut`: the answer had begun."""
    chain = list(_chain(error))
    if any(isinstance(one, RefusedError) for one in chain):
        return "denied"
    if late:
        return "timeout"
    kinds: tuple[tuple[Fault, tuple[type[BaseException], ...]], ...] = (
        ("connect_timeout", (urllib3.ConnectTimeoutError, requests.ConnectTimeout)),
        ("timeout", (urllib3.ReadTimeoutError, requests.ReadTimeout, TimeoutError)),
        ("name", (socket.gaierror, urllib3.NameResolutionError)),
        ("refused", (ConnectionRefusedError,)),
        ("tls", (ssl.SSLError, urllib3.SSLError, requests.exceptions.SSLError)),
        ("cut", (IncompleteRead,)),
        ("reset", (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)),
        ("unreachable", (urllib3.NewConnectionError,)),
        ("reset", (urllib3.ProtocolError,)),
    )
    for fault, errors in kinds:
        # NewConnectionError is one of urllib3's ConnectTimeoutErrors too
        if any(isinstance(one, errors) and not (fault == "connect_timeout" and _new(one)) for one in chain):
            return "cut" if cut and fault in ("reset", "cut") else fault
    return "broken"


def of_certificate(error: BaseException) -> str:
    """What is wrong with the server's certificate, in the TLS library's words; "" when it is something else."""
    said = [one.verify_message for one in _chain(error) if isinstance(one, ssl.SSLCertVerificationError)]
    return said[0] if said else ""


def _new(error: BaseException) -> bool:
    return isinstance(error, urllib3.NewConnectionError)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and all that it came of."""
    seen: set[int] = set()
    left: list[object] = [error]
    while left:
        one = left.pop()
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        left += [*one.args, getattr(one, "reason", None), one.__cause__, one.__context__]
