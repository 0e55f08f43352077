"""What starts with a web process ends with it."""

import asyncio
from typing import Any

from config.lifespan import lifespan


class Recorded:
    """A service that notes what happens to it; it may be one that cannot start, or does not end well."""

    def __init__(self, name: str, notes: list[str], starts: bool = True, ends: bool = True) -> None:
        self.name, self.notes, self.starts, self.ends = name, notes, starts, ends

    def start(self) -> None:
        """Begin."""
        if not self.starts:
            raise ValueError(f"{self.name} cannot start")
        self.notes.append(f"{self.name} starts")

    async def stop(self) -> None:
        """End."""
        self.notes.append(f"{self.name} stops")
        if not self.ends:
            raise ValueError("badly")


def played(services: list[Recorded]) -> list[str]:
    """What the application answers to a start and an end."""

    async def play() -> list[str]:
        waiting = ["lifespan.startup", "lifespan.shutdown"]
        sent: list[str] = []

        async def receive() -> dict[str, Any]:
            return {"type": waiting.pop(0)}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message["type"])

        await lifespan(services)({"type": "lifespan"}, receive, send)
        return sent

    return asyncio.run(play())


def test_services_end_in_the_other_order() -> None:
    """The last that started ends first, and one that ends badly does not keep the others from ending."""
    notes: list[str] = []
    sent = played([Recorded("a", notes), Recorded("b", notes, ends=False)])

    assert notes == ["a starts", "b starts", "b stops", "a stops"]
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_a_service_that_cannot_start_stops_the_server() -> None:
    """The server is told that the start failed, and says why."""
    assert played([Recorded("a", [], starts=False)]) == ["lifespan.startup.failed"]
