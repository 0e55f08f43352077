"""What a card can reach at best in one test of `fettle bench`; knows no Django and no Polars, for nodes use it too."""

from typing import Final

from advisor.links import nvlink_rate
from advisor.planners.cards import Card, named

PCIE_BYTES_PER_S: Final = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Of one lane, one way, by generation: 8, 16 and 32 GT/s at 128b/130b, 64 GT/s with 242 of 256 bytes for data (PCI-SIG)."""


def card(model: str) -> Card | None:
    """The card of that name; None where the table has none."""
    try:
        return named(model)
    except ValueError:
        return None


def peak(
    model: str,
    test: str,
    *,
    pcie_gen: float | None = None,
    pcie_width: float | None = None,
    nvlink_links: float | None = None,
    nvlink_bytes_per_s_per_link: float | None = None,
    compute_capability: str | None = None,
) -> float | None:
    """The published peak of a test by its name, in the test's unit; None where none is known.

    Products: dense. Memory: the card's bandwidth. Copies between GPUs and all-reduce: the NVLinks of one GPU together, one way.
    Copies to the host: the PCIe link, one way.
    """
    first, *rest = test.split("_")
    found = card(model)
    if first == "matmul":
        return None if found is None or not rest else found.dense_flop_per_s.get(rest[0])
    if first == "memory":
        return None if found is None else found.memory_bytes_per_s
    if first in ("h2d", "d2h"):
        lane = PCIE_BYTES_PER_S.get(round(pcie_gen)) if pcie_gen else None
        return None if lane is None or not pcie_width else lane * pcie_width
    if first in ("peer", "all"):
        link = nvlink_rate(compute_capability, nvlink_bytes_per_s_per_link)
        if nvlink_links and link:
            return nvlink_links * link
        return None if found is None or nvlink_links == 0 else found.nvlink_bytes_per_s
    return None
