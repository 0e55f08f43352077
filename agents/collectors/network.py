"""Traffic of the host's network interfaces, from /proc/net/dev, and TCP's resent segments, from /proc/net/snmp."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agents.collectors import procfs
from wire.metrics import Number

# Interfaces that carry what another interface carries too.
_DOUBLE: Final = re.compile(rb"lo|veth|docker|br-|virbr|vnet|cni|flannel|cali|bond|team|dummy|ifb|kube|lxc|cilium")


# Where the counters stand behind an interface's name: octets, packets, errors, drops, ... received, then the same sent.
_COLUMNS: Final = {
    "net_rx_bytes_total": 0,
    "net_tx_bytes_total": 8,
    "net_rx_errors_total": 2,
    "net_tx_errors_total": 10,
    "net_rx_drops_total": 3,
    "net_tx_drops_total": 11,
}


class Network:
    """Bytes, errors and dropped packets, received and sent."""

    names = tuple(_COLUMNS)

    def __init__(self, proc: Path) -> None:
        self._file = procfs.ProcFile(proc / "net" / "dev")

    def read(self) -> Mapping[str, Number | str]:
        """Nothing where there is no interface of its own traffic."""
        found: list[list[bytes]] = []
        for line in self._file.read().split(b"\n")[2:]:
            name, colon, counters = line.partition(b":")
            words = counters.split()
            if colon and len(words) >= 12 and not _DOUBLE.match(name.strip()):
                found.append(words)
        return {name: sum(int(words[column]) for words in found) for name, column in _COLUMNS.items()} if found else {}

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Retransmits:
    """TCP segments sent again: congestion or loss on the way to storage and other nodes (NCCL over sockets too)."""

    names = ("tcp_retransmits_total",)

    def __init__(self, proc: Path) -> None:
        self._file = procfs.ProcFile(proc / "net" / "snmp")

    def read(self) -> Mapping[str, Number | str]:
        """Nothing where the kernel does not count them."""
        lines = [line.split() for line in self._file.read().split(b"\n") if line.startswith(b"Tcp:")]
        if len(lines) < 2 or b"RetransSegs" not in lines[0]:
            return {}
        return {"tcp_retransmits_total": int(lines[1][lines[0].index(b"RetransSegs")])}

    def close(self) -> None:
        """Close the file."""
        self._file.close()
