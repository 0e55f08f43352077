"""Threads for what the event loop cannot wait for itself, which is the look-up of names: a resolver that hangs holds no end up."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Lookups(ThreadPoolExecutor):
    """A loop's default executor. Its shutdown waits for nobody: who sees `is_busy` then has to end the process without its threads."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="lookup")
        self._under_way: set[Future[object]] = set()

    @property
    def is_busy(self) -> bool:
        """True while a call has not come back: the interpreter's own exit would wait for it."""
        return bool(self._under_way)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future = super().submit(fn, *args, **kwargs)
        self._under_way.add(future)  # type: ignore[arg-type]  # whatever it brings
        future.add_done_callback(self._under_way.discard)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=True)
