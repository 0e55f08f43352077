"""What a worker says of memory is said in time."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from config import up
from tests.serving import ROOT


def ran(code: str, **more: str) -> list[str]:
    """The words that a new process prints, which knows nothing of the allocator but what `more` says."""
    env = {name: value for name, value in os.environ.items() if name != "_RJEM_MALLOC_CONF"}
    return subprocess.run([sys.executable, "-c", code], env=env | more, check=True, capture_output=True, text=True).stdout.split()


def test_the_allocator_is_told_before_polars_reads_it() -> None:
    """In the judging worker, whose own word for it counts more."""
    code = "import os, sys, config.worker; print('polars' in sys.modules, os.environ['_RJEM_MALLOC_CONF'])"

    assert ran(code) == ["False", "narenas:1,dirty_decay_ms:60000,muzzy_decay_ms:60000"]
    assert ran(code, _RJEM_MALLOC_CONF="narenas:4") == ["False", "narenas:4"]


def test_it_is_the_judging_worker_that_runs_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On one machine and on a site: the command that takes the default queue, and no other."""
    commands = [service["command"] for service in yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].values()
                if "celery" in service.get("command", [])]  # fmt: skip
    by_queue = {
        words[words.index("--queues") + 1] if "--queues" in words else "": words[words.index("-A") + 1] for words in commands
    }
    monkeypatch.setenv("FETTLE_DATA", str(tmp_path))
    started = Started()
    up._start_server(started, argparse.Namespace(host="127.0.0.1", port=8000))  # type: ignore[arg-type] # what is started is noted

    assert by_queue == {"celery": "config.worker", "notify": "config", "": "config"}
    assert started.application == {"worker": "config.worker", "messenger": "config", "beat": "config"}


class Started:
    """Notes what a supervisor is to start."""

    def __init__(self) -> None:
        self.application: dict[str, str] = {}

    def start(self, name: str, command: list[str]) -> None:
        """Note a Celery program's application."""
        if "-A" in command:
            self.application[name] = command[command.index("-A") + 1]


def test_a_web_process_gives_memory_back(tmp_path: Path) -> None:
    """It judges nothing: with Polars loaded, nobody has told the allocator anything but Polars itself."""
    code = "import os, sys, config.asgi; print('polars' in sys.modules, os.environ.get('_RJEM_MALLOC_CONF'))"
    is_loaded, told = ran(code, FETTLE_DEBUG="1", FETTLE_DATA=str(tmp_path), DJANGO_SETTINGS_MODULE="config.settings")

    assert is_loaded == "True"
    assert "narenas" not in told
    assert "60000" not in told


def test_a_new_child_leaves_what_was_imported_alone() -> None:
    """The collector does not look at it again; in a process of its own, for what is frozen is never freed."""
    code = "import gc; from config.celery import settle; settle(); print(gc.get_freeze_count() > 0)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "True\n"
