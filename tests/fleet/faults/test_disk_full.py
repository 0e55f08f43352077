"""A disk that is full under a real server, on a small file system in a mount namespace of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving import ROOT

MOUNT = 'mount -t tmpfs -o size="$1" none "$0" && shift && exec "$@"'
SIZES = {"parquet": "12m", "victoriametrics": "60m"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "victoriametrics"])
def test_on_a_small_disk(tmp_path: Path, kind: str) -> None:
    """Runs on_full_disk.py where FETTLE_TEST_DISK is a file system of some megabytes; skipped where none may be mounted."""
    mount = ("unshare", "--mount", "--map-root-user", "sh", "-c", MOUNT, str(tmp_path), SIZES[kind])
    if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace may be made here")
    words = ["-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-k", kind, "tests/fleet/faults/on_full_disk.py"]
    done = subprocess.run(
        [*mount, sys.executable, *words], cwd=ROOT, env=os.environ | {"FETTLE_TEST_DISK": str(tmp_path)}, capture_output=True, text=True, check=False, timeout=300
    )  # fmt: skip

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
