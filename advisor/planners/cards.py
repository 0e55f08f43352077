"""CARDS: what a GPU can do at best, a row a card, each figure with the public page that it was checked against.

Peaks are dense: what vendors print "with sparsity" is twice that. A figure for which no page was found, or on which pages differ, is
None, never a guess; planners take it as a parameter. Memory is the vendor's figure times 10^9, beside it what a driver was seen to tell, up to
7 % more: that is what a process can fill, so planners go by it where it is known.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from advisor.planners.inputs import InputError
from advisor.text import _

DTYPES: Final = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
"""Number formats of matrix products; int8 counts integer operations."""


@dataclass(frozen=True, slots=True)
class Card:
    """The published figures of one GPU; None: not checked against any page."""

    name: str
    compute_capability: str | None
    memory_bytes: float | None
    memory_bytes_per_s: float | None
    tdp_w: float | None
    dense_flop_per_s: Mapping[str, float]
    nvlink_bytes_per_s: float | None
    """Of all links together, one way; vendors print both ways together, twice that."""
    sources: tuple[str, ...]
    bf16_matmul_flop_per_s: float | None = None
    """The fastest bf16 matrix product that was measured by those who made `ML_ENGINEERING`."""
    note: str = ""
    driver_name: str = ""
    """What NVML calls it, where that is not this name with NVIDIA or Tesla before it."""
    memory_total_bytes: float | None = None
    """What NVML and nvidia-smi tell as its total memory; None where no output was found."""
    memory_total_source: str = ""
    """Where that stands: a page, or a file of this repository."""

    @property
    def planned_memory_bytes(self) -> float | None:
        """What a plan goes by: what a driver tells, else the vendor's figure."""
        return self.memory_total_bytes or self.memory_bytes


ML_ENGINEERING: Final = "https://github.com/stas00/ml-engineering/tree/master/compute/accelerator"
CAPABILITIES: Final = "https://developer.nvidia.com/cuda-gpus"
LEGACY: Final = "https://developer.nvidia.com/cuda-legacy-gpus"
OLDER_CAPABILITIES: Final = "https://www.cnblogs.com/nightnine/p/16591404.html"
TORCH: Final = "https://github.com/pytorch/pytorch/blob/main/torch/_inductor/analysis/device_info.py"
H100: Final = "https://archive-lib.hpctech.co.jp/gpuproduct/nvidia-h100.html"
A100: Final = "https://www.thundercompute.com/blog/nvidia-a100-specs-full-guide"
A100_SXM: Final = "https://glennklockwood.com/garden/processors/A100"
V100: Final = "https://nichepcgamer.com/?p=12312"
V100_NVLINK: Final = "https://fudzilla.com./news/ai/50832-nvidia-unveils-the-a100-tensor-core-gpu"
H200: Final = (
    "https://raw.githubusercontent.com/mlcommons/inference_results_v4.1/main/closed/NVIDIA/systems/H200-SXM-141GBx8_TRT_MaxQ.json"
)
T4: Final = "https://geektopia.es/es/technology/2018/09/13/noticias/nvidia-presenta-la-nueva-tesla-t4-basada-en-turing-orientada-a-inteligencia-artificial.html"
T4_MEMORY: Final = "https://sysrqmts.com/es/gpus/compare/nvidia-tesla-t4-vs-nvidia-tesla-v100-sxm3-32-gb"
A40: Final = "https://www.ecer.com/corp/details-uuuedqa-p1bsay9-multi-display-setups-supported-by-48gb-gddr6-ecc-memory-nvidia-a40-gpu-and-vga-outputs.html"
L4: Final = "https://store.sourcecode.com/en-us/bg-bucket-compare/125/9820"
L4_POWER: Final = "https://fpsbench.com/compare/gpu/nvidia-l4-vs-nvidia-tesla-m40"
RTX_4090: Final = "https://hmc-tech.com/gpus/nvidia-geforce-rtx-4090-vs-nvidia-rtx-pro-5000-blackwell"
RTX_5090: Final = "https://fpsbench.com/compare/gpu/nvidia-geforce-rtx-4090-d-vs-nvidia-geforce-rtx-5090"
L40S: Final = "https://www.mullet.se/product.html?product_id=355414"
B200: Final = "https://glennklockwood.com/garden/processors/B200"
B200_MEMORY: Final = (
    "https://raw.githubusercontent.com/mlcommons/inference_results_v6.0/main/closed/Nebius/systems/nebius_b200_n1.json"
)
B300: Final = "https://glennklockwood.com/garden/processors/B300"
B300_HGX: Final = "https://fibermall.com/blog/?p=17161"


