"""PCI addresses as NVML, the kernel and DCGM write them."""

import pytest

from wire.pci import address


@pytest.mark.parametrize(
    "text", ["00000000:19:00.0", "0000:19:00.0", "0000:19:00", "PCI:0000:19:00", "19:00.0", "19:00", " 0000:19:00 "]
)
def test_every_way_to_write_an_address_is_one(text: str) -> None:
    """Domain, bus and device."""
    assert address(text) == "0000:19:00"


def test_a_wide_domain_is_kept() -> None:
    """Some clouds number domains beyond 16 bits."""
    assert address("03f8cfdd:00:00.0") == "3f8cfdd:00:00"
    assert address("0000:3B:00.0") == "0000:3b:00"


@pytest.mark.parametrize("text", [None, "", "GPU-0", "0000:19", "0000:zz:00"])
def test_what_is_no_address_is_none(text: str | None) -> None:
    """Nothing is guessed."""
    assert address(text) is None
