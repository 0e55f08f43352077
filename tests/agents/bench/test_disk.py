"""The disk's reads: room, memory that looks like a disk, and the arithmetic of slices."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from agents.bench import disk
from agents.bench.disk import DiskError, file_system, score, size_for


def statvfs(free_gib: float, whole_gib: float) -> SimpleNamespace:
    """A disk with so much free of so much."""
    return SimpleNamespace(f_frsize=4096, f_bavail=int(free_gib * (1 << 18)), f_blocks=int(whole_gib * (1 << 18)))


@pytest.mark.parametrize(
    ("free", "whole", "quick", "expected_mib"),
    [(500, 1000, False, 4096), (500, 1000, True, 512), (102, 1000, False, 2048), (3, 10, False, 1024)],
)
def test_the_file_leaves_a_tenth_of_the_disk_free(
    free: float, whole: float, quick: bool, expected_mib: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And 2 GiB at least."""
    monkeypatch.setattr(os, "statvfs", lambda folder: statvfs(free, whole))
    monkeypatch.setattr(disk, "file_system", lambda device: "ext4")

    assert size_for(tmp_path, quick=quick) == expected_mib << 20


def test_a_disk_that_is_nearly_full_is_not_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence says how much is free and what to do."""
    monkeypatch.setattr(os, "statvfs", lambda folder: statvfs(100.01, 1000))
    monkeypatch.setattr(disk, "file_system", lambda device: "ext4")

    with pytest.raises(DiskError, match=r"has 107\.4 GB free.*name a folder with more room"):
        size_for(tmp_path, quick=True)
    assert [name for name, why in disk.measure(tmp_path, quick=True) if isinstance(why, str)] == list(disk.NAMES)


def test_memory_that_looks_like_a_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tmpfs takes direct I/O on newer kernels, and answers from memory."""
    monkeypatch.setattr(disk, "file_system", lambda device: "tmpfs")

    with pytest.raises(DiskError, match="lies in memory"):
        size_for(tmp_path, quick=True)


def test_the_kind_of_file_system_is_the_kernels(tmp_path: Path) -> None:
    """By the device's number; optional fields stand between in some lines."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n36 22 0:31 / /dev/shm rw,nosuid - tmpfs tmpfs rw,size=8g\nnot a line\n"
    )

    assert file_system(os.makedev(254, 0), mounts) == "ext4"
    assert file_system(os.makedev(0, 31), mounts) == "tmpfs"
    assert file_system(os.makedev(9, 9), mounts) == ""
    assert file_system(1, tmp_path / "nothing") == ""


def test_a_rate_is_the_median_over_slices_of_time() -> None:
    """Ten slices of 0.1 s: 100 MB in nine of them, none in one."""
    reads = [(n * 0.1 + 0.05, 100_000_000) for n in range(9)] + [(1.0, 0)]
    found = score("disk_random_read", reads, 0.0, 1.0)

    assert found.value == pytest.approx(1e9)
    assert found.p5 == pytest.approx(0.45e9)
    assert found.iterations == 10
    with pytest.raises(DiskError, match="no read came back"):
        score("disk_random_read", [], 5.0, 5.0)
