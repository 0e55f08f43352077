"""Traffic of the host's network interfaces, from /proc/net/dev."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agents.collectors import procfs
from wire.metrics import Number

# Interfaces that carry what another interface carries too.
_DOUBLE: Final = re.compile(rb"lo|veth|docker|br-|virbr|vnet|cni|flannel|cali|bond|team|dummy|ifb|kube|lxc|cilium")


class Network:
    """Bytes received and sent."""

    names = ("net_rx_bytes_total", "net_tx_bytes_total")

    def __init__(self, proc: Path) -> None:
        self._file = procfs.ProcFile(proc / "net" / "dev")

    def read(self) -> Mapping[str, Number | str]:
        """Nothing where there is no interface of its own traffic."""
        received = sent = interfaces = 0
        for line in self._file.read().split(b"\n")[2:]:
            name, colon, counters = line.partition(b":")
            words = counters.split()
            if colon and len(words) >= 9 and not _DOUBLE.match(name.strip()):
                interfaces += 1
                received += int(words[0])
                sent += int(words[8])
        return dict(zip(self.names, (received, sent), strict=True)) if interfaces else {}

    def close(self) -> None:
        """Close the file."""
        self._file.close()
