"""Work beside the thread that owns it, and one policy for what goes wrong there: it is kept, and the owner raises it.

    work = Background(self._run, name="what it does")     self._run(ending): until ending.is_set(), or until it is done
    work.check()                                          in the owner's loop
    work.close()                                          sets `ending`, and waits

- Whatever ends `work` with an exception is raised by `check`, as it is and each time: the owner retries or stops after one of ours; nobody
  catches an unknown one, so that it ends the term and says so (P6). No failure is lost.
- `work` handles what it can continue after; what it lets out ends it.
- The work has the context of the thread that begins it: it reports progress to the same watch (progress.py).
- The threads are daemons: one that does not end within `close`'s time is left behind, and reports nothing any more.

It must not know what the work is, nor which errors pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import copy_context
from threading import Event, Thread


class Background:
    """Begins at once. `close` and `check` may be called by any thread, and again."""

    def __init__(self, work: Callable[[Event], object], *, name: str) -> None:
        self._work = work
        self._ending = Event()
        self._error: BaseException | None = None
        self._thread = Thread(target=copy_context().run, args=(self._run,), name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """False once the work has ended; what it ended with is known then."""
        return self._thread.is_alive()

    def check(self) -> None:
        """Raises what the work ended with, if that is an exception."""
        if self._error is not None:
            raise self._error

    def tell(self) -> None:
        """Tell it to end."""
        self._ending.set()

    def close(self, timeout_s: float | None = None) -> None:
        """Tell it to end, and wait until it has, no longer than `timeout_s`. Raises nothing: see `check`."""
        self.tell()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            self._work(self._ending)
        except BaseException as error:  # noqa: BLE001  # kept for the owner, whatever it is
            self._error = error


def still_running(every: Iterable[Background]) -> list[Background]:
    """Those that have not ended yet. Raises what any other ended with."""
    left = []
    for one in every:
        alive = one.alive
        one.check()
        left += [one] if alive else []
    return left
