"""The few threads that ingest lends work to; the event loop itself touches neither database nor disk."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import close_old_connections, connections

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """One thread for the database, one for making columns, one for the store, one for the broker: none waits for another."""

    def __init__(self) -> None:
        self._database = ThreadPoolExecutor(1, "ingest-database")
        self._columns = ThreadPoolExecutor(1, "ingest-columns")
        self._store = ThreadPoolExecutor(1, "ingest-store")
        self._broker = ThreadPoolExecutor(1, "ingest-broker")

    async def database(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The call's result, from the thread that owns ingest's database connection."""
        return await _run(self._database, _with_fresh_connection, call, *args, **kwargs)

    async def columns(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The call's result, from the thread that makes columns."""
        return await _run(self._columns, call, *args, **kwargs)

    async def store(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The call's result, from the thread that writes the store; it has a database connection of its own."""
        return await _run(self._store, _with_fresh_connection, call, *args, **kwargs)

    async def broker(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The call's result, from the thread that talks to the broker."""
        return await _run(self._broker, call, *args, **kwargs)

    def close(self) -> None:
        """Let running calls end; the broker's is not waited for."""
        for executor in (self._store, self._database):
            executor.submit(connections.close_all)  # each thread has its own, which nobody else could close
        for executor in (self._columns, self._store, self._database):
            executor.shutdown(wait=True)
        self._broker.shutdown(wait=False, cancel_futures=True)


async def _run(executor: ThreadPoolExecutor, call: Callable[..., T], *args: object, **kwargs: object) -> T:
    return await asyncio.get_running_loop().run_in_executor(executor, lambda: call(*args, **kwargs))


def _with_fresh_connection(call: Callable[..., T], *args: object, **kwargs: object) -> T:
    close_old_connections()
    try:
        return call(*args, **kwargs)
    finally:
        close_old_connections()
