"""Builds the agent's parts from its settings and runs them until SIGTERM or SIGINT."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from agents import lock, loop, one_heap, outputs
from agents.clock import Clock, RealClock
from agents.config import AgentConfig, ConfigError
from agents.lookups import Lookups
from agents.loop import NodeLoop, agent_version
from agents.sender import Sender
from agents.source import Source
from agents.spool import Spool, SpoolError, SpoolHeldError

log = logging.getLogger(__name__)

CLOSE_S: Final = 1.2
BYE_S: Final = 0.3
BYE_STEP_S: Final = 0.03
"""How long the parts have to end; the process is gone in less than two seconds."""


def run(config: AgentConfig) -> int:
    """0 after SIGTERM or SIGINT, 1 where another agent does this already; ConfigError when the settings do not make an agent."""
    if config.server is None:
        raise ConfigError("no server: give --server URL, or --once to print one tick.")
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("websockets").setLevel(logging.WARNING)
    one_heap.keep()
    clock = RealClock()
    try:
        held = outputs.hold(config, config.server)
        nodes = build(config, config.server, clock)
    except (lock.HeldError, SpoolHeldError) as error:
        sys.stderr.write(f"fettle agent: {error}\n")
        return 1
    except SpoolError as error:
        raise ConfigError(str(error)) from None
    if config.spool is None and not config.replay:
        log.info("Without --spool, what the server has not stored yet is lost when the agent ends.")
    gc.collect()
    gc.freeze()  # what is here by now stays: later collections need not look at it
    lookups, code = Lookups(), 0
    try:
        hangs = asyncio.run(_serve(nodes, clock, outputs.Outputs(config, config.server, nodes, held), lookups))
    except Exception:
        if not lookups.is_busy:
            raise
        log.critical("The agent ends over a defect.", exc_info=True)
        hangs, code = True, 1
    if hangs or lookups.is_busy:
        logging.shutdown()
        os._exit(code)  # a driver call or a resolver that never comes back would hold up the interpreter's own exit
    return code


def build(config: AgentConfig, server: str, clock: Clock) -> list[NodeLoop]:
    """The nodes that this process speaks for: this machine, or one for each recording."""
    nodes = []
    for name, source in sources(config):
        config.token(name)  # a missing token should be said at once, not at the first connection
        directory = None if config.spool is None else config.spool / name
        spool = Spool(directory, config.spool_max_mb * 1_000_000)
        sender = Sender(server, partial(config.token, name), spool, clock, as_text=config.wire == "json")
        nodes.append(NodeLoop(name, source, spool, sender, clock))
    return nodes


def sources(config: AgentConfig) -> Sequence[tuple[str, Source]]:
    """(node name, source) of every node."""
    if config.replay:
        from agents import replay

        return replay.nodes(config.replay, config.gpus, config.speed, run=os.getpid())
    from agents import drivers, engines, kernel_log
    from agents.capabilities import Capabilities
    from agents.collectors import pods
    from agents.machine import Machine
    from agents.reports import listening

    return [
        (
            config.node,
            Machine(
                drivers.chosen(config),
                config.proc,
                sys=config.sys,
                reports=listening(config),
                engines=engines.of(config),
                pods=pods.of(config),
                kernel_log=kernel_log.of(config),
                capabilities=Capabilities(None if config.spool is None else config.spool / "capabilities.json", agent_version()),
            ),
        )
    ]


async def _serve(nodes: Sequence[NodeLoop], clock: Clock, out: outputs.Outputs, lookups: Lookups) -> bool:
    """True when something hangs and only the process's end can end it."""
    stop = asyncio.Event()
    running = asyncio.get_running_loop()
    running.set_default_executor(lookups)
    await out.start()
    senders = [asyncio.create_task(node.sender.run()) for node in nodes if node.sender is not None]
    ticking = asyncio.create_task(loop.run(nodes, clock, stop, out.ticked))
    ended = asyncio.create_task(stop.wait())
    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, stop.set)
    for node in nodes:
        notify = getattr(node.source, "notify", None)
        if notify is not None:
            notify(_in_loop(running, node.tell_events))
    await asyncio.wait((ticking, ended, *senders), return_when=asyncio.FIRST_COMPLETED)
    tasks = (ticking, ended, *senders)
    out.stopping()
    failed = [task for task in tasks if task.done() and not task.cancelled() and task.exception() is not None]
    ticking.cancel()
    if stop.is_set():
        await _say_bye(nodes)
    for node in nodes:
        if node.sender is not None:
            node.sender.stop()
    closing: asyncio.Future[Any] = asyncio.gather(*(node.source.close() for node in nodes), return_exceptions=True)
    left: list[asyncio.Future[Any]] = [*senders, closing, asyncio.create_task(out.close())]
    await asyncio.wait(left, timeout=CLOSE_S / 2)
    for task in tasks:
        task.cancel()
    await asyncio.wait([*left, ticking, ended], timeout=CLOSE_S / 2)
    for node in nodes:
        node.spool.close()
    for task in failed:
        task.result()  # a defect: let it be seen
    return any(getattr(node.source, "hangs", False) for node in nodes)


async def _say_bye(nodes: Sequence[NodeLoop]) -> None:
    """Tell the server that this is no fault, and give it a moment to take it in."""
    for node in nodes:
        node.say_bye()
    for _ in range(round(BYE_S / BYE_STEP_S)):
        if all(node.was_heard for node in nodes):
            return
        await asyncio.sleep(BYE_STEP_S)


def _in_loop(running: asyncio.AbstractEventLoop, call: Callable[[], None]) -> Callable[[], None]:
    def soon() -> None:
        try:
            running.call_soon_threadsafe(call)
        except RuntimeError:
            log.debug("An event came after the end.")

    return soon