INVENTORY: Final = "inventory"
"""As `memory_total_source`: the site's own cards tell it."""
_MIB: Final = 1 << 20
_MODAL: Final = "https://github.com/modal-labs/modal-client/pull/2797"
_TOTALS: Final[dict[str, tuple[float, str]]] = {
    "V100 SXM2 32GB": (32_768 * _MIB, "https://github.com/Wan-Video/Wan2.1/issues/5"),
    "T4": (15_360 * _MIB, _MODAL),
    "A100 SXM 40GB": (40_960 * _MIB, "https://github.com/bottlerocket-os/bottlerocket-core-kit/pull/834"),
    "A100 SXM 80GB": (81_920 * _MIB, _MODAL),
    "L4": (23_034 * _MIB, _MODAL),
    "L40S": (46_068 * _MIB, "https://github.com/akash-network/provider-configs/pull/99"),
    "RTX 4090": (24_564 * _MIB, "https://github.com/RLinf/RLinf/issues/255"),
    "RTX 5090": (32_607 * _MIB, "https://github.com/noonghunna/club-3090/issues/617"),
    "H100 SXM": (81_559 * _MIB, "https://github.com/NVIDIA/nccl/issues/1264"),
    "H200 SXM": (150_754_820_096, "recordings/bf16_train.jsonl.gz"),
    "B200 SXM": (183_359 * _MIB, "https://github.com/NVIDIA/TensorRT-LLM/issues/10278"),
}
"""What drivers of 525 and newer tell as the total memory of a card, and where that was seen: nvidia-smi's MiB, or a recording. Older
drivers told some hundred MiB less, and less is left with ECC on a card that has it in its memory."""


def _peaks(**tera: float) -> Mapping[str, float]:
    return MappingProxyType({dtype: value * 1e12 for dtype, value in tera.items()})


_AMPERE = _peaks(fp32=19.5, tf32=156, fp16=312, bf16=312, int8=624)
_HOPPER = _peaks(fp32=67, tf32=494.5, fp16=989, bf16=989, fp8=1979, int8=1979)

