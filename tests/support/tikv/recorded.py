"""A recording's raw messages of TiKV, and the one history of the cluster that they tell.

`raw(name)` are the messages as they came. `history(name)` is the log that every region of a made cluster plays: each write once, with its
prewrite and its commit where they came first, whatever subscription brought them, and how far each place of the log is resolved.
"""

from __future__ import annotations

import gzip
import json
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry
from sidecar.shared.rowcodec.kv_matcher import COMMIT, COMMITTED, DELETE, INITIALIZED, PREWRITE, PUT, ROLLBACK
from sidecar.shared.tikv.regions import decoded
from tests.support.recordings import recording
from ticdc_dump.tikv import cdcpb_pb2


class Subscribed(NamedTuple):
    """As the recorder registered it; `request_id` is the lane of kv/entries.parquet."""

    request_id: int
    table_id: int
    region: int
    range: KeyRange
    from_ts: CommitTs


@dataclass(frozen=True)
class Raw:
    messages: tuple[bytes, ...]
    subscriptions: dict[int, Subscribed]
    cluster_id: int

    def events(self) -> Iterator[Any]:
        """Parsed, one by one."""
        return map(cdcpb_pb2.ChangeDataEvent.FromString, self.messages)


class LogRow(NamedTuple):
    """What a region sends about one key at one place of the log; a COMMIT with the value of its prewrite, which is not sent."""

    kind: int
    key: bytes
    start_ts: int
    commit_ts: int
    value: bytes
    old: bytes

    @property
    def op_type(self) -> int:
        return PUT if self.value else DELETE


@dataclass(frozen=True)
class History:
    """`resolved[i]`: every commit at log[i:] is above it."""

    log: Sequence[LogRow]
    resolved: Sequence[CommitTs]
    ranges: dict[KeyRange, CommitTs]

    @property
    def end_ts(self) -> CommitTs:
        return self.resolved[-1]

    def writes(self, wanted: KeyRange, from_ts: int) -> set[KvEntry]:
        """What a puller of `wanted` must deliver, without regions."""
        return {
            KvEntry(CommitTs(row.commit_ts), row.start_ts, row.key, row.value, row.old)
            for row in self.log
            if row.kind in (COMMIT, COMMITTED) and row.commit_ts > from_ts and row.key in wanted
        }


@cache
def raw(name: str) -> Raw:
    folder = recording(name) / "kv"
    reported = json.loads((folder / "eventfeed.json").read_bytes())
    subscriptions = {
        int(number): Subscribed(int(number), it["table_id"], it["region"], _range(it), CommitTs(int(it["ts"])))
        for number, it in reported["subscriptions"].items()
    }
    messages = tuple(_messages(gzip.decompress((folder / "eventfeed.bin.gz").read_bytes())))
    return Raw(messages, subscriptions, int(reported["cluster_id"]))


def _range(reported: dict[str, str]) -> KeyRange:
    return KeyRange(decoded(bytes.fromhex(reported["start"])), decoded(bytes.fromhex(reported["end"])))


@dataclass(frozen=True)
class Joined:
    """kv/entries.parquet: (lane, entry) and (lane, region, resolved ts), with how often."""

    entries: Counter[tuple[int, KvEntry]]
    resolved: Counter[tuple[int, int, int]]


@cache
def joined(name: str) -> Joined:
    entries: Counter[tuple[int, KvEntry]] = Counter()
    resolved: Counter[tuple[int, int, int]] = Counter()
    for row in pq.read_table(recording(name) / "kv" / "entries.parquet").to_pylist():
        if row["op"] == "resolved":
            resolved[row["lane"], row["region_id"], row["commit_ts"]] += 1
        else:
            entry = KvEntry(
                CommitTs(row["commit_ts"]), row["start_ts"], row["key"], row["value"] or b"", row["old_value"] or b"", row["region_id"]
            )
            entries[row["lane"], entry] += 1
    return Joined(entries, resolved)


@cache
def history(name: str) -> History:
    result = raw(name)
    building = _Building([], {}, {}, set())
    highest = 0
    for message in result.events():
        highest = max(highest, message.resolved_ts.ts)
        for event in message.events:
            for row in event.entries.entries:
                building.add(row)
    ranges: dict[KeyRange, CommitTs] = {}
    for it in result.subscriptions.values():
        ranges[it.range] = min(it.from_ts, ranges.get(it.range, it.from_ts))
    return History(tuple(building.log), _resolved(building.log, highest), ranges)


Place = tuple[int, bytes]
"""start_ts and key."""


@cache
def whole_history(name: str) -> History:
    """With what there was before it, from the recording's scans of whole tables: every row that a reader can find."""
    folder, live = recording(name), history(name)
    first: dict[tuple[bytes, int], LogRow] = {}
    reported = json.loads((folder / "scans.json").read_bytes())
    start_ts = int(json.loads((folder / "recording.json").read_bytes())["start_ts"])
    for scan in reported:
        if int(scan["checkpoint_ts"]) == 0:
            for row in _rows_of(gzip.decompress((folder / "scans" / scan["file"]).read_bytes())):
                if row.type == COMMITTED and row.commit_ts <= start_ts:
                    first[row.key, row.commit_ts] = LogRow(COMMITTED, row.key, row.start_ts, row.commit_ts, row.value, b"")
    log = (*sorted(first.values(), key=lambda row: row.commit_ts), *live.log)
    return History(log, _resolved(log, live.end_ts), live.ranges)


def _rows_of(data: bytes) -> Iterator[Any]:
    for message in _messages(data):
        for event in cdcpb_pb2.ChangeDataEvent.FromString(message).events:
            yield from event.entries.entries


def _messages(data: bytes) -> Iterator[bytes]:
    """Each with its length before it."""
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


@dataclass
class _Building:
    """`early`: commits that came before their prewrite, as they may before a scan has ended."""

    log: list[LogRow]
    locks: dict[Place, LogRow]
    early: dict[Place, Any]
    done: set[Place]

    def add(self, row: Any) -> None:
        place = (row.start_ts, row.key)
        if row.type == INITIALIZED or place in self.done:
            return
        if row.type == PREWRITE:
            if place in self.locks:
                return
            self.locks[place] = LogRow(PREWRITE, row.key, row.start_ts, 0, row.value, row.old_value)
            self.log.append(self.locks[place])
            if place in self.early:
                self._finish(self.early.pop(place))
        elif row.type == COMMITTED:
            self.log.append(
                LogRow(COMMIT if place in self.locks else COMMITTED, row.key, row.start_ts, row.commit_ts, row.value, row.old_value)
            )
            self.locks.pop(place, None)
            self.done.add(place)
        elif place in self.locks:
            self._finish(row)
        elif row.type == COMMIT:
            self.early[place] = row

    def _finish(self, row: Any) -> None:
        assert row.type in (COMMIT, ROLLBACK)
        place = (row.start_ts, row.key)
        lock = self.locks.pop(place)
        self.log.append(LogRow(row.type, row.key, row.start_ts, row.commit_ts, lock.value, lock.old))
        self.done.add(place)


def _resolved(log: Sequence[LogRow], highest: int) -> tuple[CommitTs, ...]:
    resolved = [CommitTs(highest)]
    for row in reversed(log):
        committed = row.commit_ts if row.kind in (COMMIT, COMMITTED) else highest + 1
        resolved.append(CommitTs(min(resolved[-1], committed - 1)))
    return tuple(reversed(resolved))
