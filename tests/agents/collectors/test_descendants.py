"""Who is whose child, as the scan of /proc remembers it between its rounds."""

import shutil
from pathlib import Path

import pytest

from agents.collectors import procfs
from agents.collectors.descendants import Descendants, Tree
from tests.agents.proc import Proc


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    """A trainer with a child and a grandchild, and a stranger."""
    found = Proc(tmp_path)
    found.process(10, cmdline="python train.py")
    found.process(11, parent=10)
    found.process(12, parent=11)
    found.process(99, parent=1)
    return found


def seen(descendants: Descendants, tree: Tree, now: float) -> int:
    """How many descendants there are at this second."""
    tree.refresh(now)
    descendants.read(tree, now, ())
    return descendants.count


def test_an_end_is_seen_at_once_and_a_beginning_within_five_seconds(proc: Proc) -> None:
    """The scan is dear, the `stat` of those who are known is not."""
    tree, descendants = Tree(str(proc.root)), Descendants(10)
    assert seen(descendants, tree, 0.0) == 2

    shutil.rmtree(proc.root / "12")
    assert seen(descendants, tree, 1.0) == 1
    proc.process(13, parent=10)
    assert seen(descendants, tree, 2.0) == 1
    assert seen(descendants, tree, 5.0) == 2


def test_what_the_main_thread_starts_is_seen_at_once(proc: Proc) -> None:
    """Loader workers that start just after a scan would be missing for seconds, longer than a short program is recorded."""
    tree, descendants = Tree(str(proc.root)), Descendants(10)
    assert seen(descendants, tree, 0.0) == 2

    proc.process(13, parent=10)
    (proc.root / "10/task/10").mkdir(parents=True, exist_ok=True)
    (proc.root / "10/task/10/children").write_text("11 13 ")
    assert seen(descendants, tree, 0.25) == 3
    (proc.root / "10/task/10/children").write_text("torn")
    assert seen(descendants, tree, 0.5) == 2


def test_who_looks_oftener_scans_oftener(proc: Proc) -> None:
    """A recording of some seconds is no agent that runs for months."""
    tree, descendants = Tree(str(proc.root), scan_s=1.0), Descendants(10)
    assert seen(descendants, tree, 0.0) == 2

    proc.process(13, parent=10)
    assert seen(descendants, tree, 0.5) == 2
    assert seen(descendants, tree, 1.0) == 3


def test_a_scan_reads_new_processes_alone(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node has thousands; who is known is read again after minutes."""
    read: list[str] = []
    real = procfs.read

    def counted(path: str) -> bytes:
        read.append(path)
        return real(path)

    monkeypatch.setattr(procfs, "read", counted)
    tree = Tree(str(proc.root))
    tree.refresh(0.0)
    assert len(read) == 4
    read.clear()

    proc.process(13, parent=10)
    tree.refresh(5.0)
    assert read == [f"{proc.root}/13/stat"]
    read.clear()
    tree.refresh(300.0)
    assert len(read) == 5


def test_a_pid_that_has_another_parent_by_now_is_nobodys_child(proc: Proc) -> None:
    """Between two scans its number was used again, or it was orphaned; its own children go with it until they are read anew."""
    tree, descendants = Tree(str(proc.root)), Descendants(10)
    assert seen(descendants, tree, 0.0) == 2

    proc.process(11, parent=1, start=777)
    assert seen(descendants, tree, 1.0) == 0
    proc.process(12, parent=10)
    assert seen(descendants, tree, 300.0) == 1
