"""The server's image without a container engine: what its Dockerfile copies, and what its build stage does."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.deploy.conftest import ROOT

RECIPE: Final = ROOT / "deploy" / "server" / "Dockerfile"


def build_stage() -> str:
    """Everything before the last stage, continued lines made one."""
    return RECIPE.read_text().rpartition("\nFROM ")[0].replace("\\\n", " ")


def copied(into: Path) -> Path:
    """The folder that the image's programs run in, without what the build makes."""
    for words in re.findall(r"^COPY (.+)$", build_stage(), re.M):
        *sources, target = words.split()
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, into / target, ignore=shutil.ignore_patterns("__pycache__", "secrets"))
            else:
                shutil.copy2(ROOT / source, into / target)
    return into


def built(into: Path) -> tuple[Path, Path]:
    """The folder and its virtual environment, after the build stage's commands; with this machine's Python."""
    code, packages = copied(into / "code"), into / "venv"
    path = f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin"
    for command in re.findall(r"^RUN (.+)$", build_stage(), re.M):
        here = (
            command.replace("/opt/venv", str(packages))
            .replace("/opt/fettle", str(code))
            .replace("python -m venv", f"{sys.executable} -m venv")
        )
        done = subprocess.run(["sh", "-ec", here], cwd=code, env={"PATH": path, "HOME": str(into), "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
    return code, packages
