"""Locks: one holder, named by its pid, and free as soon as that process is gone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agents import lock

HOLDER = """
import sys, pathlib
from agents import lock
lock.hold(pathlib.Path(sys.argv[1]), "x")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_holder_is_told_the_firsts_pid_until_it_is_killed(tmp_path: Path) -> None:
    """A lock's file that stays behind is no lock."""
    path = tmp_path / "agent.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(lock.HeldError, match=rf"^another agent \(pid {holder.pid}\) uses it: stop it\.$"):
            lock.hold(path, "uses it: stop it.")
        holder.kill()
        holder.wait()
    descriptor = lock.hold(path, "uses it")
    assert path.read_text() == f"{os.getpid()}\n"
    lock.release(descriptor, path)
    assert not path.exists()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    """Or another user could have any file of ours emptied."""
    (tmp_path / "other").write_text("kept")
    (tmp_path / "agent.lock").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match=r"symbolic links|Too many levels"):
        lock.hold(tmp_path / "agent.lock", "x")

    assert (tmp_path / "other").read_text() == "kept"


def test_the_setting_alone_counts_where_it_is_given(tmp_path: Path) -> None:
    """A folder that cannot be had is None, never another one."""
    (tmp_path / "file").touch()

    assert lock.folder(tmp_path / "run", tmp_path / "spool") == tmp_path / "run"
    assert lock.folder(tmp_path / "file" / "run", tmp_path) is None


@pytest.mark.parametrize("umask", [0o077, 0o022])
def test_a_folder_that_is_made_is_open_to_scripts_of_other_users(tmp_path: Path, umask: int) -> None:
    """Whatever the umask: they report their steps there. The spool's is nobody else's business."""
    before = os.umask(umask)
    try:
        made = lock.folder(tmp_path / "run", None)
        spool = next(place for place in lock.places(None, tmp_path / "spool") if place == tmp_path / "spool")
        kept = lock._usable(spool, is_public=False)
    finally:
        os.umask(before)

    assert made is not None
    assert (made.stat().st_mode & 0o777, kept, spool.stat().st_mode & 0o777) == (0o755, True, 0o700)


def test_agents_for_two_servers_have_files_of_their_own() -> None:
    """One node may be told of to two of them."""
    assert lock.stem("ws://a/", "n") != lock.stem("ws://b/", "n") != lock.stem("ws://b/", "m")
