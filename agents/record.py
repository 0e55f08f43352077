"""A recording of this machine, until a signal or a time limit."""

import asyncio
import logging
import signal
from pathlib import Path

from agents import drivers, recorder
from agents.machine import Machine
from wire.recording import Writer
from wire.sentence import Sentence, _


class RecordError(Exception):
    """There is nothing to record or nowhere to write; the message says what to do."""


def to_file(file: Path, hz: float, seconds: float | None) -> int:
    """Record into `file`; the number of samples. RecordError without a GPU or where the file cannot be written."""
    logging.getLogger("agents").addHandler(logging.NullHandler())  # what it would warn of is raised
    machine = Machine(drivers.of_this_machine(), deadline_s=min(0.7, 0.8 / hz), slow_s=recorder.SLOW_S)
    return asyncio.run(_record(machine, file, hz, seconds))


async def _record(machine: Machine, file: Path, hz: float, seconds: float | None) -> int:
    stop = asyncio.Event()
    running = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(number, stop.set)
    writer: Writer | None = None
    count = 0
    ended = asyncio.create_task(stop.wait())
    stream = recorder.samples(machine, hz)
    try:
        while not ended.done():
            following = asyncio.ensure_future(anext(stream))
            await asyncio.wait((following, ended), return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
                break
            sample = following.result()
            if not machine.inventory.gpus:
                raise RecordError(Sentence(_("no GPU was found: {why}"), why=machine.state_detail or machine.state))
            if writer is None:
                writer = Writer(file, recorder.header(machine, hz))
            writer.sample(sample)
            count += 1
            if seconds is not None and sample.t >= seconds - 0.5 / hz:
                break
    except OSError as error:
        raise RecordError(Sentence(_("{file}: cannot be written: {why}."), file=file, why=error.strerror or error)) from None
    finally:
        ended.cancel()
        if writer is not None:
            writer.close()
        await machine.close()
    return count
