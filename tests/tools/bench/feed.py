"""Generated messages of a TiCDC changefeed, made of the recorded ones of `demo`: other ids, rising commit_ts, more tables.

The recorded messages are those of `shop.customer`, 11 columns of mixed kinds, of the usual size (a batch of rows in
open-protocol, as max-batch-size has it).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from sidecar.replay.recording import Recording
from sidecar.shared.codecs.canal_json import encode_resolved as canal_resolved
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.codecs.open_protocol import encode_resolved as open_resolved
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Message, TableName, TableSchema

DEMO = Path(__file__).resolve().parents[2] / "recordings" / "demo"
CUSTOMER = TableName("shop", "customer")
PROTOCOLS = ("open-protocol", "canal-json")

TEMPLATE_BYTES = (400, 1000)
OPEN_BATCH_ROWS = 8
ROWS_A_COMMIT = 3
LATE_COMMITS = 300
"""Commits of a batch that its resolved marks do not reach yet."""

FIRST_TS = 1_795_232_130_000 << 18
TS_STEP = 1 << 10

_TS, _ID, _TABLE = b"\1ts", b"\1id", b"\1table"
_OPEN_VERSION = (1).to_bytes(8, "big")


@dataclass(slots=True)
class Batch:
    """`row_jsons`: the JSON of each row's images, as any consumer has to read it. `last`: all lanes are resolved beyond it."""

    messages: list[Message] = field(default_factory=list)
    row_jsons: list[bytes] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(len(message.key or b"") + len(message.value or b"") for message in self.messages)


@dataclass(frozen=True, slots=True)
class Shape:
    """`one_commit`: all rows are one transaction. `batch_rows`: between two resolved marks of a lane."""

    protocol: str
    rows: int
    lanes: int = 3
    tables: int = 1
    one_commit: bool = False
    batch_rows: int = 10_000

    def lane_names(self) -> list[Lane]:
        return [Lane(f"kafka/bench/{number}") for number in range(self.lanes)]


def schemas() -> Mapping[TableName, TableSchema]:
    return Recording(DEMO).schemas


def codec_of(protocol: str) -> Codec:
    return Recording(DEMO).feed_config(protocol).codec()


def batches(shape: Shape) -> Iterator[Batch]:
    """The feed, `batch_rows` at a time; each batch ends with a resolved mark in every lane, the last one beyond all rows."""
    templates = cycle(_templates(shape.protocol))
    names = [f"customer_{number}".encode() for number in range(shape.tables)] if shape.tables > 1 else [b"customer"]
    positions = dict.fromkeys(shape.lane_names(), 0)
    lanes = list(positions)
    row = 0
    while row < shape.rows:
        batch, end = Batch(), min(row + shape.batch_rows, shape.rows)
        held: dict[Lane, list[tuple[bytes, bytes]]] = {lane: [] for lane in lanes}
        for number in range(row, end):
            ts = FIRST_TS if shape.one_commit else FIRST_TS + number // ROWS_A_COMMIT * TS_STEP
            key, value = _filled(next(templates), ts, number, names[number % len(names)])
            held[lanes[number % len(lanes)]].append((key, value))
            batch.row_jsons.append(value)
        commits = 0 if shape.one_commit else end // ROWS_A_COMMIT - LATE_COMMITS
        resolved_ts = FIRST_TS + (shape.rows if end == shape.rows else max(commits, 0)) * TS_STEP
        for lane, records in _interleaved(_messages(shape.protocol, held, resolved_ts)):
            batch.messages.append(Message(lane, positions[lane], *records))
            positions[lane] += 1
        yield batch
        row = end


def _messages(protocol: str, held: dict[Lane, list[tuple[bytes, bytes]]], resolved_ts: int) -> dict[Lane, list[tuple[bytes | None, bytes]]]:
    messages: dict[Lane, list[tuple[bytes | None, bytes]]] = {}
    for lane, rows in held.items():
        if protocol == "canal-json":
            messages[lane] = [*((b"", value) for _, value in rows), canal_resolved(resolved_ts, 0)]
            continue
        parts = [rows[at : at + OPEN_BATCH_ROWS] for at in range(0, len(rows), OPEN_BATCH_ROWS)]
        framed = [(_OPEN_VERSION + _frames(key for key, _ in part), _frames(value for _, value in part)) for part in parts]
        messages[lane] = [*framed, open_resolved(resolved_ts, 0)]
    return messages


def _interleaved(lanes: dict[Lane, list[tuple[bytes | None, bytes]]]) -> Iterator[tuple[Lane, tuple[bytes | None, bytes]]]:
    """Twenty messages of one lane, then of the next: as a consumer's fetches bring them."""
    at, longest = 0, max(map(len, lanes.values()))
    while at < longest:
        for lane, messages in lanes.items():
            yield from ((lane, message) for message in messages[at : at + 20])
        at += 20


def _frames(contents: Iterator[bytes]) -> bytes:
    return b"".join(len(content).to_bytes(8, "big") + content for content in contents)


def _templates(protocol: str) -> list[tuple[bytes, bytes]]:
    """Key and value JSON of recorded rows, with places for commit_ts, id and table."""
    recording = Recording(DEMO)
    config, codec = recording.feed_config(protocol), codec_of(protocol)
    results = []
    for lane, records in recording.messages(config).items():
        for position, (_, key, value) in enumerate(records):
            changes = [e for e in codec.envelopes(Message(lane, position, key, value)) if isinstance(e, Change)]
            results += [_template(change) for change in changes if (change.schema, change.table) == CUSTOMER]
    return [(key, value) for key, value in results if TEMPLATE_BYTES[0] <= len(value) <= TEMPLATE_BYTES[1]]


def _template(change: Change) -> tuple[bytes, bytes]:
    row_id = _id_of(change)
    places = ((str(change.commit_ts).encode(), _TS), (row_id, _ID), (b'"customer"', b'"' + _TABLE + b'"'))
    key, value = change.key, change.value
    for data, place in places:
        key, value = key.replace(data, place), value.replace(data, place)
    return key, value


def _id_of(change: Change) -> bytes:
    """Ids of this table are 19 digits long; in open-protocol the key has it, in canal-json it is the first text of data."""
    text = change.key.partition(b'"rid":')[2] if change.key else change.value.partition(b'"data":[{"id":"')[2]
    return text[: next(at for at, digit in enumerate(text) if digit not in b"-0123456789")]


def _filled(template: tuple[bytes, bytes], ts: int, number: int, table: bytes) -> tuple[bytes, bytes]:
    texts = ((_TS, str(CommitTs(ts)).encode()), (_ID, b"%d" % (number + 1)), (_TABLE, table))
    key, value = template
    for place, text in texts:
        key, value = key.replace(place, text), value.replace(place, text)
    return key, value
