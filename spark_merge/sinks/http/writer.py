"""The http: sink's part in tasks: rows in bodies, each from the state that the receiver has to the next one.

A body is full by its bytes or rows; the last one of a task goes out as it is, so a small batch is one request. What the receiver has
already (a batch that is done again, a twin of this task) is skipped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log.identity import continues
from sidecar.shared.model.nouns import Seq, TableName
from spark_merge.port.contract import Counts, Outcome, Portion, Task
from spark_merge.sinks.http.client import Body, Client, Receiver, client_of
from spark_merge.sinks.http.lines import Lines, lines, passed
from spark_merge.sinks.http.records import SegmentEnding, schema_line
from spark_merge.sinks.http.state import BegunSegment, ReceiverState, StreamPlace, state_of
from spark_merge.sinks.kit.options import number, option


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """Of a body, before it is packed. A single row that is larger goes alone."""

    bytes_max: int = option("body-bytes", number(1_000, 1 << 30), 1_000_000,
        "Bytes in a body, before compression. A longer row is sent alone. nginx accepts 1 MB (`client_max_body_size`), a "
        "Lambda 6 MB.")  # fmt: skip
    rows_max: int = option("body-rows", number(1, 1_000_000), 10_000, "Rows in a body.")


@dataclass(frozen=True, slots=True)
class HttpWriter:
    """`state`: the receiver's, when the batch was planned. `endings`: of the batch's segments, in order. Picklable."""

    receiver: Receiver
    limits: BodyLimits
    state: ReceiverState
    endings: tuple[SegmentEnding, ...]

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        counts: Counts = {}
        stream = BodyStream(client_of(self.receiver), self.state, self.limits)
        left = deque(self.endings)
        for seq, of_segment in groupby(portions, lambda portion: portion.unit.seq):
            while left[0].accepted.seq < seq:
                stream.end(left.popleft())
            if stream.has(seq):
                passed(of_segment, counts)
                continue
            for line in lines(seq, of_segment, counts):
                stream.add(left[0], line)
        for ending in left:
            stream.end(ending)
        stream.flush()
        return Outcome(task.id, counts)


class BodyStream:
    """Records in their order. What it holds always begins where the receiver is."""

    def __init__(self, client: Client, state: ReceiverState, limits: BodyLimits) -> None:
        self._client, self._limits = client, limits
        self._state = self._next = state
        self._at = StreamPlace(-1, 0)
        self._empty()

    def _empty(self) -> None:
        self._parts: list[bytes] = []
        self._tables: set[TableName] = set()
        self._bytes = self._rows = 0
        self._key = ""

    def has(self, seq: Seq) -> bool:
        return self._state.place.seq > seq

    def add(self, ending: SegmentEnding, lines: Lines) -> None:
        """The next rows of the segment that has this ending."""
        seq, manifest = ending.accepted.seq, ending.accepted.manifest
        first = self._at.rows if self._at.seq == seq else 0
        self._at = StreamPlace(seq, first + lines.rows)
        while lines.rows:
            if (rows_there := min(lines.rows, self._rows_received(seq) - first)) > 0:
                first, lines = first + rows_there, lines.split(rows_there)[1]
                continue
            taken = self._room(lines)
            if not taken:
                self.flush()
                continue
            part, lines = lines.split(taken)
            self._put(part)
            first += taken
            self._next = self._next.within(BegunSegment(seq, manifest, first, ending.received_as))

    def _rows_received(self, seq: Seq) -> int:
        place = self._state.place
        return 1 << 62 if place.seq > seq else place.rows if place.seq == seq else 0

    def _room(self, lines: Lines) -> int:
        """How many rows go into the body, 0 if it has to be sent before."""
        schemas = {line: len(schema_line(schema)) for schema, line in lines.firsts() if schema.name not in self._tables}
        rows = min(lines.fitting(self._limits.bytes_max - self._bytes, schemas), self._limits.rows_max - self._rows)
        return max(rows, 0 if self._parts else 1)

    def _put(self, part: Lines) -> None:
        for schema, _ in part.firsts():
            if schema.name not in self._tables:
                self._tables.add(schema.name)
                self._append(schema_line(schema))
        self._append(part.data)
        self._rows += part.rows
        self._key = part.first_key()

    def _append(self, data: bytes) -> None:
        self._parts.append(data)
        self._bytes += len(data)

    def end(self, ending: SegmentEnding) -> None:
        """All rows of its segment are added."""
        if self.has(ending.accepted.seq):
            return
        if self._parts and self._bytes + len(ending.data) > self._limits.bytes_max:
            self.flush()
            if self.has(ending.accepted.seq):
                return
        self._append(ending.data)
        self._next = self._next.ended(ending.accepted)

    def flush(self) -> None:
        """The receiver has all that was added, when it returns. Raises OwnershipLost, SinkError."""
        if self._parts:
            here, there = self._state.place, self._next.place
            key = f'"{self._next.log}/{here.seq}.{here.rows}-{there.seq}.{there.rows}"'
            row = f" with a single row of {', '.join(map(str, self._tables))}, key {self._key}" if self._rows == 1 else ""
            body = Body(b"".join(self._parts), key, f"segment {here.seq} from row {here.rows} on{row}, a body")
            conflict = self._client.post(body, after=self._state.text, state=self._next.text)
            self._state = self._next if conflict is None else ahead(self._client, self._next, conflict.reason)
        self._next = self._state
        self._empty()


def ahead(client: Client, ours: ReceiverState, reason: str) -> ReceiverState:
    """Where the receiver is that took no body up to `ours`: it has it, and maybe more, from a twin of this task. Raises OwnershipLost
    where another owner is, SinkError for all else."""
    text = client.state()
    state = mine(client, text, ours)
    if state.place < ours.place:
        raise SinkError(
            f"{client.receiver}: 409 ({reason}) to what ends before row {ours.place.rows} of segment {ours.place.seq}, and it is"
            f" at row {state.place.rows} of segment {state.place.seq}",
            hint="if it was restored from a backup, the sink continues from it automatically; else see deploy/HTTP-SINK.md for its 409",
        )
    return state


def mine(client: Client, text: str | None, ours: ReceiverState) -> ReceiverState:
    """The receiver's state, if its writer is the one of `ours`. Raises OwnershipLost, SinkError."""
    if text is None:
        raise SinkError(
            f"{client.receiver} has lost its state", hint="restore it; else remove the output's rows too, and it is filled again"
        )
    state = state_of(text, where=client.receiver)
    if (state.owner, state.by) != (ours.owner, ours.by):
        if state.owner >= ours.owner and continues(ours.log, state.log):
            raise OwnershipLost(
                f"{client.receiver} has owner {tuple(state.owner)}, this is {tuple(ours.owner)}", hint="nothing: it has a later owner"
            )
        raise SinkError(
            f"{client.receiver} has owner {tuple(state.owner)} of log {state.log}, this is {tuple(ours.owner)} of log {ours.log}",
            hint="if it was restored from a backup, the sink continues from it automatically; else let one sidecar alone send there",
        )
    return state
