"""Debian's real Alertmanager, for tests."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fleet.store.servers import Program, running
from tests.serving import free_port


class Alertmanager(Program):
    """The server, and what it says of its alerts."""

    def alerts(self) -> list[dict[str, Any]]:
        """Those that fire."""
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts?active=true", timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found


@contextmanager
def alertmanager(folder: Path, webhook: str = "http://127.0.0.1:9/", *flags: str) -> Iterator[Alertmanager]:
    """A running Alertmanager that tells `webhook` at once of what begins and ends."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "alertmanager.yml"
    config.write_text(
        "route: {receiver: hook, group_by: ['...'], group_wait: 0s, group_interval: 1s}\n"
        f"receivers: [{{name: hook, webhook_configs: [{{url: '{webhook}', send_resolved: true}}]}}]\n"
    )
    port = free_port()
    command = [
        "prometheus-alertmanager",
        f"--config.file={config}",
        f"--storage.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
        *flags,
    ]
    with running(Alertmanager(command, port, folder / "alertmanager.log", "/-/ready")) as program:
        assert isinstance(program, Alertmanager)
        yield program
