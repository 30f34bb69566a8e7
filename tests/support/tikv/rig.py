"""A TiKV puller and a cluster that a test drives, one commit at a time: for the contract of all pullers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from unittest.mock import patch

from sidecar.feeds.tikv import gc as tikv_gc
from sidecar.feeds.tikv.puller import TikvPuller
from sidecar.shared.config import TikvSection
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry, KvEvent
from sidecar.shared.rowcodec.kv_matcher import COMMIT, PREWRITE
from tests.support.tikv.cluster import Cluster
from tests.support.tikv.recorded import History, LogRow
from tests.support.tikv.server import TikvServers

NAME = "contract"
OUTAGE_MAX_S = 5.0
RENEW_EVERY_S = 0.05
"""What is acknowledged reaches PD at the next renewal, a minute later outside of tests."""


class TikvRig:
    """`parts`: the ranges that advance alone, a region each. Entries come with `region`, whichever has them."""

    def __init__(self, held: ExitStack, *, parts: Sequence[KeyRange], region: int) -> None:
        held.enter_context(patch.object(tikv_gc, "RENEW_EVERY_S", RENEW_EVERY_S))
        self._cluster = _Reported(parts)
        self._servers = held.enter_context(TikvServers(self._cluster))
        self.puller = _OneRegion(self._servers.section(outage_max_s=OUTAGE_MAX_S), region)
        held.callback(self.puller.close)

    def commit(self, *entries: KvEntry) -> None:
        self._cluster.commit(entries)

    def resolve(self, upto_ts: int, within: KeyRange = KeyRange(b"", b"\xff")) -> None:  # noqa: B008  # a value
        self._cluster.resolve(upto_ts, within)

    def repeat(self, wanted: KeyRange) -> None:
        self._cluster.break_streams()

    def acknowledged(self, wanted: KeyRange, ts: int) -> bool:
        """Of the only range that is wanted."""
        return self._servers.safe_points.get(f"ticdc-dump-{NAME}".encode()) == ts - 1

    def outage(self) -> None:
        for store in self._cluster.stores:
            self._servers.stop_store(store)


class _OneRegion(TikvPuller):
    def __init__(self, section: TikvSection, region: int) -> None:
        super().__init__(section, name=NAME)
        self._region = region

    def poll(self, *, timeout_s: float) -> Sequence[KvEvent]:
        events = super().poll(timeout_s=timeout_s)
        return [event._replace(region=self._region) if isinstance(event, KvEntry) else event for event in events]


class _Reported(Cluster):
    """A log that grows, and marks by range. Nothing comes twice but after a repeat."""

    observed_earlier_max = 1

    def __init__(self, parts: Sequence[KeyRange]) -> None:
        self._log: list[LogRow] = []
        self._marks_of = dict.fromkeys(parts, 0)
        super().__init__(History(self._log, (), {}), keys_of_splits=[part.start for part in parts])

    def commit(self, entries: Sequence[KvEntry]) -> None:
        for it in entries:
            for kind, commit_ts in ((PREWRITE, 0), (COMMIT, it.commit_ts)):
                self._log.append(LogRow(kind, it.key, it.start_ts, commit_ts, it.value, it.old))
        self.advance(len(self._log))

    def resolve(self, upto_ts: int, within: KeyRange) -> None:
        with self.changed:
            for part in self._marks_of:
                if within.start <= part.start and part.end <= within.end:
                    self._marks_of[part] = upto_ts
            self.changed.notify_all()

    def resolved_ts(self, range_: KeyRange) -> int:
        return min(ts for part, ts in self._marks_of.items() if part.start < range_.end and range_.start < part.end)

    def earlier_ts(self) -> int:
        return min(self._marks_of.values())
