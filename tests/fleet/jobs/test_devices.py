"""What schedulers call devices, as a table."""

import pytest

from fleet.inventory.models import Gpu
from fleet.jobs.devices import MOST_DEVICES, Cards, DeviceError, devices, stands_for

ONE = "GPU-8f2a1c3e-1111-2222-3333-444455556666"
TWO = "GPU-8f2a9d00-1111-2222-3333-444455556666"
SLICE = "MIG-1d2c3b4a-1111-2222-3333-444455556666"
OLD = f"MIG-{ONE}/7/0"
PLAYED = "GPU-REPLAY-9f86d081884c7d65"
"""As agents/replay.py names the GPUs of a recording."""


@pytest.mark.parametrize(
    ("told", "names"),
    [
        ("0", ["0"]),
        ("0-3,5", ["0", "1", "2", "3", "5"]),
        ("[0-1,7]", ["0", "1", "7"]),
        ([2, "0"], ["2", "0"]),
        ("1,1,0,1", ["1", "0"]),
        (" 0 , 1 ", ["0", "1"]),
        ("0,-1,2", ["0"]),
        ("-1", []),
        ("", []),
        ("(null)", []),
        ("NoDevFiles", []),
        ("none", []),
        ("0,,1", ["0", "1"]),
        (ONE, [ONE]),
        (ONE.upper(), [ONE]),
        ("GPU-8f2a1", ["GPU-8f2a1"]),
        (f"{ONE},{SLICE}", [ONE, SLICE]),
        (OLD, [OLD]),
        (OLD.lower().replace("mig", "MIG"), [OLD]),
        (PLAYED, [PLAYED]),
        (f"{PLAYED},0", [PLAYED, "0"]),
        (PLAYED.replace("GPU", "gpu"), [PLAYED]),
        ("MIG-1g-10gb", ["MIG-1g-10gb"]),
        (f"MIG-{PLAYED}/7/0", [f"MIG-{PLAYED}/7/0"]),
        ("00000000:17:00.0", ["00000000:17:00.0"]),
        ("0000:ae:00.0", ["00000000:AE:00.0"]),
        ("17:00.0", ["00000000:17:00.0"]),
        ("gpu:h100:2(IDX:0-1)", ["0", "1"]),
        ("gpu:2(IDX:0,3)", ["0", "3"]),
        ("gpu(IDX:2)", ["2"]),
        ("gpu:a100:1(IDX:0),gpu:h100:2(IDX:1-2)", ["0", "1", "2"]),
        ("gpu:h100:2(IDX:N/A)", ["gpu:h100:2"]),
        ("gpu:h100:2", ["gpu:h100:2"]),
        ("gpu:4", ["gpu:4"]),
        ("gpu:h100", ["gpu:h100:1"]),
        ("gpu:nvidia_h100_80gb_hbm3:8(S:0-1)", ["gpu:nvidia_h100_80gb_hbm3:8"]),
        ("gpu:0", []),
        ("mps:50(IDX:1)", ["1"]),
        ("shard:2", []),
    ],
)  # fmt: skip
def test_every_spelling_is_read(told: str | list[str | int], names: list[str]) -> None:
    """Each device once, in the order told; none where none was given."""
    assert list(devices(told).names) == names


@pytest.mark.parametrize(
    "told",
    ["x", "3-1", "0-1024", "-2", "GPU-", "MIG-", "GPU--1", "GPU-a_b", "GPU-é", "GPU-" + "a" * 77, "GPU-1/7/0", "cuda:0", "/dev/nvidia0", "0;1", "gpu:h100:2(IDX:a)", "0 1", "\x00", "12345", "h100:2",
     "tpu:2", "gpu:h100:2(IDX:0-1"],
)  # fmt: skip
def test_what_is_no_device_is_refused_with_the_spellings_that_are(told: str) -> None:
    """A wrong name must not become a device that nobody has."""
    with pytest.raises(DeviceError, match="device"):
        devices(told)


def test_a_list_has_a_bound() -> None:
    """One request cannot fill the table."""
    assert len(devices(f"0-{MOST_DEVICES - 1}").names) == MOST_DEVICES
    with pytest.raises(DeviceError, match="1024"):
        devices(f"0-{MOST_DEVICES - 1},{ONE}")


def test_a_count_stands_for_as_many_devices() -> None:
    """What nobody names is not one device, and not none."""
    assert devices("gpu:h100:2").total == 2
    assert devices("gpu:a100:1(IDX:3),gpu:h100:2").total == 3
    assert [stands_for(name) for name in ("3", ONE, "gpu:8", "00000000:17:00.0")] == [1, 1, 8, 1]


def test_shares_of_devices_are_shared() -> None:
    """Slurm's mps and shard give the same device to several jobs."""
    assert devices("mps:50(IDX:1)").shared
    assert not devices("gpu:2(IDX:0-1)").shared


CARDS = [
    Gpu(pk=1, uuid=ONE, index=0, pci_bus_id="00000000:17:00.0", mig_mode=True),
    Gpu(pk=2, uuid=SLICE, index=0, pci_bus_id="00000000:17:00.0", parent_uuid=ONE, mig_gpu_instance=7, mig_compute_instance=0),
    Gpu(pk=3, uuid=TWO, index=1, pci_bus_id="00000000:AE:00.0"),
    Gpu(pk=5, uuid=PLAYED, index=2),
    Gpu(pk=4, uuid="GPU-00000000-dead-dead-dead-000000000000", index=1, present=False),
]


@pytest.mark.parametrize(
    ("name", "pk"),
    [
        ("0", 1), ("1", 3), ("2", 5), ("3", None), (PLAYED, 5), (PLAYED.lower(), 5), ("GPU-REPLAY", 5), ("GPU-REPLAY-x", None), (ONE, 1), (ONE.replace("8f2a", "8F2A"), 1), (SLICE, 2), (OLD, 2), (f"MIG-{ONE}/7/1", None),
        ("GPU-8f2a1", 1), ("GPU-8f2a9", 3), ("GPU-8f2a", None), ("GPU-9", None), ("17:00.0", 1), ("0000:ae:00.0", 3),
        ("gpu:h100:2", None),
    ],
)  # fmt: skip
def test_a_name_finds_its_card_or_none(name: str, pk: int | None) -> None:
    """By index the whole card, not its slices nor one that is gone; a beginning that fits two finds neither."""
    (read,) = devices(name).names
    found = Cards(CARDS).find(read)

    assert (found.pk if found else None) == pk
