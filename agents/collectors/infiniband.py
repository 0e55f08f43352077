"""InfiniBand and RoCE ports, from /sys/class/infiniband.

Data counters count words of four octets; some drivers already give octets. What comes to more than the port can carry
when multiplied is taken as octets, what comes to more even so is no number at all. Old counters have 32 bits: they
wrap, or stick at their end. Reading one may ask the adapter's firmware, so they are read now and then.
"""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agents.collectors import procfs
from wire.metrics import Number

_WORD: Final = 4
_WRAP: Final = 1 << 32
_STUCK: Final = _WRAP - 1
_MARGIN: Final = 1.1
"""A port's rate is of the wire's nominal speed, and the interval is not known to the millisecond."""
_RATE: Final = re.compile(rb"([\d.]+) *Gb/sec")
_DATA: Final = {"ib_rx_bytes_total": "port_rcv_data", "ib_tx_bytes_total": "port_xmit_data"}
_PLAIN: Final = {
    "ib_symbol_errors_total": "symbol_error",
    "ib_link_downed_total": "link_downed",
    "ib_xmit_wait_total": "port_xmit_wait",
}
_RATES: Final = ("ib_rate_bytes_per_s", "ib_rate_max_bytes_per_s")


@dataclass(slots=True)
class _Counter:
    """One data counter: its last raw value, what one step of it is worth, and the octets so far."""

    raw: int
    octets_each: int
    octets: int


class InfiniBand:
    """Octets, errors and waits of all ports together, how many ports are active, and how fast those are."""

    names = ("ib_ports", "ib_ports_active", *_RATES, *_DATA, *_PLAIN)

    def __init__(self, sys: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = sys / "class" / "infiniband"
        self._clock = clock
        self._at: float | None = None
        self._counters: dict[tuple[str, str], _Counter] = {}

    def read(self) -> Mapping[str, Number | str]:
        """Nothing where there is no port. A sum lacks no port: where one does not tell, the sum is absent."""
        now = self._clock()
        seconds, self._at = None if self._at is None else now - self._at, now
        ports = sorted(self._root.glob("*/ports/*"))
        if not ports:
            return {}
        active = [port for port in ports if b"ACTIVE" in procfs.read(str(port / "state"))]
        found: dict[str, Number | str] = {"ib_ports": len(ports), "ib_ports_active": len(active), **_rates(active)}
        for name, file in _DATA.items():
            found[name] = _sum([self._octets(port, file, seconds) for port in ports])
        for name, file in _PLAIN.items():
            found[name] = _sum([_number(port / "counters" / file) for port in ports])
        return found

    def close(self) -> None:
        """Nothing is open."""

    def _octets(self, port: Path, file: str, seconds: float | None) -> int | str:
        """Octets through a port since its counter began, or a reason."""
        raw = _number(port / "counters" / file)
        if isinstance(raw, str):
            return raw
        key = (str(port), file)
        if raw == _STUCK:
            self._counters.pop(key, None)
            return "blank"
        before = self._counters.get(key)
        if before is None:
            self._counters[key] = _Counter(raw, _WORD, raw * _WORD)
            return raw * _WORD
        limit = None if seconds is None else _octets_per_s(port) * seconds * _MARGIN
        delta = raw - before.raw
        if delta < 0:
            wrapped = delta + _WRAP
            if before.raw >= _WRAP or (limit and wrapped * before.octets_each > limit):
                self._counters[key] = _Counter(raw, before.octets_each, raw * before.octets_each)  # it began anew
                return raw * before.octets_each
            delta = wrapped
        before.raw = raw
        if limit and delta * before.octets_each > limit:
            if delta > limit:
                return "out_of_range"
            before.octets_each = 1
            before.octets = raw
            return raw
        before.octets += delta * before.octets_each
        return before.octets


def _rates(active: list[Path]) -> dict[str, Number | str]:
    """What the active ports run at, and what they would if each were as fast as the fastest of its kind on this node.

    The kernel does not tell what a port could do, but a node has several of the same board as a rule, cabled alike: one that trained
    at fewer lanes or at a lower speed stands out. Where no board is there twice, nothing is known.
    """
    each = [(_kind(port), _octets_per_s(port)) for port in active]
    if not all(rate for _, rate in each):
        return dict.fromkeys(_RATES, "unsupported")
    fastest: dict[tuple[bytes, bytes], float] = {}
    for kind, rate in each:
        fastest[kind] = max(rate, fastest.get(kind, 0.0))
    has_peers = len(fastest) < len(each)
    return dict(
        zip(
            _RATES,
            (sum(rate for _, rate in each), sum(fastest[kind] for kind, _ in each) if has_peers else "not_found"),
            strict=True,
        )
    )


def _kind(port: Path) -> tuple[bytes, bytes]:
    """The board, and whether the port speaks InfiniBand or Ethernet; a board that does not say what it is has no peers."""
    told = []
    for file in (port.parent.parent / "board_id", port / "link_layer"):
        try:
            told.append(procfs.read(str(file)).strip())
        except OSError:
            told.append(b"")
    return (told[0] or str(port).encode(), told[1])


def _octets_per_s(port: Path) -> float:
    """What the port can carry in each direction; 0 where it does not say."""
    try:
        rate = _RATE.search(procfs.read(str(port / "rate")))
    except OSError:
        return 0.0
    return float(rate[1]) * 1e9 / 8 if rate else 0.0


def _number(file: Path) -> int | str:
    try:
        return int(procfs.read(str(file)))
    except FileNotFoundError:
        return "unsupported"  # a virtual function has no counters of its own
    except ValueError:
        return "not_a_number"  # "N/A (no PMA)"
    except OSError as error:
        return procfs.reason(error)


def _sum(told: list[int | str]) -> int | str:
    total = 0
    for one in told:
        if isinstance(one, str):
            return one
        total += one
    return total
