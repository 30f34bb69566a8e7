"""The samples of a dump, of which a report needs no more than a picture can show, however long the dump took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sidecar.shared.log.certificate_parts import Line, SampleLine

KEPT_MAX = 8192
"""Four and a half hours, a sample every two seconds. Even: they are halved."""


class ThinnedSamples:
    """Of as many samples in a row, always the same number, the one with the slowest live delivery: so the slowest of all is among them, and
    the distance of two is as regular as it was."""

    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._kept: list[SampleLine] = []
        self._row: list[SampleLine] = []
        self._each = 1

    def passed(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines, of which samples are added as they pass. Two owners may have written the same moment: each counts."""
        for line in lines:
            if isinstance(line, SampleLine):
                self._add(line)
            yield line

    def _add(self, sample: SampleLine) -> None:
        self._row.append(sample)
        if len(self._row) < self._each:
            return
        self._kept.append(slowest(self._row))
        self._row = []
        if len(self._kept) >= self._kept_max:
            self._kept = [slowest(pair) for pair in zip(self._kept[::2], self._kept[1::2], strict=True)]
            self._each *= 2

    def kept(self) -> list[SampleLine]:
        """Oldest first."""
        last = [slowest(self._row)] if self._row else []
        return sorted([*self._kept, *last], key=lambda one: one.at_ms)


def slowest(samples: Iterable[SampleLine]) -> SampleLine:
    """The one whose live delivery takes longest."""
    return max(samples, key=lambda one: max((sink.live_s for sink in one.sinks), default=0.0))
