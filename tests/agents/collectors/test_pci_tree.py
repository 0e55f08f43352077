"""Which ports are above which GPUs."""

from pathlib import Path

from agents.collectors.pci_tree import ports
from wire.messages import GpuFacts


def gpu(number: int, bus: str | None, parent_uuid: str | None = None) -> GpuFacts:
    """A GPU at this address."""
    return GpuFacts(index=number, uuid=f"GPU-{number}", name="H200", pci_bus_id=bus, parent_uuid=parent_uuid)


def test_ports_and_switches_know_the_gpus_below(tmp_path: Path) -> None:
    """Two GPUs behind one switch, one behind a root port of its own; a slice is below with its card."""
    devices = tmp_path / "bus/pci/devices"
    devices.mkdir(parents=True)
    root = tmp_path / "devices/pci0000:00"
    for path in ("0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:03:00.0", "0000:00:01.1/0000:01:00.0/0000:02:01.0/0000:04:00.0",
                 "0000:00:01.2/0000:05:00.0"):  # fmt: skip
        (root / path).mkdir(parents=True)
        (devices / path.rpartition("/")[2]).symlink_to(root / path)
    gpus = [
        gpu(0, "00000000:03:00.0"),
        gpu(1, "00000000:04:00.0"),
        gpu(2, "00000000:05:00.0"),
        gpu(3, "00000000:05:00.0", parent_uuid="GPU-2"),
        gpu(4, None),
        gpu(5, "00000000:99:00.0"),
    ]

    assert ports(tmp_path, gpus) == {
        "0000:00:01.1": ("GPU-0", "GPU-1"),
        "0000:01:00.0": ("GPU-0", "GPU-1"),
        "0000:02:00.0": ("GPU-0",),
        "0000:02:01.0": ("GPU-1",),
        "0000:00:01.2": ("GPU-2",),
    }
