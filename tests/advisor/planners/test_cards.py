"""The card table: every figure has a page, and figures that belong together agree."""

from pathlib import Path
from typing import Final

import pytest

from advisor.links import nvlink_rate
from advisor.planners.cards import CARDS, DTYPES, named
from wire.recording import read

ROOT: Final = Path(__file__).resolve().parents[3]


def test_every_card_names_its_pages() -> None:
    """A row without a page would be a guess; names are unique."""
    assert all(card.sources and all(source.startswith("https://") for source in card.sources) for card in CARDS)
    assert len({card.name for card in CARDS}) == len(CARDS)


def test_peaks_are_dense_and_double_with_each_halving_of_the_format() -> None:
    """A figure with sparsity would be out by two."""
    for card in CARDS:
        peaks = card.dense_flop_per_s
        assert set(peaks) <= set(DTYPES)
        if "bf16" in peaks:
            assert peaks["bf16"] == peaks["fp16"]
        if "tf32" in peaks:
            assert 1.9 < peaks["bf16"] / peaks["tf32"] < 2.1
        if "fp8" in peaks:
            assert 1.9 < peaks["fp8"] / peaks["bf16"] < 2.1
        if "fp4" in peaks:
            assert 1.9 < peaks["fp4"] / peaks["fp8"] < 2.1
        if card.bf16_matmul_flop_per_s is not None:
            assert 0.4 < card.bf16_matmul_flop_per_s / peaks["bf16"] < 1


def test_figures_are_of_a_size_that_cards_have() -> None:
    """Bytes, bytes/s and watts, not GB, GB/s and kW."""
    for card in CARDS:
        assert card.memory_bytes is None or 8e9 <= card.memory_bytes <= 1e12
        assert card.memory_bytes_per_s is None or 1e11 <= card.memory_bytes_per_s <= 2e13
        assert card.tdp_w is None or 50 <= card.tdp_w <= 2000
        assert all(1e12 < peak < 1e17 for peak in card.dense_flop_per_s.values())


def test_what_drivers_tell_of_memory_has_a_source_and_is_near_the_vendors_figure() -> None:
    """Vendors count in 10^9 and leave a little out, or count in GiB: a driver tells from 2 % less to 8 % more."""
    seen = 0
    for card in CARDS:
        assert (card.memory_total_bytes is None) == (card.memory_total_source == "")
        if card.memory_total_bytes is not None and card.memory_bytes is not None:
            seen += 1
            assert 0.98 <= card.memory_total_bytes / card.memory_bytes <= 1.08
            assert card.memory_total_source.startswith("https://") or (ROOT / card.memory_total_source).exists()
            assert card.planned_memory_bytes == card.memory_total_bytes
    assert seen >= 10
    assert named("A40").planned_memory_bytes == 48e9
    assert named("GB200").planned_memory_bytes is None


def test_the_memory_of_an_h200_is_what_the_recordings_have() -> None:
    """Read from the driver, to the byte."""
    h200 = named("H200 SXM")

    assert read(ROOT / h200.memory_total_source).header.gpus[0].mem_total_bytes == h200.memory_total_bytes


def test_nvlink_is_that_of_the_generation() -> None:
    """A whole number of links of the rate that links are judged by."""
    links = {"7.0": 6, "8.0": 12, "9.0": 18, "10.0": 18, "10.3": 18}
    for card in CARDS:
        if card.nvlink_bytes_per_s is not None and card.compute_capability is not None:
            rate = nvlink_rate(card.compute_capability, None)
            assert rate is not None
            assert card.nvlink_bytes_per_s == rate * links[card.compute_capability]


@pytest.mark.parametrize("name", ["H100 SXM", "h100-sxm", "NVIDIA H100 SXM", "h100sxm"])
def test_a_card_is_found_however_it_is_written(name: str) -> None:
    """Case, spaces and the vendor do not matter."""
    assert named(name).name == "H100 SXM"


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA B200", "B200 SXM"),
        ("Tesla V100-SXM2-32GB", "V100 SXM2 32GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_a_card_is_found_by_the_name_that_its_driver_tells(told: str, name: str) -> None:
    """As findings have it."""
    assert named(told).name == name


@pytest.mark.parametrize(
    ("name", "said"),
    [("H100", "did you mean H100 PCIe or H100 SXM?"), ("H20 SXM", "did you mean H200 SXM"), ("", "the card table has V100"), ("xyzzy", "the card table has V100")],
)  # fmt: skip
def test_a_card_that_is_not_there_names_the_nearest(name: str, said: str) -> None:
    """Or all."""
    with pytest.raises(ValueError, match="There is no card") as caught:
        named(name)

    assert said in str(caught.value)
