"""The container engine's DNS, for tests: it tells the addresses of a service's running containers."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

A = 1


def answer(query: bytes, addresses: Callable[[str], Sequence[str] | None]) -> bytes:
    """The answer to one question; no such name where `addresses` is None, an empty one for other kinds of records."""
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += 1 + query[at]
    question = query[12 : at + 5]
    (kind,) = struct.unpack("!H", query[at + 1 : at + 3])
    found = addresses(".".join(labels))
    records = list(found or []) if kind == A else []
    flags = 0x8180 if found is not None else 0x8183
    head = query[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0)
    told = (b"\xc0\x0c" + struct.pack("!HHIH", A, 1, 1, 4) + socket.inet_aton(address) for address in records)
    return head + question + b"".join(told)


@contextmanager
def serving(address: str, addresses: Callable[[str], Sequence[str] | None]) -> Iterator[int]:
    """A server on that address; its port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind((address, 0))

        def serve() -> None:
            while (received := udp.recvfrom(4096))[0]:  # an empty datagram ends it
                udp.sendto(answer(received[0], addresses), received[1])

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield udp.getsockname()[1]
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
                end.sendto(b"", udp.getsockname())
            thread.join()
