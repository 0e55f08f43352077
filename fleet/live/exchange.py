"""Live readings across processes: each asks the others, once a second, for their part of what its browsers look at.

Over Redis pub/sub: one question names the views, every process that listens answers with the frames of its own ring. The
broker says how many heard the question, so with one process nobody waits, and with several nobody waits for longer than
the slowest answer or PATIENCE_S. Live views alone rest on it: while the broker is away a page shows what its own process has.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
import redis.asyncio
from redis.exceptions import RedisError

from fleet.live.payloads import Frame

CHANNEL: Final = "fettle:live"
PATIENCE_S: Final = 0.5
BROKER_S: Final = 1.0
LEAVE_S: Final = 0.5
"""Each of two steps of a stop takes no longer."""
LISTEN_AGAIN_S: Final = 5.0
QUIET_S: Final = 30.0

logger = logging.getLogger(__name__)


class View(msgspec.Struct, frozen=True):
    """What a page looks at; `id` is 0 for the fleet."""

    kind: Literal["fleet", "node", "gpu"]
    id: int = 0


class Question(msgspec.Struct):
    """Sent to all: the views, and for which of them the history is wanted too."""

    sender: str
    number: int
    views: list[View]
    with_history: list[bool]


class Answer(msgspec.Struct):
    """Sent to who asked: a frame for each view, None where this process knows nothing of it."""

    number: int
    frames: list[dict[str, Any] | None]


@dataclass(slots=True)
class _Asked:
    number: int
    missing: int | None  # None until the broker has said how many heard it
    answers: list[Answer]
    complete: asyncio.Event


class Exchange:
    """Used on the event loop alone. `build` makes this process's frame of a view, None when it has nothing of it."""

    def __init__(self, url: str, build: Callable[[View, bool], Frame | None]) -> None:
        self._url = url
        self._build = build
        self._me = uuid.uuid4().hex
        self._client: redis.asyncio.Redis | None = None
        self._listening: asyncio.Task[None] | None = None
        self._hears = False
        self._fails = False
        self._wondered = False
        self._asked: _Asked | None = None
        self._turn = asyncio.Lock()
        self._number = 0

    def start(self) -> None:
        """Begin to listen; call on the event loop."""
        self._client = redis.asyncio.Redis.from_url(
            self._url, socket_timeout=BROKER_S, socket_connect_timeout=BROKER_S, health_check_interval=QUIET_S
        )
        self._listening = asyncio.get_running_loop().create_task(self._listen(), name="live-exchange")

    async def stop(self) -> None:
        """End."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening], timeout=LEAVE_S)
        if self._client is not None:
            with contextlib.suppress(RedisError, OSError):  # a timeout is an OSError too
                await asyncio.wait_for(self._client.aclose(), LEAVE_S)
        self._client = self._listening = None

    async def ask(self, views: Sequence[View], with_history: Sequence[bool]) -> list[list[Frame]]:
        """The others' frames of each view, in the order of `views`; what does not come in time is left out."""
        found: list[list[Frame]] = [[] for _ in views]
        if self._client is None or not self._hears or not views:
            return found
        async with self._turn:
            self._number += 1
            asked = self._asked = _Asked(self._number, None, [], asyncio.Event())
            question = Question(self._me, asked.number, list(views), list(with_history))
            try:
                heard = await self._client.publish(CHANNEL, msgspec.msgpack.encode(question))
            except (RedisError, OSError) as error:
                self._failed(error)
                return found
            asked.missing = heard - 1 - len(asked.answers)  # one of those who heard it is this process
            if asked.missing > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asked.complete.wait(), PATIENCE_S)
            self._asked = None
        for answer in asked.answers:
            for place, frame in enumerate(answer.frames[: len(views)]):
                if frame is not None:
                    found[place].append(frame)
        return found

    async def _listen(self) -> None:
        while True:
            try:
                await self._hear()
            except (RedisError, OSError) as error:
                self._failed(error)
            except Exception:
                logger.exception("Live views show the nodes of one process alone for a while")
            finally:
                self._hears = False
            await asyncio.sleep(LISTEN_AGAIN_S)

    async def _hear(self) -> None:
        client = redis.asyncio.Redis.from_url(self._url, socket_connect_timeout=BROKER_S, health_check_interval=QUIET_S)
        async with client, client.pubsub() as pubsub:
            await pubsub.subscribe(CHANNEL, self._channel(self._me))
            while True:
                message = await pubsub.get_message(timeout=QUIET_S)
                if message is None:
                    continue
                if message["type"] == "subscribe":
                    self._hears = True
                    if self._fails:
                        logger.info("The broker answers: live views show the nodes of all processes again")
                    self._fails = False
                else:
                    await self._understand(message)

    async def _understand(self, message: dict[str, Any]) -> None:
        """Answer a question or take an answer. Anybody may publish on the channels: what is neither is passed over, said once."""
        try:
            if message["channel"] == CHANNEL.encode():
                await self._answer(msgspec.msgpack.decode(message["data"], type=Question))
            else:
                self._take(msgspec.msgpack.decode(message["data"], type=Answer))
        except (RedisError, OSError):
            raise
        except Exception as error:
            log = logger.debug if self._wondered else logger.warning
            self._wondered = True
            log(
                "A message on %s is passed over (more of these are told in debug logs alone): %r",
                message["channel"].decode(),
                error,
                exc_info=not isinstance(error, msgspec.MsgspecError),
            )

    async def _answer(self, question: Question) -> None:
        if question.sender == self._me or self._client is None:
            return
        wanted = zip(question.views, question.with_history, strict=True)
        answer = Answer(question.number, [self._build(view, with_history) for view, with_history in wanted])
        await self._client.publish(self._channel(question.sender), msgspec.msgpack.encode(answer))

    def _take(self, answer: Answer) -> None:
        asked = self._asked
        if asked is None or answer.number != asked.number:
            return  # too late
        asked.answers.append(answer)
        if asked.missing is not None:
            asked.missing -= 1
            if asked.missing <= 0:
                asked.complete.set()

    def _failed(self, error: Exception) -> None:
        if not self._fails:
            logger.warning("The broker does not answer; live views show the nodes of one process alone: %s", error)
        self._fails = True

    @staticmethod
    def _channel(process: str) -> str:
        return f"{CHANNEL}:{process}"
