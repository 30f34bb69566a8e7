"""A sender for the push feed that plays a recording's key-values: python deploy/push/send_recording.py FOLDER --to HOST:PORT

It is what a custom sink at TiCDC's puller does, in Python, and the pattern for one in Go: README.md beside it says which part is
which. It reads kv/entries.parquet and kv/eventfeed.json of the folder, one span a table, and

- opens what the sidecar wants, and sends from the ts that it is told; what nobody wants yet it keeps,
- counts down its credit and waits for more,
- forgets only what is durable, and after a lost stream connects again, with growing pauses, and sends the rest again,
- stays, with a sign of life, when everything is sent (`--until-durable`: ends once it is durable).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import grpc
import pyarrow.parquet as pq
import stamina

from ticdc_dump.v1 import feed_pb2 as pb
from ticdc_dump.v1 import feed_pb2_grpc

VERSION = 1
MESSAGE_BYTES_MAX = 256 << 20
HEARTBEATS_IN_SILENCE = 3
WAIT_FIRST_S, WAIT_MAX_S = 0.1, 5.0
KEEPALIVE_MS = 10_000
SIGN_BIT = 1 << 63
STOPS = {
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.UNIMPLEMENTED,
}
"""Connecting again would end in the same way."""


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


class Refused(Exception):
    """The sidecar ended the stream for good, or will never be satisfied."""


class Again(Exception):
    """The stream did not last: try again, later each time."""


class Sender:
    """Plays `spans` under one name, over one stream at a time. `run` returns when `done` is called, or it has nothing left to do."""

    def __init__(self, name: str, spans: Sequence[Span], target: Target, *, speed: float, until_durable: bool) -> None:
        self.name = name
        self.spans = spans
        self._target = target
        self._speed = speed
        self._until_durable = until_durable
        self._changed = Condition()
        self._began_s = time.monotonic()
        self._first_ts = min((ts for span in spans for _, ts, entry in span.items if entry is not None), default=0)
        self._finished = False
        self._call: Any = None
        self._streams = 0
        self._begin()

    def _begin(self) -> None:
        """A stream begins with nothing opened, nothing granted, and numbers from 1."""
        self._streams += 1
        self._number = self._heard = self._credit = self._last_span = 0
        self._batch_bytes = 0
        self._heartbeat_s = 1.0
        self._ended = False
        for span in self.spans:
            span.number, span.ready, span.wanted = 0, False, False

    # ---- the connection -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Raises Refused."""
        while not self._finished:
            for attempt in stamina.retry_context(
                on=Again, attempts=None, timeout=None, wait_initial=WAIT_FIRST_S, wait_max=WAIT_MAX_S, wait_jitter=WAIT_FIRST_S
            ):
                with attempt:
                    self._stream()

    def done(self) -> None:
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def break_connection(self) -> None:
        """As a network would."""
        with self._changed:
            if self._call is not None:
                self._call.cancel()

    def _stream(self) -> None:
        """One connection to its end. Raises Again unless it lasted: then the pauses grow."""
        began_s = time.monotonic()
        with self._changed:
            self._begin()
        with self._target.channel(self._streams) as channel:
            call = feed_pb2_grpc.KvFeedStub(channel).Push(  # type: ignore[no-untyped-call]  # generated without types
                self._messages(), metadata=self._target.metadata()
            )
            with self._changed:
                self._call = call
            try:
                for answer in call:
                    self._hear(answer)
            except grpc.RpcError as error:
                if self._finished:
                    return
                self._report(f"stream ended: {error.code().name}: {error.details()}")
                if error.code() in STOPS:
                    raise Refused(f"{error.code().name}: {error.details()}") from error
            finally:
                with self._changed:
                    self._ended, self._call = True, None
                    self._changed.notify_all()
                call.cancel()
            if not self._finished and time.monotonic() - began_s < WAIT_MAX_S:
                raise Again

    # ---- what is sent ---------------------------------------------------------------------------------------------------

    def _messages(self) -> Iterator[pb.SenderMessage]:
        """gRPC takes from here in a thread of its own, as fast as the network allows; credit is what holds it back."""
        hello = pb.Hello(version_min=VERSION, version_max=VERSION, sender=self.name, changefeed=self._target.changefeed)
        stream = self._streams
        yield self._numbered(hello=hello)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._credit > 0 or self._over(stream))
                if self._over(stream):
                    return
                message = self._next()
                if message is None:
                    if self._until_durable and self._all_durable():
                        self._finished = True
                        return
                    told = self._changed.wait(min(self._heartbeat_s, self._due_in_s()))
                    if not told and self._due_in_s() > 0 and not self._over(stream):
                        message = self._numbered(heartbeat=pb.Heartbeat())
                if message is not None:
                    self._credit -= message.ByteSize()
            if message is not None:
                yield message

    def _over(self, stream: int) -> bool:
        """A former stream's thread may wake up when the next one is under way."""
        return self._ended or self._finished or stream != self._streams

    def _numbered(self, **body: Any) -> pb.SenderMessage:
        self._number += 1
        return pb.SenderMessage(number=self._number, **body)

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
            return 3600.0
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

    def _all_durable(self) -> bool:
        return any(span.ready for span in self.spans) and all(span.durable() for span in self.spans if span.wanted)

    # ---- what is told ---------------------------------------------------------------------------------------------------

    def _hear(self, answer: pb.SidecarMessage) -> None:
        """Raises Refused for a version that was not offered."""
        with self._changed:
            self._heard += 1
            if answer.number != self._heard:
                self._report(f"message {answer.number} came in the place of {self._heard}: connecting again")
                self._call.cancel()
                return
            match answer.WhichOneof("body"):
                case "welcome":
                    self._credit += answer.welcome.credit_bytes
                    self._batch_bytes = answer.welcome.batch_bytes
                    self._heartbeat_s = answer.welcome.silent_max_ms / 1000 / HEARTBEATS_IN_SILENCE
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
                case "credit":
                    self._credit += answer.credit.bytes
            self._changed.notify_all()

    def _within(self, wanted: pb.WantedRange | pb.UnwantedRange) -> list[Span]:
        return [span for span in self.spans if wanted.start <= span.start and span.end <= wanted.end]

    def _numbered_span(self, number: int) -> list[Span]:
        """None if it was given up meanwhile."""
        return [span for span in self.spans if span.number == number]

    def _report(self, text: str) -> None:
        sys.stderr.write(f"{self.name}: {text}\n")


