"""Samples of the time before this process: what it, or another owner, has written beside the log for dumps that are not over.

They are read once, in a thread of their own, so that no page waits for the storage. Until then, and where it does not answer, a chart
begins with this process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

from sidecar.report.samples import ThinnedSamples
from sidecar.run.log_event import LogEvent
from sidecar.run.logs import say
from sidecar.run.samples import DAY_MS, Samples
from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.log.certificate_parts import SampleLine, read_samples
from sidecar.shared.log.storage import Folder
from sidecar.shared.process.background import Background

PARTS_MAX = 500
"""Of a dump: hours of it, as a part is written every twenty seconds."""


class PastSamples:
    """Any thread."""

    def __init__(self, log: Folder, samples: Samples, log_line: Callable[[LogEvent], object] = say) -> None:
        self._log, self._samples, self._log_line = log, samples, log_line
        self._lock = Lock()
        self._reading: Background | None = None
        self._past: Sequence[SampleLine] = ()

    def of_a_day(self) -> list[SampleLine]:
        """Of a day, with those of this process. Oldest first. Raises a defect of reading them."""
        known = self._samples.day()
        if not known:
            return []
        with self._lock:
            if self._reading is None:
                self._reading = Background(lambda _: self._read(known[0].at_ms), name="past samples")
        self._reading.check()
        return [*(one for one in self._past if known[-1].at_ms - DAY_MS < one.at_ms < known[0].at_ms), *known]

    def _read(self, begins_ms: int) -> None:
        thinned = ThinnedSamples()
        try:
            for _ in thinned.passed(read_samples(self._log, begins_ms - DAY_MS, parts_max=PARTS_MAX)):
                pass
        except TicdcDumpError as error:
            self._log_line(LogEvent("no samples of before", {"reason": str(error), "hint": "charts begin with this process"}, "warning"))
        self._past = thinned.kept()
