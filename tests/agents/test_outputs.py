"""The lock of a node where it has no room."""

import errno
import logging
import os
from pathlib import Path

import pytest

from agents import lock, outputs
from agents.config import AgentConfig, ConfigError

URL = "ws://server/"


def refused(code: int, path: object, *words: object, **more: object) -> None:
    """What a disk says that will not have a new file or folder."""
    raise OSError(code, os.strerror(code), str(path))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("is_there", [True, False])
def test_an_agent_starts_on_a_full_or_read_only_disk_without_its_lock(
    tmp_path: Path, is_there: bool, code: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A node that is not watched because its disk is full is the worse trouble; the log says what it goes without."""
    run = tmp_path / "run"
    if is_there:
        run.mkdir()
    monkeypatch.setattr(os, "open" if is_there else "mkdir", lambda *words, **more: refused(code, *words, **more))
    with caplog.at_level(logging.WARNING):
        held = outputs.hold(AgentConfig(run_dir=run, node="n"), URL)

    assert held == outputs.Held(None, None)
    assert caplog.messages == [
        f"{run}: {os.strerror(code)}: the agent runs without its lock and its control socket until its next start."
    ]


def test_a_folder_on_a_read_only_disk_is_no_wrong_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel mounts a disk so after errors: access(2) says no to everybody, and that it may not be written is not the user's doing."""
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(os, "access", lambda *words, **more: False)
    config = AgentConfig(run_dir=tmp_path / "run", node="n")
    with pytest.raises(ConfigError, match=r"cannot be written\.$"):
        outputs.hold(config, URL)
    real = os.statvfs(tmp_path)
    read_only = os.statvfs_result((*real[:8], real.f_flag | os.ST_RDONLY, *real[9:]))
    monkeypatch.setattr(os, "statvfs", lambda path: read_only)

    assert outputs.hold(config, URL) == outputs.Held(None, None)


def test_a_folder_that_is_wrong_for_good_is_said(tmp_path: Path) -> None:
    """A file in the folder's place does not go away by itself."""
    (tmp_path / "run").touch()

    with pytest.raises(ConfigError, match=r"run/x cannot be written\.$"):
        outputs.hold(AgentConfig(run_dir=tmp_path / "run" / "x", node="n"), URL)


def test_a_second_agent_is_refused_although_the_first_could_not_write_its_pid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is the open file, not what stands in it."""
    config = AgentConfig(run_dir=tmp_path / "run", node="n")
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda fd, data: refused(errno.ENOSPC, fd))
        held = outputs.hold(config, URL)
    with pytest.raises(lock.HeldError, match=r"^another agent speaks for node n to ws://server/ already"):
        outputs.hold(config, URL)

    assert held.descriptor is not None
    os.close(held.descriptor)
