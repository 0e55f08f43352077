"""A disk that is full, for the writer and the store together."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
MOUNT = 'mount -t tmpfs -o size=2m none "$0" && exec "$@"'


def test_the_writer_outlives_a_full_disk(tmp_path: Path) -> None:
    """On a real small file system, in a mount namespace of its own; skipped where none may be made."""
    mount = ("unshare", "--mount", "--map-root-user", "sh", "-c", MOUNT, str(tmp_path))
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace may be made here")
    done = subprocess.run(
        [*mount, sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "tests/fleet/ingest/on_small_disk.py"],
        cwd=REPOSITORY,
        env=os.environ | {"FETTLE_TEST_DISK": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout
