"""A cluster of the measurement's own: a paced canal-json changefeed in three lanes, and a database that answers from memory.

Wall time is the cluster's clock. What is due is made when the feed is polled, so one thread has both (the pipeline's);
SELECTs run in threads of their own, as the real source's do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from random import Random

import pyarrow as pa

from sidecar.ports import NO_READ_ENDS, NOT_KNOWN
from sidecar.shared.codecs.canal_json import encode_mark, encode_resolved
from sidecar.shared.log.layout import chunk_name
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.chunk import ChunkFile
from sidecar.shared.model.messages import ChunkRead, Command, MarkSent, ReadChunk, SendMark, SourceEvent
from sidecar.shared.model.nouns import CommitTs, Lane, MarkKind, Message, ReadEnd, TableName, TableSchema
from tests.tools.bench.account import ACCOUNT, canal_updates, message, rows

CHANGES_A_SECOND = 500
RESOLVED_EVERY_S = 0.2
POLL_S = 0.01
"""How long a poll waits at least for messages: a broker's fetch brings what came meanwhile."""
LANES = tuple(Lane(f"kafka/bench/{number}") for number in range(3))
CHANGEFEED = "bench"
SAMPLE_ROWS = 100_000
"""Rows held in memory; the table is these, over and over, under rising ids."""

_TSO_LOGICAL_BITS = 18
_TABLE = b'"table":"%s"' % ACCOUNT.table.encode()


class PacedFeed:
    """sidecar.ports.Feed. `inject`: the watermark row's change; the next resolved marks are beyond it. The changes go around `tables`."""

    def __init__(self, *, changes_a_s: int = CHANGES_A_SECOND, tables: Sequence[TableName] = (ACCOUNT,)) -> None:
        self._changes_a_s = changes_a_s
        self._names = [b'"table":"%s"' % table.table.encode() for table in tables]
        self._updates = canal_updates(rows(1, 1_000))
        self._random = Random(0)
        self._positions = dict.fromkeys(LANES, 0)
        self._injected: list[tuple[bytes | None, bytes]] = []
        self._ts = 0
        self._began_s = time.monotonic()
        self._made = self._resolved = 0

    def lanes(self) -> frozenset[Lane]:
        return frozenset(LANES)

    def ends(self) -> Mapping[Lane, int]:
        return {}

    def incarnations(self) -> Mapping[Lane, str]:
        return dict.fromkeys(self.lanes(), "")

    def read_ends(self) -> Mapping[Lane, ReadEnd]:
        return NO_READ_ENDS

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,
    ) -> None:
        assert not positions, "a new log begins at the beginning"

    def acknowledge(self, positions: Mapping[Lane, int]) -> None:
        return None

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        messages = self._due()
        if not messages:
            time.sleep(min(timeout_s, POLL_S))
            messages = self._due()
        return messages

    def now_ts(self) -> CommitTs:
        self._ts = max(self._ts + 1, time.time_ns() // 1_000_000 << _TSO_LOGICAL_BITS)
        return CommitTs(self._ts)

    def inject(self, key: bytes | None, value: bytes) -> None:
        self._injected.append((key, value))

    def _due(self) -> list[Message]:
        elapsed_s = time.monotonic() - self._began_s
        messages = [self._message(LANES[0], *injected) for injected in self._injected]
        self._injected.clear()
        while self._made < elapsed_s * self._changes_a_s:
            update = self._random.choice(self._updates).replace(_TABLE, self._names[self._made % len(self._names)])
            messages.append(self._message(LANES[self._made % len(LANES)], b"", message(update, self.now_ts())))
            self._made += 1
        if self._resolved < int(elapsed_s / RESOLVED_EVERY_S):
            self._resolved = int(elapsed_s / RESOLVED_EVERY_S)
            messages += [self._message(lane, *encode_resolved(self.now_ts(), 0)) for lane in LANES]
        return messages

    def _message(self, lane: Lane, key: bytes | None, value: bytes) -> Message:
        self._positions[lane] += 1
        return Message(lane, self._positions[lane] - 1, key, value)


class MemorySource:
    """sidecar.ports.Source: an endless table. A SELECT takes `select_s` and then writes its chunk to `log`."""

    def __init__(self, feed: PacedFeed, log: Folder, *, select_s: float) -> None:
        self._feed = feed
        self._log = log
        self._select_s = select_s
        self._sample = rows(1, SAMPLE_ROWS)
        self._holds: tuple[str, MarkKind] | None = None
        self._events: list[SourceEvent] = []
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="select")
        self._reads: list[tuple[int, Future[ChunkFile]]] = []
        self.rows_read = 0

    def request(self, command: Command) -> None:
        match command:
            case SendMark(uuid, kind):
                ts = self._feed.now_ts()
                now_ms = ts >> _TSO_LOGICAL_BITS
                mark = encode_mark(
                    commit_ts=ts, row_id=1, changefeed_id=CHANGEFEED, uuid=uuid, kind=kind, previous=self._holds, now_ms=now_ms
                )
                self._feed.inject(*mark)
                self._holds = (uuid, kind)
                self._events.append(MarkSent(uuid))
            case ReadChunk():
                self._reads.append((command.number, self._threads.submit(self._select, command)))

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        """The tables here do not change."""

    def results(self) -> Sequence[SourceEvent]:
        events, self._events = self._events, []
        done = [read for read in self._reads if read[1].done()]
        self._reads = [read for read in self._reads if read not in done]
        return [*events, *(ChunkRead(number, future.result(), False) for number, future in done)]

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)

    def _select(self, command: ReadChunk) -> ChunkFile:
        time.sleep(self._select_s)
        first_id, count = int(command.after[0]) + 1 if command.after else 1, command.rows_max
        ids = pa.array(range(first_id, first_id + count)).cast(pa.string())
        chunk = self._sample.slice(first_id % (SAMPLE_ROWS - count), count).set_column(0, "id", ids)
        path = chunk_name(command.dump_id, epoch=command.epoch, number=command.number)
        written = write_chunk(self._log, path, chunk)
        self.rows_read += count
        return ChunkFile(ACCOUNT, path, count, written.bytes, command.after, (str(first_id + count - 1),))
