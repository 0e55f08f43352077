"""The client's file, and what it has sent."""

import json
import socket
from pathlib import Path
from typing import Any, Final

SOURCE: Final = Path(__file__).resolve().parents[2] / "clients" / "fettle_report.py"


def got(agent: socket.socket) -> list[dict[str, Any]]:
    """Every datagram that waits."""
    found = []
    while True:
        try:
            found.append(json.loads(agent.recv(4096)))
        except BlockingIOError:
            return found
