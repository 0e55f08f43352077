"""Traffic of the host's network interfaces, from /proc/net/dev, and TCP's resent segments, from /proc/net/snmp.

What a VLAN, a bridge or a tunnel carries, a device below it carries too: where /sys tells which interfaces are devices, those
alone count (https://docs.kernel.org/admin-guide/abi-testing.html, /sys/class/net/<iface>/device). Where none is one, as in a
container, all count but those whose name says that they stand on others.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agents.collectors import procfs
from wire.metrics import Number

# Interfaces that carry what another interface carries too.
_DOUBLE: Final = re.compile(
    rb"lo|veth|docker|br-|br\d|virbr|vnet|cni|flannel|cali|bond|team|dummy|ifb|kube|lxc|cilium|wg|tun|tap|vlan|macv|ipvl|vxlan|vti"
    rb"|gre|erspan|sit|ip6tnl|tunl|geneve|nodelocaldns|ovs|tailscale|.*\.\d+$"
)

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

    def __init__(self, proc: Path, sys: Path) -> None:
        self._file = procfs.ProcFile(proc / "net" / "dev")
        self._class = sys / "class" / "net"
        self._names: list[bytes] = []
        self._counted: frozenset[bytes] = frozenset()

    def read(self) -> Mapping[str, Number | str]:
        """Nothing where there is no interface of its own traffic."""
        rows = [line.partition(b":") for line in self._file.read().split(b"\n")[2:] if b":" in line]
        names = [name.strip() for name, _, _ in rows]
        if names != self._names:
            self._names, self._counted = names, frozenset(self._own(names))
        counted = [words.split() for name, (_, _, words) in zip(names, rows, strict=True) if name in self._counted]
        found = [words for words in counted if len(words) >= 12]
        return {name: sum(int(words[column]) for words in found) for name, column in _COLUMNS.items()} if found else {}

    def _own(self, names: list[bytes]) -> list[bytes]:
        """The interfaces whose traffic no other one of them carries too."""
        devices = [name for name in names if self._is_device(os.fsdecode(name))]
        return devices or [name for name in names if not _DOUBLE.match(name)]

    def _is_device(self, name: str) -> bool:
        """A card's, and not one that a virtual machine's own device stands before (a VF below Hyper-V's netvsc, which counts it)."""
        place = self._class / name
        return (place / "device").exists() and not (place / "master" / "device").exists()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class NicRate:
    """The fastest network card that is up. Reading a speed may ask the card's firmware, and a link seldom changes."""

    names = ("nic_rate_bytes_per_s",)

    def __init__(self, sys: Path) -> None:
        self._class = sys / "class" / "net"

    def read(self) -> Mapping[str, Number | str]:
        """Nothing where no card says how fast it is, as virtual machines' do not."""
        rates = [rate for place in self._class.glob("*") if (place / "device").exists() and (rate := _bytes_per_s(place))]
        return {"nic_rate_bytes_per_s": max(rates)} if rates else {}

    def close(self) -> None:
        """Nothing is open."""


def _bytes_per_s(place: Path) -> float:
    """What a card that is up carries in each direction; 0 where it is down or does not say."""
    try:
        if procfs.read(str(place / "operstate")).strip() != b"up":
            return 0.0
        return max(0, int(procfs.read(str(place / "speed")))) * 1e6 / 8  # the kernel's Mb/s; -1: not known
    except (OSError, ValueError):
        return 0.0


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
