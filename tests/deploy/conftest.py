"""The agent's one file, built once for all tests here."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.made_once import made_once

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def agent_file() -> Path:
    """What `make agent` builds."""
    return made_once("fettle-agent.pyz", _build)


def _build(file: Path) -> None:
    subprocess.run([sys.executable, "deploy/agent/build.py", "--output", str(file)], cwd=ROOT, check=True)
