"""Services beside the pipeline, and one rule for them: whatever ends one of them ends nothing else, and delays nothing.

    services.serve("verifications", life)      life(ending): all that it does, from taking over what is there to the end of the term

- Each one lives in a thread of its own: what it waits for, the pipeline does not wait for.
- What its life raises, a defect too, is its last error. It is logged once, and the service begins again after a pause, which doubles with
  each failure and is short again after a long life.
- A term that ends stops them, and leaves behind what does not end within CLOSE_S. A thread left behind writes nothing that counts: what it
  writes is fenced as all else is, or is of no other's concern.

Not for what the stream cannot do without: the merge worker, its reports, the watch over the changefeed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Event, Lock
from time import monotonic

from sidecar.control.status import ServiceStatus
from sidecar.run.log_event import LogEvent
from sidecar.run.logs import log, say
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.process.background import Background

PAUSE_FIRST_S, PAUSE_MAX_S = 1.0, 60.0
LONG_LIFE_S = 120.0
CLOSE_S = 1.0

Life = Callable[[Event], object]


class Services:
    """Of one term. For any thread."""

    def __init__(self, *, log_line: Callable[[LogEvent], object] = say, now_s: Callable[[], float] = monotonic) -> None:
        self._log_line, self._now_s = log_line, now_s
        self._lock = Lock()
        self._states: dict[str, ServiceStatus] = {}
        self._began_s: dict[str, float] = {}
        self._until_s: dict[str, float] = {}
        self._threads: list[Background] = []

    def serve(self, name: str, life: Life) -> None:
        """Begins at once, in a thread of its own. Raises nothing of what it does."""
        self._put(ServiceStatus(name))
        self._threads.append(Background(lambda ending: self._serve(name, life, ending), name=name))

    def spare(self, name: str, work: Callable[[], object]) -> None:
        """Quick work in the pipeline's thread that the stream does not depend on. Its errors are the service's, and not raised."""
        try:
            work()
        except Exception as error:  # noqa: BLE001  # as of a life
            if name not in self._states:
                self._put(ServiceStatus(name))
            self._began_s[name] = self._now_s()
            self._failed(name, error, 0.0)
            self._until_s.pop(name, None)

    def states(self) -> tuple[ServiceStatus, ...]:
        with self._lock:
            now_s = self._now_s()
            return tuple(self._as_of(state, now_s) for state in self._states.values())

    def close(self) -> None:
        for thread in self._threads:
            thread.tell()
        until_s = monotonic() + CLOSE_S
        for thread in self._threads:
            thread.close(max(until_s - monotonic(), 0.0))

    def _serve(self, name: str, life: Life, ending: Event) -> None:
        pause_s = PAUSE_FIRST_S
        while not ending.is_set():
            began_s = self._now_s()
            self._began_s[name] = began_s
            try:
                life(ending)
            except Exception as error:  # noqa: BLE001  # whatever it is: it ends this life and nothing else
                if ending.is_set():
                    return
                pause_s = PAUSE_FIRST_S if self._now_s() - began_s > LONG_LIFE_S else pause_s
                self._failed(name, error, pause_s)
                ending.wait(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
                self._until_s.pop(name, None)
            else:
                return

    def _failed(self, name: str, error: Exception, pause_s: float) -> None:
        ours = isinstance(error, TicdcDumpError)
        text = str(error) if ours else f"a defect: {error!r}"
        with self._lock:
            before = self._states[name]
            self._until_s[name] = self._now_s() + pause_s
            self._states[name] = replace(before, error=text, failures=before.failures + 1)
        if text == before.error:
            return
        if not ours:
            log.warning("a defect in a service beside the stream", service=name, exc_info=error)
        hint = (
            "the stream continues; the service begins again automatically" if ours else "the stream continues; report this with the trace"
        )
        self._log_line(LogEvent("service failed", {"service": name, "text": text, "hint": hint}, "warning"))

    def _as_of(self, state: ServiceStatus, now_s: float) -> ServiceStatus:
        until_s = self._until_s.get(state.name)
        if until_s is not None:
            return replace(state, again_s=max(until_s - now_s, 0.001))
        lived_s = now_s - self._began_s.get(state.name, now_s)
        return replace(state, error="") if lived_s > LONG_LIFE_S else state

    def _put(self, state: ServiceStatus) -> None:
        with self._lock:
            self._states[state.name] = state