def _place(span: Span) -> int:
    return span.items[span.next][0]


def _is_entry(span: Span) -> bool:
    return span.next < len(span.items) and span.items[span.next][2] is not None


@dataclass(frozen=True, slots=True)
class Target:
    """Where the sidecar may be and how it is reached. With `ca_file` over TLS; certificate and key for mutual TLS."""

    addresses: str
    changefeed: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    token: str = ""

    def channel(self, turn: int) -> Any:
        """To the address whose turn it is: only the sidecar that owns the changefeed listens."""
        addresses = self.addresses.split(",")
        address = addresses[turn % len(addresses)]
        options = (("grpc.max_receive_message_length", MESSAGE_BYTES_MAX), ("grpc.keepalive_time_ms", KEEPALIVE_MS))
        if not self.ca_file:
            return grpc.insecure_channel(address, options)
        certificate = Path(self.cert_file).read_bytes() if self.cert_file else None
        key = Path(self.key_file).read_bytes() if self.key_file else None
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(Path(self.ca_file).read_bytes(), key, certificate), options)

    def metadata(self) -> list[tuple[str, str]]:
        return [("authorization", f"Bearer {self.token}")] if self.token else []


def play(senders: Sequence[Sender]) -> int:
    """Run them all; the exit code: 0, or 1 if one was refused."""
    refusals: list[str] = []

    def run(sender: Sender) -> None:
        try:
            sender.run()
        except Refused as refused:
            refusals.append(f"{sender.name}: {refused}")

    threads = [Thread(target=run, args=(sender,), name=sender.name, daemon=True) for sender in senders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stderr.writelines(f"{refusal}\n" for refusal in refusals)
    return bool(refusals)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="send_recording.py", description="Play a recording's key-values to a sidecar's push feed.")
    parser.add_argument("folder", type=Path, help="a recording: recording.json and kv/")
    parser.add_argument("--to", default="127.0.0.1:8312", metavar="HOST:PORT,…", help="push.listen of the sidecars (default: %(default)s)")
    parser.add_argument("--changefeed", default="", metavar="CLUSTER/NAMESPACE/ID", help="as the sidecar's settings name it")
    parser.add_argument("--name", default="recording", help="of this sender; the same after a restart (default: %(default)s)")
    parser.add_argument("--senders", type=int, default=1, metavar="N", help="split the tables over N streams (default: %(default)s)")
    parser.add_argument("--tables", default="", metavar="ID,…", help="send these tables only: another sender has the others")
    parser.add_argument("--speed", type=float, default=0.0, metavar="X", help="times as fast as recorded (default: as fast as it goes)")
    parser.add_argument("--until-durable", action="store_true", help="end when every entry of the wanted tables is durable")
    parser.add_argument("--ca", default="", metavar="FILE", help="authority of the sidecar's certificate: use TLS")
    parser.add_argument("--cert", default="", metavar="FILE", help="own certificate, for mutual TLS")
    parser.add_argument("--key", default="", metavar="FILE", help="its key")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="the token of the sidecar's push.token_file")
    options = parser.parse_args(arguments)
    if options.senders < 1 or options.speed < 0:
        parser.error("--senders is at least 1, and --speed not below 0")
    token = options.token_file.read_text().strip() if options.token_file else ""
    target = Target(options.to, options.changefeed, options.ca, options.cert, options.key, token)
    tables = {int(table) for table in options.tables.split(",") if table}
    spans = [span for span in read_spans(options.folder) if not tables or span.table_id in tables]
    names = [options.name if options.senders == 1 else f"{options.name}-{number}" for number in range(options.senders)]
    return play(
        [
            Sender(name, spans[at :: options.senders], target, speed=options.speed, until_durable=options.until_durable)
            for at, name in enumerate(names)
        ]
    )


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
