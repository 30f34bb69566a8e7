"""What a puller delivered, held against a history while it comes."""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.ports import Puller
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry, Pulled
from tests.support.tikv.recorded import History


class Reader:
    """Polls `puller` for `wanted`. Fails at once where a `Pulled` passes an entry that did not come, or an entry is not the history's."""

    def __init__(self, puller: Puller, history: History, wanted: Mapping[KeyRange, CommitTs]) -> None:
        self._puller, self.wanted = puller, wanted
        self.expected = {range_: history.writes(range_, from_ts) for range_, from_ts in wanted.items()}
        self.missing = {range_: set(entries) for range_, entries in self.expected.items()}
        self.repeats = 0
        self.events = 0
        self._parts = {range_: [(range_, from_ts)] for range_, from_ts in wanted.items()}

    def want_no_more(self, range_: KeyRange) -> None:
        """From now on any event of it is a failure."""
        self.wanted = {other: ts for other, ts in self.wanted.items() if other != range_}
        self.expected.pop(range_)
        self.missing.pop(range_)
        self._parts.pop(range_)
        self._puller.want(self.wanted)

    def poll(self, *, timeout_s: float = 0.02) -> int:
        """How many events came."""
        events = self._puller.poll(timeout_s=timeout_s)
        for event in events:
            self.events += 1
            if isinstance(event, Pulled):
                self._pulled(event)
            else:
                self._entry(event)
        return len(events)

    def frontier(self) -> CommitTs:
        """Up to where all of it is complete."""
        return min(ts for parts in self._parts.values() for _, ts in parts)

    def _entry(self, entry: KvEntry) -> None:
        whole = next(range_ for range_ in self.wanted if entry.key in range_)
        bare = entry._replace(region=0)
        assert bare in self.expected[whole], f"{entry} was never written after {self.wanted[whole]}"
        assert entry.region, "no region is sent"
        self.repeats += bare not in self.missing[whole]
        self.missing[whole].discard(bare)

    def _pulled(self, pulled: Pulled) -> None:
        whole = next(range_ for range_ in self.wanted if pulled.range.start in range_)
        assert pulled.range.end <= whole.end, f"{pulled} is no part of {whole}"
        passed = [it for it in self.missing[whole] if it.commit_ts <= pulled.upto_ts and it.key in pulled.range]
        assert not passed, f"{pulled} passes {len(passed)} entries that did not come, such as {passed[0]}"
        parts = []
        for part, ts in self._parts[whole]:
            start, end = max(part.start, pulled.range.start), min(part.end, pulled.range.end)
            if start >= end:
                parts.append((part, ts))
                continue
            if part.start < start:
                parts.append((KeyRange(part.start, start), ts))
            parts.append((KeyRange(start, end), max(ts, pulled.upto_ts)))
            if end < part.end:
                parts.append((KeyRange(end, part.end), ts))
        self._parts[whole] = parts
