"""A log whose dumps are followed for their certificates and reports, for the tests of both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sidecar.adapters.memory.progress import MemoryHistory
from sidecar.history.entry import HistoryEntry, OperationKind, OperationScope
from sidecar.report.chunks import Chunks
from sidecar.run.certifying import ACCEPT_WAIT_S, ASK_S, TermCertificates
from sidecar.run.dump_reports import CertificateFacts, DumpReports
from sidecar.run.log_event import LogEvent
from sidecar.run.samples import Samples
from sidecar.shared.log import storage
from sidecar.shared.log.layout import chunk_name, manifest_name
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.owned import OwnedLog
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.hole import Hole
from sidecar.shared.model.messages import Asker, Brackets
from sidecar.shared.model.nouns import Column, CommitTs, OperationId, Seq, TableName, TableSchema
from sidecar.shared.model.progress import DumpState, Progress, TableProgress
from sidecar.shared.model.sink_delivery import BatchDone, DroppedRows, ReportTimes, SinkDelivery

T, U = TableName("shop", "orders"), TableName("shop", "items")
SCHEMAS = {name: TableSchema(name, (Column("id", "int", nullable=False),), ("id",)) for name in (T, U)}
DUMP, OTHER = OperationId("a" * 16), OperationId("b" * 16)
FACTS = CertificateFacts("cf/1", "0" * 32, "default", "7", "0.0.0")


class Reports:
    """`ports.Deliveries` of sinks that are as they are told."""

    def __init__(self) -> None:
        self.reported_sinks: list[SinkDelivery] = []

    def accepted(self) -> Seq | None:
        each = [one.accepted for one in self.reported_sinks]
        return min((seq for seq in each if seq is not None), default=None) if None not in each else None

    def sinks(self) -> Sequence[SinkDelivery]:
        return self.reported_sinks

    def report_times(self) -> ReportTimes | None:
        return None

    def say(self, accepted: int, *batches: BatchDone, sink: str = "copy") -> None:
        self.reported_sinks = [one for one in self.reported_sinks if one.sink != sink] + [SinkDelivery(sink, Seq(accepted), batches)]


def batch(first: int, last: int, dropped: dict[TableName, int] | None) -> BatchDone:
    rows = None if dropped is None else tuple(DroppedRows(*table, number) for table, number in dropped.items())
    return BatchDone(Seq(last), last - first + 1, 0, 0, 0.1, 0.1, 1, rows)


class World:
    """A log, a history and reports, which outlive the followers."""

    def __init__(self, folder: Path) -> None:
        self.log = open_folder(str(folder))
        self.owner = FolderLog(self.log)
        self.owner.recover(epoch=1)
        self.history, self.reports, self.lines = MemoryHistory(), Reports(), list[LogEvent]()
        self.now_s, self.next, self.chunks, self.epoch = 0.0, 0, 0, 0
        self.jumped_ts = 0
        self.counts: dict[str, dict[TableName, int]] = {}
        self.since: dict[TableName, int] = {}
        self.check_held: Callable[[], object] = lambda: None
        self.made = self.follower()

    def follower(self) -> TermCertificates:
        """Of the next owner."""
        self.epoch += 1
        self.made = TermCertificates(
            OwnedLog(self.log, self.epoch, lambda: self.check_held()),
            self.history,
            self.reports,
            DumpReports(self.log, lambda: FACTS, Samples(), Chunks(100), self.lines.append),
            now_s=lambda: self.now_s,
            log_line=self.lines.append,
        )
        return self.made

    def window(
        self, *tables: TableName, first: int | None = None, dump: str = DUMP, sinks: tuple[str, ...] = (), since: int = 0
    ) -> ClosedWindow:
        """`since`: where the pass over the tables began."""
        self.since |= dict.fromkeys(tables or (T,), since)
        files = []
        for table in tables or (T,):
            self.chunks += 1
            path = chunk_name(dump, epoch=1, number=self.chunks)
            storage.write_atomically(self.log, path, b"rows")
            cursor = (str(self.chunks),)
            files.append(ChunkFile(table, path, 10, 100, None, cursor, since_seq=Seq(since), sha256="of it", rows_sum=""))
        at = self.next if first is None else first
        return ClosedWindow(dump, CommitTs(at * 10 + 1), CommitTs(self.next * 10 + 5), Seq(at), tuple(files), sinks)

    def jump_ms(self, milliseconds: int) -> None:
        """Of the log's time."""
        self.jumped_ts += CommitTs(milliseconds << 18)

    def segment(self, *windows: ClosedWindow, known: str | Sequence[str] | None = DUMP, holes: tuple[Hole, ...] = ()) -> Manifest:
        """`known`: the dumps whose progress the segment has."""
        for window in windows:
            counts = self.counts.setdefault(window.dump_id, {})
            for chunk in window.chunks:
                counts[chunk.table] = counts.get(chunk.table, 0) + 1
        dumps = [self._progress(dump) for dump in ([known] if isinstance(known, str) else known or ())]
        made = Manifest(
            Seq(self.next),
            1,
            CommitTs(self.next * 10 + self.jumped_ts),
            CommitTs(self.next * 10 + 10 + self.jumped_ts),
            None,
            0,
            0,
            {},
            self.owner.write_schemas(SCHEMAS),
            "canal-json",
            windows=windows,
            progress=dumps[0] if dumps else None,
            more_dumps=tuple(dumps[1:]),
            id=f"{self.next:016x}",
            holes=holes,
        )
        self.owner.commit(made)
        self.next += 1
        return made

    def _progress(self, dump: str) -> dict[str, Any]:
        counts = self.counts.get(dump, {T: 0})
        tables = tuple(TableProgress(table, chunks=number, since_seq=Seq(self.since.get(table, 0))) for table, number in counts.items())
        return Progress(dump, DumpState.RUNNING, Brackets.WATERMARK, 10, 1, 1, Seq(self.next), tables).to_json()

    def records(self, state: DumpState, dump: str = DUMP, chunks: int = 0) -> None:
        asker = Asker("certificate alice", "10.0.0.7:1", "why not")
        entry = HistoryEntry(OperationId(dump), OperationKind.DUMP, OperationScope(), asker, 5, state, ended_ms=9, chunks=chunks)
        self.history.record(entry)

    def step(self, seconds: float = ASK_S) -> None:
        self.now_s += seconds
        self.made.step()

    def finish(self, dump: str = DUMP) -> dict[str, Any]:
        self.step()
        self.records(DumpState.FINISHED, dump)
        self.step()
        self.step(ACCEPT_WAIT_S)
        return self.certificate(dump)

    def certificate(self, dump: str = DUMP) -> dict[str, Any]:
        certificate: dict[str, Any] = json.loads(storage.read_file(self.log, f"certificates/{dump}.json"))
        return certificate

    def sum_of(self, seq: int) -> str:
        return hashlib.sha256(storage.read_file(self.log, manifest_name(Seq(seq)))).hexdigest()

    def reported(self, event: str) -> list[str]:
        return [str(line.values.get("reason", "")) for line in self.lines if line.event == event]