# fmt: off
_VENDORS: Final[tuple[Card, ...]] = (
    Card("V100 SXM2 16GB", "7.0", 16e9, 0.9e12, 300, _peaks(fp32=15.7, fp16=125), 150e9, (V100, V100_NVLINK, LEGACY)),
    Card("V100 SXM2 32GB", "7.0", 32e9, 0.9e12, 300, _peaks(fp32=15.7, fp16=125), 150e9, (V100, V100_NVLINK, LEGACY)),
    Card("T4", "7.5", 16e9, 0.32e12, 70, _peaks(fp32=8.1, fp16=65, int8=130), None, (T4, T4_MEMORY, OLDER_CAPABILITIES)),
    Card("A100 SXM 40GB", "8.0", 40e9, 1.555e12, 400, _AMPERE, 300e9, (A100, A100_SXM, TORCH, OLDER_CAPABILITIES),
         driver_name="NVIDIA A100-SXM4-40GB"),
    Card("A100 SXM 80GB", "8.0", 80e9, 2.039e12, 400, _AMPERE, 300e9, (A100, A100_SXM, TORCH, ML_ENGINEERING, OLDER_CAPABILITIES), 271.2e12,
         driver_name="NVIDIA A100-SXM4-80GB"),
    Card("A100 PCIe 80GB", "8.0", 80e9, 1.935e12, 300, _AMPERE, None, (A100, ML_ENGINEERING, OLDER_CAPABILITIES), 252.9e12,
         driver_name="NVIDIA A100 80GB PCIe"),
    Card("A40", "8.6", 48e9, 0.696e12, 300, _peaks(fp32=37.4, tf32=74.8, fp16=149.7, bf16=149.7, int8=299.3), None, (A40, CAPABILITIES)),
    Card("L4", "8.9", 24e9, 0.3e12, 72, _peaks(fp32=30.3, tf32=60, fp16=121, bf16=121, fp8=242.5, int8=242.5), None, (TORCH, L4, L4_POWER, CAPABILITIES),
         note=_("The pages print peaks with sparsity; half of them stands here.")),
    Card("L40S", "8.9", 48e9, 0.864e12, 350, _peaks(fp32=91.6, tf32=183, fp16=362, bf16=362, fp8=733, int8=733), None, (L40S, ML_ENGINEERING, CAPABILITIES)),
    Card("RTX 4090", "8.9", 24e9, 1.01e12, 450, _peaks(fp32=82.58, tf32=82.58, fp16=165.2, bf16=165.2, fp8=330.3, int8=660.6), None, (RTX_4090, CAPABILITIES),
         note=_("FP16 and FP8 with sums in FP32; sums in FP16 are twice as fast.")),
    Card("RTX 5090", "12.0", 32e9, 1.79e12, 575, _peaks(fp32=104.8), None, (RTX_5090, CAPABILITIES)),
    Card("H100 PCIe", "9.0", 80e9, 2.0e12, 350, _peaks(fp32=51, tf32=378, fp16=756, bf16=756, fp8=1513, int8=1513), None, (H100, ML_ENGINEERING, CAPABILITIES),
         note=_("Sold with limits of 300 to 350 W.")),
    Card("H100 SXM", "9.0", 80e9, 3.35e12, 700, _HOPPER, 450e9, (H100, ML_ENGINEERING, CAPABILITIES), 794.5e12,
         driver_name="NVIDIA H100 80GB HBM3"),
    Card("H200 SXM", "9.0", 141e9, 4.8e12, 700, _HOPPER, 450e9, (ML_ENGINEERING, H200, CAPABILITIES), driver_name="NVIDIA H200"),
    Card("B200 SXM", "10.0", 180e9, 8.0e12, 1000, _peaks(fp32=80, tf32=1125, fp16=2250, bf16=2250, fp8=4500, int8=4500, fp4=9000), 900e9,
         (ML_ENGINEERING, B200, B200_MEMORY, CAPABILITIES), driver_name="NVIDIA B200",
         note=_("Drivers tell a narrower memory bus that gives 7.67 TB/s.")),
    Card("GB200", "10.0", None, 8.0e12, 1200, _peaks(tf32=1250, fp16=2500, bf16=2500, fp8=5000, int8=5000, fp4=10000), 900e9,
         (ML_ENGINEERING, B200, CAPABILITIES), note=_("One GPU of the superchip; pages differ on its memory and its FP32 peak.")),
    Card("B300 SXM", "10.3", 288e9, 8.0e12, None, _peaks(fp32=75, tf32=1125, fp16=2250, bf16=2250, fp8=4500), 900e9,
         (ML_ENGINEERING, B300, B300_HGX, CAPABILITIES), note=_("Pages differ on power, INT8 and FP4.")),
    Card("MI300X", None, 192e9, 5.3e12, 750, _peaks(fp32=163.4, tf32=653.7, fp16=1307.4, bf16=1307.4, fp8=2614.9, int8=2614.9), None, (TORCH, ML_ENGINEERING), 668.4e12),
    Card("MI325X", None, 256e9, 6.0e12, 1000, _peaks(fp32=163.4, tf32=653.7, fp16=1300, bf16=1300, fp8=2600, int8=2600), None, (ML_ENGINEERING,), 784.9e12),
)
# fmt: on
CARDS: Final[tuple[Card, ...]] = tuple(
    replace(card, memory_total_bytes=_TOTALS[card.name][0], memory_total_source=_TOTALS[card.name][1])
    if card.name in _TOTALS
    else card
    for card in _VENDORS
)


def named(name: str) -> Card:
    """The card of that name, or of the one that its driver tells, however it is cased and spaced; raises ValueError with the nearest names."""
    wanted = _plain(name) or "-"
    for card in CARDS:
        if wanted in (_plain(card.name), _plain(card.driver_name)):
            return card
    plain = {_plain(card.name): card.name for card in CARDS}
    begun = [card.name for card in CARDS if _plain(card.name).startswith(wanted)]
    close = begun or [plain[one] for one in difflib.get_close_matches(wanted, list(plain), 2)]
    told = f"{name!r:.60}"
    if len(close) == 1:
        raise InputError(_("There is no card {card}; did you mean {close}?"), "card", card=told, close=close[0])
    if close:
        text = _("There is no card {card}; did you mean {close} or {other}?")
        raise InputError(text, "card", card=told, close=", ".join(close[:-1]), other=close[-1])
    raise InputError(
        _("There is no card {card}; the card table has {cards}."), "card", card=told, cards=", ".join(plain.values())
    )


def _plain(name: str) -> str:
    """Letters and digits alone, without the vendor's and the old family's names."""
    plain = "".join(character for character in name.lower() if character.isalnum())
    for word in ("nvidia", "amd", "instinct", "tesla", "geforce"):
        plain = plain.removeprefix(word)
    return plain
