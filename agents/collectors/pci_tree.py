"""Which PCIe ports are above which GPUs, from sysfs: an error of a port stops what is below it."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from wire.messages import GpuFacts
from wire.pci import address

_FUNCTION: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def ports(sys: Path, gpus: Iterable[GpuFacts]) -> dict[str, tuple[str, ...]]:
    """UUIDs of the cards (not of their slices) below each port, by its address with its function; empty where sysfs does not say."""
    found: dict[str, list[str]] = {}
    for gpu in gpus:
        where = address(gpu.pci_bus_id)
        if where is None or gpu.parent_uuid is not None:
            continue
        # a device is a link into the tree: /sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0
        *above, _ = os.path.realpath(sys / "bus" / "pci" / "devices" / f"{where}.0").split("/")
        for port in above:
            if _FUNCTION.fullmatch(port):
                found.setdefault(port, []).append(gpu.uuid)
    return {port: tuple(uuids) for port, uuids in found.items()}
