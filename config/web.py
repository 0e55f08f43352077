"""The web server's command line, one for `manage.py up`, the tests and the benchmarks: what is measured is what runs."""

import argparse
import os
import sys

from wire.codec import MAX_SOCKET_BYTES


def command(host: str, port: int, log_level: str = "warning") -> list[str]:
    """uvicorn with Fettle's application; it ends four seconds after SIGTERM at the latest."""
    return [
        sys.executable, "-m", "uvicorn", "config.asgi:application", "--host", host, "--port", str(port),
        "--ws", "config.websocket:WebSocket", "--ws-max-size", str(MAX_SOCKET_BYTES), "--ws-per-message-deflate", "false",
        "--log-level", log_level, "--no-access-log", "--timeout-graceful-shutdown", "4",
    ]  # fmt: skip


def main(argv: list[str]) -> None:
    """Become that web server: `python -m config.web --host 0.0.0.0`."""
    parser = argparse.ArgumentParser(prog="python -m config.web", description="Run one web process of Fettle in the foreground.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; anything but loopback opens it to the network")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--log-level", default="warning", choices=("critical", "error", "warning", "info", "debug"))
    options = parser.parse_args(argv)
    words = command(options.host, options.port, options.log_level)
    os.execv(words[0], words)  # noqa: S606 - our own server, without a shell between


if __name__ == "__main__":
    main(sys.argv[1:])
