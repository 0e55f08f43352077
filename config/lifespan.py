"""The ASGI lifespan: what starts with a web process and ends with it."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

logger = logging.getLogger(__name__)


class Service(Protocol):
    """Something that runs beside the requests."""

    def start(self) -> None:
        """Begin; called on the event loop."""

    async def stop(self) -> None:
        """End, and return when it has."""


def lifespan(services: Sequence[Service]) -> Callable[..., Awaitable[None]]:
    """The lifespan application: `services` start in order before the first request is taken, and end the other way round.

    uvicorn closes the sockets before it calls for the end.
    """

    async def application(
        scope: dict[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]], send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        del scope
        started: list[Service] = []
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    for service in services:
                        service.start()
                        started.append(service)
                except Exception as error:
                    logger.exception("The server cannot start")
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                for service in reversed(started):
                    try:
                        await service.stop()
                    except Exception:
                        logger.exception("%s does not end well", type(service).__name__)
                await send({"type": "lifespan.shutdown.complete"})
                return

    return application
