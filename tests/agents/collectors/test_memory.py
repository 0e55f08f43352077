"""Memory, swap, huge pages and /dev/shm."""

import os
from pathlib import Path

import pytest

from agents.collectors.memory import Memory, SharedMemory, Swapped


def test_swap_and_huge_pages_are_bytes(tmp_path: Path) -> None:
    """meminfo speaks of kB and of pages of its own size."""
    (tmp_path / "meminfo").write_text(
        "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\nSwapCached: 3 kB\nSwapTotal: 100 kB\nSwapFree: 30 kB\n"
        "HugePages_Total:      10\nHugePages_Free:        4\nHugePages_Rsvd:        0\nHugepagesize:       2048 kB\n"
    )

    assert Memory(tmp_path).read() == {
        "mem_used_bytes": 600 * 1024,
        "mem_available_bytes": 400 * 1024,
        "swap_used_bytes": 70 * 1024,
        "hugepages_total_bytes": 20 << 20,
        "hugepages_free_bytes": 8 << 20,
    }


def test_what_was_swapped_is_bytes_of_whole_pages(tmp_path: Path) -> None:
    """A kernel without swap counts nothing, which is not zero."""
    (tmp_path / "vmstat").write_text("pgpgin 5\npswpin 3\npswpout 7\nnr_pswpin 9\n")
    page = os.sysconf("SC_PAGE_SIZE")
    assert Swapped(tmp_path).read() == {"swap_in_bytes_total": 3 * page, "swap_out_bytes_total": 7 * page}

    (tmp_path / "vmstat").write_text("pgpgin 5\n")
    assert Swapped(tmp_path).read() == {}


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="no /dev/shm")
def test_shared_memory_has_a_size() -> None:
    """The real mount; a folder that is not there says nothing."""
    found = SharedMemory().read()

    assert int(found["shm_size_bytes"]) >= int(found["shm_used_bytes"])
    assert SharedMemory(Path("/nowhere")).read() == {}
