"""CUDA_VISIBLE_DEVICES as CUDA reads it (I02)."""

import pytest

from agents.collectors.visible_gpus import label, visible
from wire.messages import GpuFacts

A, B = "GPU-6d0c5fe8-f6c7-1ab0-5b7a-0dff2509c886", "GPU-cc4c2be8-1093-f617-2756-7e6ef96ab773"
SLICE, OTHER = "MIG-0b7d1c52-5a2e-5d6f-9a3e-2f1c7f3d9e01", "MIG-0b7d1c52-77aa-5d6f-9a3e-2f1c7f3d9e02"
CARDS = (GpuFacts(index=0, uuid=A, name="NVIDIA H200"), GpuFacts(index=1, uuid=B, name="NVIDIA H200"))
SPLIT = (
    GpuFacts(index=0, uuid=A, name="NVIDIA H200", mig_mode=True),
    GpuFacts(index=1, uuid=B, name="NVIDIA H200"),
    GpuFacts(index=2, uuid=SLICE, name="NVIDIA H200", parent_uuid=A, mig_gpu_instance=1, mig_compute_instance=0),
    GpuFacts(index=3, uuid=OTHER, name="NVIDIA H200", parent_uuid=A, mig_gpu_instance=2, mig_compute_instance=0),
)

MEASURED = [
    (None, None),
    ("", []),
    ("0", [A]),
    ("1", [B]),
    ("1,0", [B, A]),
    ("0,1", [A, B]),
    ("-1", []),
    ("0,-1,1", [A]),
    ("0,-1,0", [A]),
    ("0,9,1", [A]),
    ("0,9,0", [A]),
    ("9", []),
    ("0,0", []),
    ("0,1,1", []),
    ("0,1,0", []),
    ("0,0,-1", []),
    ("0,0,9", []),
    ("abc", []),
    ("all", []),
    ("none", []),
    ("NoDevFiles", []),
    ("0,abc,1", [A]),
    ("0,,1", [A]),
    (",0", []),
    ("0,", [A]),
    (" 0, 1", [A, B]),
    ("0 ,1", [A, B]),
    ("\t0", [A]),
    ("0\n,1", [A, B]),
    ("0;1", [A]),
    ("0 1", [A]),
    ("1gpu2", [B]),
    ("0x1", [A]),
    ("1.5", [B]),
    ("+1", [B]),
    ("01", [B]),
    ("-0", [A]),
    ("2147483648", []),
    ("99999999999999999999,0", []),
    (A, [A]),
    (f"{B},{A}", [B, A]),
    ("GPU-6d0c5fe8", [A]),
    ("GPU-6d0c5fe8,GPU-cc4c2be8", [A, B]),
    ("GPU-6,GPU-c", [A, B]),
    ("GPU-", []),
    ("GPU", []),
    (f"{A},{A}", []),
    (f"{A},GPU-6", []),
    (f"GPU-6,{A}", []),
    (f"{A},{B},{A}", []),
    (f"{A},GPU-ffffffff,{B}", [A]),
    (f"{A},GPU-ffffffff,{A}", [A]),
    (f"{A},{A},GPU-ffffffff", []),
    (f"{A},1", [A]),
    (f"0,{B}", [A]),
    (f"{A},-1,{B}", [A]),
    (A.removeprefix("GPU-"), []),
    ("GPU-6D0C5FE8-F6C7-1AB0-5B7A-0DFF2509C886", [A]),
    (A.lower(), []),
    (f"{A}0", [A]),
    (f"{A} ,{B}", [A, B]),
    (f"{A}, {B}", [A]),
    (f" {A}", []),
    (f"MIG-{A}/1/0", []),
    ("MIG-GPU-", []),
    (f"{A},MIG-{A}/1/0,{B}", [A]),
]
"""What two H200 with driver 580.159.04 showed: cuInit, cuDeviceGetCount and cuDeviceGetUuid_v2 in a process for each value."""


