"""Published peaks by the name of a test."""

import pytest

from advisor.peaks import peak


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("matmul_bf16_8192", 989e12),
        ("matmul_fp8_8192x14336x4096", 1979e12),
        ("matmul_tf32_8192", 494.5e12),
        ("matmul_fp64_8192", None),
        ("memory_copy", 4.8e12),
        ("peer_copy_256mib", 450e9),
        ("all_reduce_1gib_8gpus", 450e9),
        ("h2d_pinned_16mib", None),
        ("disk_random_read", None),
        ("matmul", None),
        ("", None),
    ],
)
def test_an_h200_has_the_card_tables_peaks(test: str, expected: float | None) -> None:
    """A link that was not told has no peak; nor has what the table lacks."""
    assert peak("NVIDIA H200", test) == expected


def test_an_unknown_card_has_none() -> None:
    """Nothing is guessed."""
    assert peak("Voodoo 2", "matmul_bf16_8192") is None
    assert peak("Voodoo 2", "all_reduce_1mib_2gpus") is None


def test_links_that_the_card_told_outrank_the_table() -> None:
    """18 NVLinks of 26.562 GB/s; PCIe 5.0 x16 at 63 GB/s; a card without NVLinks has none of the table's."""
    assert peak("NVIDIA H200", "peer_copy_256mib", nvlink_links=18, nvlink_bytes_per_s_per_link=26.562e9) == pytest.approx(
        478.1e9, rel=1e-3
    )
    assert peak("", "d2h_pinned_16mib", pcie_gen=5, pcie_width=16) == pytest.approx(63e9, rel=1e-3)
    assert peak("", "h2d_pinned_16mib", pcie_gen=4, pcie_width=8) == pytest.approx(15.75e9, rel=1e-3)
    assert peak("NVIDIA H200", "all_reduce_1gib_8gpus", nvlink_links=0) is None
