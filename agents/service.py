"""What the agent tells systemd, over the socket that it names: ready, alive, stopping. Elsewhere nothing happens."""

import contextlib
import os
import socket


class Service:
    """The service manager's ear. `environment` as systemd sets it: NOTIFY_SOCKET, WATCHDOG_USEC."""

    def __init__(self, environment: "dict[str, str] | os._Environ[str]" = os.environ) -> None:
        self._address = environment.pop("NOTIFY_SOCKET", "")  # for this process alone, not for its children
        self._is_ready = False
        self._wants_watchdog = bool(environment.pop("WATCHDOG_USEC", ""))

    def ticked(self) -> None:
        """A tick has ended: ready with the first one, alive with each."""
        if not self._is_ready:
            self._is_ready = True
            self.tell("READY=1")
        if self._wants_watchdog:
            self.tell("WATCHDOG=1")

    def stopping(self) -> None:
        """The end has begun."""
        self.tell("STOPPING=1")

    def tell(self, state: str) -> None:
        """Send one line; a manager that does not listen is no reason to stop."""
        if not self._address.startswith(("/", "@")):
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as ear:
            ear.setblocking(False)
            ear.sendto(state.encode(), address)
