"""Lines of a dump, made up: what a certificate's parts would have of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from sidecar.history.entry import HistoryEntry, OperationKind, OperationScope
from sidecar.report.build import ReportFacts
from sidecar.report.chunks import DumpedChunk
from sidecar.shared.log.certificate import ChunkLine, SegmentLine
from sidecar.shared.log.certificate_parts import BatchLine, DroppedLine, Line, SampleLine, ScopeLine, ScopeTable, SinkSample
from sidecar.shared.model.messages import Asker
from sidecar.shared.model.nouns import OperationId, Seq, TableName, ts_at
from sidecar.shared.model.progress import DumpState

DUMP, OTHER = OperationId("a" * 16), OperationId("b" * 16)
ORDERS, ITEMS = TableName("shop", "orders"), TableName("shop", "items")
BEGIN_MS = 1_780_000_000_000
SINK = "file:///out"


def chunk_line(seq: int, table: TableName = ORDERS, *, rows: int = 10, begins_ms: int | None = None, lasts_ms: int = 800) -> ChunkLine:
    """Of a window that lasts 0.8 s and begins `seq` seconds after BEGIN_MS."""
    low_ms = BEGIN_MS + 1000 * seq if begins_ms is None else begins_ms
    low, high = str(ts_at(low_ms)), str(ts_at(low_ms + lasts_ms))
    return ChunkLine(seq, *table, f"c{seq}", rows, 0, rows * 100, "", "", None, None, 0, None, low, high, seq)


def batch_line(first: int, last: int, dropped: Mapping[TableName, int | None] | None, sink: str = SINK) -> BatchLine:
    rows = None if dropped is None else tuple(DroppedLine(*table, number) for table, number in dropped.items())
    return BatchLine(sink, first, last, rows)


def dumped(seq: int, table: TableName = ORDERS, *, begins_ms: int, lasts_ms: int = 800, dropped: int | None = None) -> DumpedChunk:
    return DumpedChunk(DUMP, table, ts_at(begins_ms), ts_at(begins_ms + lasts_ms), 10, Seq(seq), dropped)


def sample(at_s: float, *, epoch: int = 1, rows: float = 100.0, waiting_for: str = "", live_s: float = 0.3, sink: str = SINK) -> SampleLine:
    """So long after BEGIN_MS."""
    sinks = (SinkSample(sink, 0.1, live_s, 0.5, 0.6),)
    return SampleLine(BEGIN_MS + int(at_s * 1000), epoch, (DUMP,), rows, 20.0, 0.4, 0.2, 2, waiting_for, sinks)


def samples(seconds: int, **given: object) -> list[SampleLine]:
    """One each 2 s."""
    return [sample(at_s, **given) for at_s in range(0, seconds, 2)]  # type: ignore[arg-type]  # as of `sample`


def entry(state: DumpState = DumpState.FINISHED, **given: object) -> HistoryEntry:
    made = {"started_ms": BEGIN_MS, "ended_ms": BEGIN_MS + 60_000, "running_s": 60.0} | given
    return HistoryEntry(DUMP, OperationKind.DUMP, OperationScope(), Asker("certificate alice", "10.0.0.7:1"), state=state, **made)  # type: ignore[arg-type]  # as of HistoryEntry


FACTS = ReportFacts("blue/ns/orders/1", "1.2.3", accepted={SINK: "all up to segment 40"}, certificate="Certificate: there.")


def scope_line(*tables: ScopeTable) -> ScopeLine:
    return ScopeLine(1, tables, (SINK,))


def ten_minutes() -> Iterator[Line]:
    """40 chunks of 3 tables, with a takeover after 4 minutes and a pause of the source: what a report of it looks like is for the eye."""
    rng = Random(7)
    tables = (ORDERS, ITEMS, TableName("shop", "customers_of_the_years_before_2020"))
    yield scope_line(*(ScopeTable(*table, None if place < 2 else "id < 1000", 0, place < 2, None) for place, table in enumerate(tables)))
    for seq in range(1, 41):
        yield SegmentLine(seq, "", "")
        table = tables[min(seq // 14, 2)]
        begins_ms = BEGIN_MS + seq * 14_000 + rng.randrange(4000)
        yield chunk_line(seq, table, rows=rng.choice([500, 20_000, 118_000]), begins_ms=begins_ms, lasts_ms=rng.randrange(2000, 26_000))
        yield batch_line(seq, seq, {table: rng.choice([0, 0, 3, 1234])})
    for second in range(0, 600, 2):
        if not 240 <= second < 262:
            live_s, held = 0.2 + rng.random() * 0.2, 300 <= second < 340
            why = "source: a SELECT has been running for 12 s" if held else f"held back by delivery: {live_s:.1f} s, bound 0.5 s, {SINK}"
            row_rate = 0.0 if held else 60_000 + rng.random() * 20_000
            yield sample(second, epoch=1 if second < 250 else 2, rows=row_rate, waiting_for=why if second % 6 else "", live_s=live_s)
