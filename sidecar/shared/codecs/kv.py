"""Raw key-values as a protocol: the message bytes that a key-value feed makes of what it pulled, and what the log keeps of them.

    row        key    the raw row key                           value   commit_ts u64, size of new u32, new, old
    resolved   key    null                                      value   R, ts u64
    DDL        key    null                                      value   D, JSON {"ts", "schema", "table", "query"}
    in the log: Change.key the raw row key, Change.value the row's value without commit_ts; all integers big-endian

- New empty: deleted. Old empty: there was no row before. One of them is there.
- The table of a row is not known here: until `feeds/kv/schemas.py` names it, the schema is empty and the table is the
  physical id in the key, as text.
- A DDL without schema, table and query is a cut that reaches no sink: the tables change there, and TiCDC would send nothing
  (a step of a job that runs, a table that is not replicated, an ignored event).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct, json

from sidecar.shared.codecs.contract import IDENTITY_BYTES
from sidecar.shared.codecs.refusals import JSON_ERRORS, not_a_mark
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Envelope, Mark, MarkKind, Message, Rank, Resolved
from sidecar.shared.rowcodec.key_values import KvEntry
from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_key import HANDLE_AT, KEYSPACE_BYTES, record_key
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.rowcodec.kv_table import KvTable

CODEC = "kv"

_HINT = "this message was made in this process from what was pulled: report this text"

_PREFIXES_MAX = 65_536
"""Tables and partitions whose ids are kept as text."""

_RESOLVED, _DDL = b"R", b"D"
_row_head, _ts, _size = struct.Struct(">QI"), struct.Struct(">Q"), struct.Struct(">I")
_TS_BYTES, _SIZE_BYTES, _HEAD_BYTES = _ts.size, _size.size, _row_head.size
_PUT, _DELETE = Rank.PUT, Rank.DELETE
_KEYSPACE_MARK = ord("x")


class _Ddl(Struct, forbid_unknown_fields=True):
    ts: int
    schema: str
    table: str
    query: str


class KvImages(NamedTuple):
    """`new` empty: deleted; `old` empty: there was no row before."""

    new: bytes
    old: bytes


_decode_ddl = json.Decoder(_Ddl).decode


def encode_row(entry: KvEntry) -> bytes:
    """The value of a row's message; its key is the entry's."""
    return _row_head.pack(entry.commit_ts, len(entry.value)) + entry.value + entry.old


def encode_resolved(ts: CommitTs) -> bytes:
    return _RESOLVED + _ts.pack(ts)


def resolved_of(message: Message) -> CommitTs:
    """The inverse of `encode_resolved`. Raises MessageUnreadable."""
    value = message.value or b""
    if value[:1] != _RESOLVED or len(value) != 1 + _TS_BYTES:
        raise _unreadable(message, "R and eight bytes", value[:16].hex() or "no bytes")
    return CommitTs(_ts.unpack_from(value, 1)[0])


def encode_ddl(commit_ts: CommitTs, schema: str, table: str, query: str) -> bytes:
    return _DDL + json.encode(_Ddl(commit_ts, schema, table, query))


def images_of(value: bytes) -> KvImages:
    """The inverse of a Change's value. Raises ValueError."""
    if len(value) < _SIZE_BYTES or _SIZE_BYTES + _size.unpack_from(value)[0] > len(value):
        raise ValueError(f"{len(value)} bytes that are no pair of images")
    end = _SIZE_BYTES + _size.unpack_from(value)[0]
    return KvImages(value[_SIZE_BYTES:end], value[end:])


def encode_images(new: bytes, old: bytes) -> bytes:
    """A Change's value."""
    return _size.pack(len(new)) + new + old


@dataclass(frozen=True, slots=True)
class KvCodec:
    """`mark_table`: what decodes the watermark table's rows; called at each mark."""

    mark_table: Callable[[], KvTable]

    @property
    def name(self) -> str:
        return CODEC

    def envelopes(self, message: Message) -> list[Envelope]:
        lane, position, key, value, _ = message
        if value is None:
            raise _unreadable(message, "a value", "null")
        if key is None:
            return [ddl_or_resolved(message, value)]
        if len(value) <= _HEAD_BYTES:
            raise _unreadable(message, f"more than {_HEAD_BYTES} bytes of a row", f"{len(value)} bytes")
        commit_ts, size = _row_head.unpack_from(value)
        if _HEAD_BYTES + size > len(value):
            raise _unreadable(message, f"a new value of {size} bytes", f"{len(value) - _HEAD_BYTES} bytes")
        rank = _PUT if size else _DELETE
        return [Change(commit_ts, rank, "", _physical_id(message, key), key, value[_TS_BYTES:], lane, position)]

    def identity(self, change: Change) -> Hashable:
        """A key is committed once at one commit_ts. What the key had before and after is in it all the same: two that contradict
        each other are two."""
        return blake2b(change.key + change.value, digest_size=IDENTITY_BYTES).digest()

    def mark(self, change: Change) -> Mark | None:
        if change.rank is _DELETE:
            return None
        table = self.mark_table()
        try:
            return mark_of(change.commit_ts, table, decode_row(table, change.key, images_of(change.value).new))
        except (MessageUnreadable, ValueError, KeyError) as error:
            raise not_a_mark(change, error) from error


def mark_of(commit_ts: CommitTs, table: KvTable, row: Sequence[str | None]) -> Mark:
    """A row of the watermark table, in its columns. Raises ValueError, KeyError for one that is no mark."""
    texts = dict(zip(table.schema.column_names(), row, strict=True))
    changefeed_id, uuid, kind = texts["changefeed_id"], texts["unique_identifier"], texts["event_type"]
    if changefeed_id is None or uuid is None or kind is None:
        raise ValueError(f"NULL in {texts}")
    return Mark(commit_ts, changefeed_id, uuid, MarkKind(int(kind)))


def _physical_id(message: Message, key: bytes) -> str:
    bare = KEYSPACE_BYTES if key[:1] == b"x" else 0
    try:
        return _id_text(key[: bare + HANDLE_AT])
    except Broken as broken:
        raise _unreadable(message, f"key byte {broken.at}: {broken.form}", f"{broken.got} in {key.hex()}") from broken


@lru_cache(maxsize=_PREFIXES_MAX)
def _id_text(prefix: bytes) -> str:
    """Of a key up to its handle, which any eight bytes are."""
    return str(record_key(prefix + bytes(8)).table_id)


def ddl_or_resolved(message: Message, value: bytes) -> Ddl | Resolved:
    """Of a message that `encode_ddl` or `encode_resolved` made. Raises MessageUnreadable."""
    lane, position = message.lane, message.position
    match value[:1]:
        case b"R" if len(value) == 1 + _TS_BYTES:
            return Resolved(lane, CommitTs(_ts.unpack_from(value, 1)[0]), position)
        case b"D":
            try:
                ddl = _decode_ddl(value[1:])
            except JSON_ERRORS as error:
                raise _unreadable(message, "the JSON of a DDL", str(error)) from error
            return Ddl(CommitTs(ddl.ts), Rank.DDL, ddl.schema, ddl.table, ddl.query, lane, position)
        case _:
            raise _unreadable(message, "R and eight bytes, or D and JSON", value[:16].hex() or "no bytes")


def _unreadable(message: Message, form: str, value: str) -> MessageUnreadable:
    return MessageUnreadable(f"{message.at()}: expected {form}; got {value}", hint=_HINT)
