"""Debian's Alertmanager tells a real server of an alert that begins and ends."""

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleet.accounts.models import digest
from tests.serving import NOW, Server, eventually, free_port, serve

PROGRAM = shutil.which("prometheus-alertmanager")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(PROGRAM is None, reason="needs Debian's prometheus-alertmanager")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A running server with a node and an operator's token."""
    with serve(tmp_path / "data") as running:
        running.execute(
            "INSERT INTO accounts_user (username, password, is_superuser, is_staff, is_active, first_name, last_name, email, date_joined)"
            " VALUES ('am', '', 1, 0, 1, '', '', '', ?)",
            NOW,
        )
        running.execute(
            "INSERT INTO accounts_apitoken (digest, created_at, name, may_write, scopes, user_id)"
            " VALUES (?, ?, 'am', 0, '[\"events\"]', (SELECT id FROM accounts_user WHERE username = 'am'))",
            digest("secret"), NOW,
        )  # fmt: skip
        yield running


@pytest.fixture
def alertmanager(server: Server, tmp_path: Path) -> Iterator[str]:
    """Its address; it sends everything to the server, at once."""
    (tmp_path / "am.yml").write_text(
        json.dumps(
            {
                "route": {"receiver": "fettle", "group_wait": "0s", "group_interval": "1s", "repeat_interval": "1h"},
                "receivers": [
                    {
                        "name": "fettle",
                        "webhook_configs": [
                            {
                                "url": f"http://127.0.0.1:{server.port}/api/v1/alertmanager/",
                                "send_resolved": True,
                                "http_config": {"authorization": {"credentials": "secret"}},
                            }
                        ],
                    }
                ],
            }
        )
    )
    port = free_port()
    assert PROGRAM is not None
    command = [
        PROGRAM, f"--config.file={tmp_path / 'am.yml'}", f"--storage.path={tmp_path / 'am'}", f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]  # fmt: skip
    with (tmp_path / "am.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(20)


def push(address: str, **more: Any) -> bool:
    """Tell Alertmanager of two alerts: one, and one of our own that comes back."""
    starts = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    both = [
        {
            "labels": {"alertname": "DiskFull", "severity": "page", **labels},
            "annotations": {"summary": "full"},
            "startsAt": starts,
            **more,
        }
        for labels in ({"instance": "n1:9100"}, {"source": "fettle"})
    ]
    request = urllib.request.Request(f"{address}/api/v2/alerts", json.dumps(both).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_an_alert_begins_and_ends(server: Server, alertmanager: str) -> None:
    """What it sends is taken as it sends it: a finding that fires, and that its resolved message ends."""
    found = "SELECT rule, severity, condition FROM findings_finding"
    assert eventually(lambda: push(alertmanager), 30)
    assert eventually(lambda: server.rows(found), 30)
    assert server.rows(found) == [{"rule": "told-by-alertmanager", "severity": "critical", "condition": "firing"}]
    assert eventually(lambda: server.refusals("") == {"alertmanager_loop": 1}, 30)  # each alert comes in a message of its own

    assert push(alertmanager, endsAt=datetime.now(UTC).isoformat())
    assert eventually(lambda: server.rows(found)[0]["condition"] == "resolved", 30)
