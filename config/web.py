"""The web server's command line, one for `manage.py up`, the tests and the benchmarks: what is measured is what runs."""

import argparse
import logging
import os
import signal
import sys
from types import FrameType
from typing import Final

from wire.codec import MAX_SOCKET_BYTES

CLOSE_S: Final = 4
"""Seconds that requests and sockets have to end after SIGTERM."""
ENDS_S: Final = 15
"""Seconds after SIGTERM by which a web process has ended by itself, whatever it waits for. Who stops one gives it more."""


def arguments(host: str, port: int, log_level: str = "warning") -> list[str]:
    """Those of uvicorn with Fettle's application."""
    return [
        "config.asgi:application", "--host", host, "--port", str(port),
        "--ws", "config.websocket:WebSocket", "--ws-max-size", str(MAX_SOCKET_BYTES), "--ws-per-message-deflate", "false",
        "--log-level", log_level, "--no-access-log", "--timeout-graceful-shutdown", str(CLOSE_S),
    ]  # fmt: skip


def command(host: str, port: int, log_level: str = "warning") -> list[str]:
    """The command line of one web process; it ends ENDS_S after SIGTERM at the latest, with code 0."""
    return [sys.executable, "-m", "config.web", "--host", host, "--port", str(port), "--log-level", log_level]


def main(argv: list[str]) -> None:
    """Run that web server: `python -m config.web --host 0.0.0.0`."""
    parser = argparse.ArgumentParser(prog="python -m config.web", description="Run one web process of Fettle in the foreground.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; anything but loopback opens it to the network")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--log-level", default="warning", choices=("critical", "error", "warning", "info", "debug"))
    options = parser.parse_args(argv)
    import uvicorn  # here: `manage.py up` needs the command line alone

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    uvicorn.main(arguments(options.host, options.port, options.log_level))


def _end(number: int, frame: FrameType | None) -> None:
    """End now. uvicorn raises the signal again when all has stopped; a thread that waits for a server that hangs is not waited for."""
    del number, frame
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
