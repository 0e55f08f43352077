"""The agent's one file, built once for all tests here."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="package")
def agent_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make agent` builds."""
    file = tmp_path_factory.mktemp("dist") / "fettle-agent.pyz"
    subprocess.run([sys.executable, "deploy/agent/build.py", "--output", str(file)], cwd=ROOT, check=True)
    return file
