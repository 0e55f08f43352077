"""Versions of loaded libraries, from a memory map and a root made of files."""

import os
from pathlib import Path

import pytest

from agents.collectors import loaded

PACKAGES = "usr/lib/python3/site-packages"
VERSION = "from typing import Optional\n__all__ = ['__version__']\n__version__ = '2.9.1+cu128'\ndebug = False\ncuda: Optional[str] = '12.8'\n"


def mapped(*paths: str) -> str:
    """A memory map with these files."""
    return "".join(f"7f1000000000-7f1000001000 r-xp 00000000 08:01 99{i}    {path}\n" for i, path in enumerate(paths))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The folder of a process that has torch loaded, as /proc would show it."""
    process, root = tmp_path / "10", tmp_path / "root"
    package = root / PACKAGES / "torch"
    package.mkdir(parents=True)
    process.mkdir()
    (package / "version.py").write_text(VERSION)
    (process / "root").symlink_to(root)
    (process / "maps").write_text(
        "00400000-00452000 r-xp 00000000 08:02 173521      [heap]\n"
        + mapped(f"/{PACKAGES}/torch/lib/libtorch_cpu.so", f"/{PACKAGES}/nvidia/cuda_runtime/lib/libcudart.so.12")
    )
    return process


def test_torch_and_the_runtime_are_told_by_their_versions(base: Path) -> None:
    """The wheel's library has a major version alone; torch says for which minor one it was built."""
    assert loaded.labels(str(base)) == {"torch": "2.9.1+cu128", "cuda": "12.8"}


def test_the_own_version_of_the_library_outranks_what_torch_was_built_for(base: Path) -> None:
    """A toolkit of the node's."""
    (base / "maps").write_text(mapped(f"/{PACKAGES}/torch/lib/libtorch.so", "/usr/local/cuda/lib64/libcudart.so.12.4.127"))

    assert loaded.labels(str(base)) == {"torch": "2.9.1+cu128", "cuda": "12.4.127"}


def test_a_process_without_torch_has_no_version_of_it(base: Path) -> None:
    """Unknown, not none; and a file that was deleted under it says nothing."""
    (base / "maps").write_text(mapped("/usr/lib/libc.so.6", f"/{PACKAGES}/torch/lib/libtorch.so (deleted)"))

    assert loaded.labels(str(base)) == {}


def test_a_map_made_to_be_slow_to_read_is_read_at_once(base: Path) -> None:
    """A search that tries every folder with every ending would take minutes on it, and would hold every other thread of the agent."""
    folders = "/" + " " * 450 + "/dist-packages/torch/.x" * 60 + "/so.1.1.1.1.1.1" * 60 + "/"
    (base / "maps").write_text(mapped(*(f"{folders}{n}.so.1.1x" for n in range(1000)), f"/{PACKAGES}/torch/lib/libtorch.so.2.9"))

    assert loaded.labels(str(base)) == {"torch": "2.9.1+cu128"}


def test_a_folder_within_torch_that_looks_like_another_is_none(base: Path) -> None:
    """The first one in the path counts, and a library with a version behind its name is one."""
    (base / "maps").write_text(mapped(f"/{PACKAGES}/torch/x/dist-packages/torch/lib.so.1"))

    assert loaded.labels(str(base)) == {"torch": "2.9.1+cu128"}


def test_no_link_leads_out_of_the_root_of_a_process(base: Path, tmp_path: Path) -> None:
    """Whether the file or a folder above it is the link: a container could point at the node's files."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "version.py").write_text(VERSION)
    package = tmp_path / "root" / PACKAGES / "torch"
    (package / "version.py").unlink()
    (package / "version.py").symlink_to(tmp_path / "elsewhere" / "version.py")

    assert "torch" not in loaded.labels(str(base))
    (package / "version.py").unlink()
    package.rmdir()
    package.symlink_to(tmp_path / "elsewhere")
    assert "torch" not in loaded.labels(str(base))
    (base / "maps").write_text(mapped("/../elsewhere/site-packages/torch/lib/libtorch.so"))
    assert loaded.labels(str(base)) == {}


def test_a_pipe_in_place_of_the_file_is_not_waited_for(base: Path, tmp_path: Path) -> None:
    """Opening it would wait for a writer."""
    version = tmp_path / "root" / PACKAGES / "torch" / "version.py"
    version.unlink()
    os.mkfifo(version)

    assert loaded.labels(str(base)) == {"cuda": "12"}


@pytest.mark.parametrize(
    "text", ["", "__version__ = '" + "9" * 100 + "'", "__version__ = 'alice'", "__version__ = '2;rm'", "\0" * 100_000 + VERSION]
)
def test_a_file_that_says_no_version_is_not_believed(base: Path, tmp_path: Path, text: str) -> None:
    """Only a version's own form leaves the node, from the beginning of the file alone."""
    (tmp_path / "root" / PACKAGES / "torch" / "version.py").write_text(text)

    assert loaded.labels(str(base)) == {"cuda": "12"}


def test_the_real_process_can_be_read() -> None:
    """This one has no torch; its map is read all the same."""
    assert loaded.labels("/proc/self") == {}
