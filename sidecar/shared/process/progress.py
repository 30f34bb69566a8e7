"""How work reports that it proceeds, to a watch that ends what hangs (delivery/watchdog.py). The work does not know who watches.

    with watched_by(watch): …     what this thread does in the block belongs to `watch`
    progressed()                  a step is done: an answer came, a file is written
    with may_take(seconds): …     a call that ends by its own timeout, which may be longer than the watch waits without progress

- Without a watch both calls do nothing.
- A thread does not inherit the watch of the thread that starts it. `Background` and `side_by_side` pass it on; so a sink's threads
  report for the task that they belong to.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol


class Watch(Protocol):
    """For several threads at once."""

    def progressed(self) -> None:
        """Cheap: it may be called for each row."""

    def may_take(self, seconds: float) -> AbstractContextManager[None]: ...


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched_by(watch: Watch) -> Iterator[None]:
    before = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(before)


def progressed() -> None:
    if (watch := _watch.get()) is not None:
        watch.progressed()


def may_take(seconds: float) -> AbstractContextManager[None]:
    """The end of the block is progress, however it ends: a call that has failed does not hang."""
    watch = _watch.get()
    return nullcontext() if watch is None else watch.may_take(seconds)


def side_by_side(at_once: int) -> ThreadPoolExecutor:
    """Threads that belong to the watch of this one."""
    return ThreadPoolExecutor(at_once, initializer=_watch.set, initargs=(_watch.get(),))
