"""The web server's command line, one for `manage.py up`, the tests and the benchmarks: what is measured is what runs."""

import sys

from wire.codec import MAX_SOCKET_BYTES


def command(host: str, port: int, log_level: str = "warning") -> list[str]:
    """uvicorn with Fettle's application; it ends four seconds after SIGTERM at the latest."""
    return [
        sys.executable, "-m", "uvicorn", "config.asgi:application", "--host", host, "--port", str(port),
        "--ws", "websockets-sansio", "--ws-max-size", str(MAX_SOCKET_BYTES), "--ws-per-message-deflate", "false",
        "--log-level", log_level, "--no-access-log", "--timeout-graceful-shutdown", "4",
    ]  # fmt: skip
