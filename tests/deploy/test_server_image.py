"""The build stage of the server's image, run as plain commands."""

import subprocess
from pathlib import Path

import pytest

from tests.deploy import server_image


@pytest.mark.slow
def test_what_is_built_starts_without_the_repository_and_without_pip(tmp_path: Path) -> None:
    """Packages by their hashes, the agent's file, the static files; every program that the compose file names can be imported."""
    code, packages = server_image.built(tmp_path)
    env = {"PATH": f"{packages}/bin:/usr/bin:/bin", "FETTLE_SECRET_KEY": "k" * 40, "FETTLE_DATA": str(tmp_path / "data"),
           "FETTLE_STATIC_ROOT": str(code / "staticfiles"), "DJANGO_SETTINGS_MODULE": "config.settings"}  # fmt: skip

    def run(*words: str) -> str:
        done = subprocess.run(words, cwd=code, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("python", "-c", "import fleet; print(fleet.__path__[0])").startswith(str(code))
    run("python", "manage.py", "check")
    assert "--port" in run("python", "-m", "config.web", "--help")
    assert "worker" in run("python", "-m", "celery", "-A", "config", "--help")
    assert "--replay" in run("python", "-m", "cli", "agent", "--help")
    assert (code / "staticfiles" / "admin").is_dir()
    assert (code / "dist" / "fettle-agent.pyz").stat().st_size > 1_000_000
    assert not (packages / "bin" / "pip").exists()
