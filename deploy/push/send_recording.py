"""A sender for the push feed that plays a recording's key-values: python deploy/push/send_recording.py FOLDER --to HOST:PORT

It is what a custom sink at TiCDC's puller does, in Python, and the pattern for one in Go. It reads kv/entries.parquet and
kv/eventfeed.json of the folder, one span a table, and

- opens what the sidecar wants, and sends from the ts that it is told; what nobody wants yet it keeps,
- counts down its credit and waits for more,
- forgets only what is durable, and after a lost stream connects again, with growing pauses, and sends the rest again,
- stays, with a sign of life, when everything is sent (`--until-durable`: ends once it is durable).

What is easy to break:

- A mark is about this stream: after SpanOpened, send everything above `from_ts` again, whoever has sent it. An entry or a mark below the
  span's own mark stops the sidecar.
- Send from one goroutine: TiCDC's classic puller calls `consume` from several. The receiving one must never wait for credit. Count the
  credit with proto.Size(msg).
- Keep a span's entries above Durable, in a list with the marks, with a limit in bytes; at the limit take no more from TiCDC. The checkpoint
  that the changefeed reports must come from Durable.
- Every TiCDC node pulls mysql.tidb_ddl_job (id 281474976710654), but only the changefeed's owner should open it.
- TiCDC's puller may split an update of a key into a delete and a put. Send what came before the split: one entry for each key and
  commit_ts, with its old value.
- On STARTS_TOO_LATE move the changefeed's checkpoint back, or data would be missing.
- gRPC's keepalive: 10 s or more, PermitWithoutStream false. Read the reason of an end from Recv, not from Send.

feed.proto                   classic model.RawKVEntry                             new common.RawKVEntry
op                           OpType (1 put, 2 delete; 3 resolved is a mark)       the same
key                          Key: raw, decoded from memcomparable                 the same; with the keyspace in front under API v2
value, old_value, start_ts,  Value, OldValue, StartTs, CRTs, RegionID             the same
commit_ts, region
OpenSpan.start, end          tablepb.Span: DECODE BOTH from memcomparable         heartbeatpb.TableSpan: the same
                             (codec.DecodeBytes)
OpenSpan.available_ts        the startTs of AddTable                              the startTs of Subscribe
Hello.sender                 the capture id                                       the node id

A table's span is t{id}_r to t{id}_s, or its pieces by regions. The hook in TiCDC:

- classic (tiflow, cdc/processor/sourcemanager): NewMultiplexingPullerWrapper gives MultiplexingPuller its `consume` callback, before the
  sort engine. Spans come and go in SourceManager.AddTable and RemoveTable. To slow down TiKV, let `consume` return late.
- new (ticdc, logservice/logpuller): SubscriptionClient.Subscribe(subID, span, startTs, consumeKVEvents, advanceResolvedTs, …).
  `consumeKVEvents` returns true for "wait" and continues after `wakeCallback`. `advanceResolvedTs` gives the mark. Unsubscribe closes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from stream import NOTHING_DUE_S, Conversation, Target, options_of, parser_of, play, run_main

from ticdc_dump.v1 import feed_pb2 as pb

SIGN_BIT = 1 << 63


@dataclass(slots=True)
class Span:
    """A table's rows. `items` in the order of sending, each with its place in the recording: an entry, or a mark (entry None).
    `available_ts`: what is not kept any more. `number` 0: not open; `ready`: the sidecar said from where."""

    table_id: int
    start: bytes
    end: bytes
    items: list[tuple[int, int, pb.Entry | None]] = field(default_factory=list)
    available_ts: int = 0
    next: int = 0
    number: int = 0
    ready: bool = False
    from_ts: int = 0
    sent: int = 0
    wanted: bool = False
    moved: bool = False

    def forget(self, durable_ts: int) -> None:
        """Keep what comes after; where to go on stays the same item."""
        kept = [item for item in self.items if item[1] > durable_ts]
        self.next = sum(item[1] > durable_ts for item in self.items[: self.next])
        self.items, self.available_ts = kept, max(self.available_ts, durable_ts)

    def durable(self) -> bool:
        """Every entry is. The last marks need not be: the sidecar holds back what has the newest of all marks."""
        return all(entry is None for _, _, entry in self.items)


def read_spans(folder: Path) -> list[Span]:
    """One for each table that the recording's key-values are of."""
    recording = json.loads((folder / "recording.json").read_text())
    lanes = {
        int(lane): found["table_id"] for lane, found in json.loads((folder / "kv/eventfeed.json").read_text())["subscriptions"].items()
    }
    spans = {table_id: Span(table_id, *_rows_of(table_id), available_ts=int(recording["start_ts"])) for table_id in lanes.values()}
    columns = pq.read_table(folder / "kv/entries.parquet").to_pydict()
    names = ("lane", "op", "key", "value", "old_value", "start_ts", "commit_ts", "region_id")
    for place, (lane, op, key, value, old, start_ts, commit_ts, region) in enumerate(zip(*(columns[name] for name in names), strict=True)):
        entry = None
        if op != "resolved":
            kind = pb.OP_PUT if op == "put" else pb.OP_DELETE
            entry = pb.Entry(op=kind, key=key, value=value, old_value=old, start_ts=start_ts, commit_ts=commit_ts, region=region)
        spans[lanes[lane]].items.append((place, commit_ts, entry))
    for span in spans.values():
        span.items = _with_marks_that_hold(span.items, end_ts=int(recording["end_ts"]), end=len(columns["lane"]))
        if earliest := [ts for _, ts, entry in span.items if entry is not None]:
            span.available_ts = min(span.available_ts, min(earliest) - 1)
    return list(spans.values())