@pytest.mark.parametrize(("value", "seen"), MEASURED)
def test_a_process_may_use_what_cuda_showed_it(value: str | None, seen: list[str] | None) -> None:
    """Indices, UUIDs, cut UUIDs, nothing, nonsense and doubles."""
    assert visible(value, CARDS, is_order_known=True) == seen


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (SLICE, [SLICE]),
        (f"{OTHER},{SLICE}", [OTHER]),
        (f"{SLICE},{SLICE}", []),
        (f"MIG-{A}/2/0", [OTHER]),
        ("MIG-GPU-6d0c5fe8/1/0", [SLICE]),
        (f"MIG-{A}/7/0", []),
        (f"MIG-{B}/1/0", []),
        ("MIG-0b7d1c52", []),
        ("MIG-0b7d1c52-5", [SLICE]),
        (f"{B},{SLICE}", [B]),
        (f"{SLICE},{B}", [SLICE]),
        ("0,1", ["?0", "?1"]),
    ],
)
def test_a_slice_is_known_by_its_uuid_of_the_old_form_and_the_new(value: str, seen: list[str]) -> None:
    """The first of a list of slices alone, as NVIDIA's guide has it; indices among slices are in an order of CUDA's own."""
    assert visible(value, SPLIT, is_order_known=False) == seen


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, "all"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "none"),
        ({"CUDA_VISIBLE_DEVICES": "1,0"}, "GPU-cc4c2be8,GPU-6d0c5fe8"),
        ({"CUDA_VISIBLE_DEVICES": "1,1"}, "none"),
    ],
)
def test_the_label_has_uuids_as_short_as_cuda_takes_them(variables: dict[str, str], told: str) -> None:
    """Sixteen fit where whole ones would not; what is told may be set as it is."""
    assert label(variables, CARDS, is_shut_in=False) == told
    if variables.get("CUDA_VISIBLE_DEVICES") and told != "none":
        assert visible(told, CARDS, is_order_known=True) == visible(variables["CUDA_VISIBLE_DEVICES"], CARDS, is_order_known=True)


def test_uuids_that_begin_alike_are_told_longer() -> None:
    """The told beginning names one GPU of the node."""
    alike = tuple(GpuFacts(index=n, uuid=f"GPU-00000000-0000-4000-8000-00000000000{n}", name="T4") for n in (1, 2))

    assert label({"CUDA_VISIBLE_DEVICES": "1"}, alike, is_shut_in=False) == alike[1].uuid


MIXED = (CARDS[0], GpuFacts(index=1, uuid=B, name="NVIDIA T4"))


@pytest.mark.parametrize(
    ("gpus", "order", "is_shut_in", "told"),
    [
        (MIXED, None, False, "?1"),
        (MIXED, "FASTEST_FIRST", False, "?1"),
        (MIXED, "PCI_BUS_ID", False, "GPU-cc4c2be8"),
        (CARDS, None, False, "GPU-cc4c2be8"),
        (CARDS, None, True, "?1"),
        (CARDS, "PCI_BUS_ID", True, "?1"),
        (SPLIT, "PCI_BUS_ID", False, "?1"),
    ],
)
def test_an_index_stays_one_where_cudas_order_is_not_known(
    gpus: tuple[GpuFacts, ...], order: str | None, is_shut_in: bool, told: str
) -> None:
    """Cards of several models, slices, containers and jobs: nothing is guessed (I01)."""
    variables = {"CUDA_VISIBLE_DEVICES": "1"} | ({} if order is None else {"CUDA_DEVICE_ORDER": order})

    assert label(variables, gpus, is_shut_in) == told


def test_nothing_is_told_where_no_gpu_is_cudas() -> None:
    """AMD's and Ascend's programs look at other variables."""
    assert (
        label({"CUDA_VISIBLE_DEVICES": "0"}, (GpuFacts(index=0, uuid="18ff74a0-0000-1000-80ea", name="MI300X"),), False) is None
    )