def _rows_of(table_id: int) -> tuple[bytes, bytes]:
    table = b"t" + (table_id ^ SIGN_BIT).to_bytes(8, "big")
    return table + b"_r", table + b"_s"


def _with_marks_that_hold(items: list[tuple[int, int, Any]], *, end_ts: int, end: int) -> list[tuple[int, int, Any]]:
    """A recorded mark is of one region's subscription; a table's is below all entries that still come. The last one is `end_ts`,
    up to which a recording is complete."""
    kept, lowest = [(end, max([end_ts, *(ts for _, ts, _ in items)]), None)], 1 << 63
    for place, ts, entry in reversed(items):
        if entry is not None:
            lowest = min(lowest, ts)
            kept.append((place, ts, entry))
        elif ts < lowest:
            kept.append((place, ts, None))
    kept.reverse()
    marked = 0
    for at, (place, ts, entry) in enumerate(kept):
        if entry is None:
            marked = max(marked, ts)
            kept[at] = (place, marked, None)
    return kept


class Sender(Conversation):
    """Plays `spans`."""

    def __init__(self, name: str, spans: Sequence[Span], target: Target, *, speed: float, until_durable: bool) -> None:
        self.spans = spans
        self._speed = speed
        self._until_durable = until_durable
        self._began_s = time.monotonic()
        self._first_ts = min((ts for span in spans for _, ts, entry in span.items if entry is not None), default=0)
        super().__init__(name, target)

    def _begun(self) -> None:
        """Nothing is opened."""
        self._last_span = 0
        for span in self.spans:
            span.number, span.ready, span.wanted = 0, False, False

    # ---- what is sent ---------------------------------------------------------------------------------------------------

    def _next(self) -> pb.SenderMessage | None:
        """The next message, or None if there is nothing to say."""
        for span in self.spans:
            if span.wanted and not span.number and not span.moved:
                self._last_span += 1
                span.number, span.next, span.sent = self._last_span, 0, 0
                opened = pb.OpenSpan(span=span.number, start=span.start, end=span.end, available_ts=span.available_ts)
                return self._numbered(open=opened)
        if self._due_in_s() > 0:
            return None
        span = min((span for span in self.spans if span.ready and span.next < len(span.items)), key=_place)
        if span.items[span.next][2] is None:
            return self._numbered(resolved=pb.Resolved(spans=self._marks()))
        return self._numbered(entries=self._batch(span))

    def _due_in_s(self) -> float:
        """When the next item's time has come; far away if there is none."""
        following = [span.items[span.next] for span in self.spans if span.ready and span.next < len(span.items)]
        if not following:
            return NOTHING_DUE_S
        _, ts, _ = min(following, key=lambda item: item[0])
        after_s = ((ts >> 18) - (self._first_ts >> 18)) / 1000  # a TSO is milliseconds and an 18 bit counter
        return after_s / self._speed - (time.monotonic() - self._began_s) if self._speed else 0.0

    def _batch(self, span: Span) -> pb.Entries:
        """The entries up to the span's next mark, as many as fit. What lies at or below `from_ts` is there already."""
        batch, size = pb.Entries(span=span.number), 32
        while span.next < len(span.items):
            _, ts, entry = span.items[span.next]
            if entry is None or (batch.entries and size + entry.ByteSize() + 8 > self._batch_bytes):
                break
            if ts > span.from_ts:
                batch.entries.append(entry)
                size += entry.ByteSize() + 8
            span.next += 1
        span.sent += len(batch.entries)
        return batch

    def _marks(self) -> list[pb.SpanResolved]:
        """The marks that come next, of any spans, up to the next entry; the last one of each."""
        entry_at = min((_place(span) for span in self.spans if span.ready and _is_entry(span)), default=1 << 62)
        found = []
        for span in self.spans:
            mark = 0
            while span.ready and span.next < len(span.items) and not _is_entry(span) and _place(span) < entry_at:
                mark = span.items[span.next][1]
                span.next += 1
            if mark:
                found.append(pb.SpanResolved(span=span.number, ts=mark, entries=span.sent))
        return found

    def _complete(self) -> bool:
        return self._until_durable and any(s.ready for s in self.spans) and all(s.durable() for s in self.spans if s.wanted)

    # ---- what is told ---------------------------------------------------------------------------------------------------

    def _answered(self, answer: pb.SidecarMessage) -> None:
        match answer.WhichOneof("body"):
            case "wanted":
                for wanted in answer.wanted.ranges:
                    for span in self._within(wanted):
                        span.wanted = True
                for ended in answer.wanted.ended:
                    for span in self._within(ended):
                        span.wanted, span.number, span.ready = False, 0, False
            case "opened":
                for span in self._numbered_span(answer.opened.span):
                    span.ready, span.from_ts = True, answer.opened.from_ts
                    span.forget(answer.opened.durable_ts)
                    self._report(f"table {span.table_id}: sending from {span.from_ts}")
            case "refused":
                for span in self._numbered_span(answer.refused.span):
                    span.wanted = False
                    self._report(f"table {span.table_id} is refused: {answer.refused.text}")
            case "lost":
                for span in self._numbered_span(answer.lost.span):
                    span.moved = answer.lost.reason == pb.SpanLost.REASON_MOVED
                    span.number, span.ready = 0, False
                    self._report(f"table {span.table_id} is lost: {answer.lost.text}")
            case "durable":
                for told in answer.durable.spans:
                    for span in self._numbered_span(told.span):
                        span.forget(told.ts)

    def _within(self, wanted: pb.WantedRange | pb.UnwantedRange) -> list[Span]:
        return [span for span in self.spans if wanted.start <= span.start and span.end <= wanted.end]

    def _numbered_span(self, number: int) -> list[Span]:
        """None if it was given up meanwhile."""
        return [span for span in self.spans if span.number == number]


def _place(span: Span) -> int:
    return span.items[span.next][0]


def _is_entry(span: Span) -> bool:
    return span.next < len(span.items) and span.items[span.next][2] is not None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of(
        "send_recording.py", "Play a recording's key-values to a sidecar's push feed.", folder="a recording: recording.json and kv/"
    )
    parser.add_argument("--senders", type=int, default=1, metavar="N", help="split the tables over N streams (default: %(default)s)")
    parser.add_argument("--tables", default="", metavar="ID,…", help="send these tables only: another sender has the others")
    parser.add_argument("--until-durable", action="store_true", help="end when every entry of the wanted tables is durable")
    options, target, names = options_of(parser, arguments)
    tables = {int(table) for table in options.tables.split(",") if table}
    spans = [span for span in read_spans(options.folder) if not tables or span.table_id in tables]
    return play(
        [
            Sender(name, spans[at :: options.senders], target, speed=options.speed, until_durable=options.until_durable)
            for at, name in enumerate(names)
        ]
    )


if __name__ == "__main__":
    run_main(main)
