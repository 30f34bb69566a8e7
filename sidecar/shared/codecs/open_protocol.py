"""open-protocol: framed batches of JSON (tiflow `pkg/sink/codec/open`, and the same in the new architecture).

    message key     version 1, then N frames of key JSON         {"ts":…,"scm":…,"tbl":…,"t":1 row | 2 DDL | 3 resolved}
    message value   N frames of value JSON, paired by position   {"u":new,"p":old} | {"d":old} | {"q":sql,"t":type} | empty
    frame           length (8 bytes, big-endian), then so many bytes

A message may mix tables, kinds and commit_ts in any order. Inside a partition only rows of one group (a table, or a hash of the key) are
in order (cdc/sink/dmlsink/mq/worker.go). The key also has `rid` (integer handle), `ptn` (physical id of a partition), `ohk` and `ccl`
(large messages). Flags of a column: 1 binary, 2 handle key, 4 generated, 8 primary key, 16 unique, 32 composite key, 64 nullable,
128 unsigned; numbers and dates have bit 1 too. Decided here: commit_ts, table, and delete or put. Columns are
only checked to be an object. Unknown fields are refused in both JSONs: fields have been added to say that a row is not
whole (`ohk`, `ccl`), and the next one may say so too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, json

from sidecar.shared.codecs.compression import Compression, NotCompressed, decompressed
from sidecar.shared.codecs.contract import IDENTITY_BYTES, Claim, Codec, KeyAlone, Part
from sidecar.shared.codecs.refusals import JSON_ERRORS, large_message, not_a_mark, unreadable
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Ddl, Envelope, Mark, MarkKind, Message, Rank, Resolved, TableName

_LENGTH_BYTES = 8
_VERSION = 1
_ROW, _DDL, _RESOLVED = 1, 2, 3
_IN_A_FILE, _KEY_ALONE = b'"ccl":"', b'"ohk":true'
_NAMES = "scm and tbl of a row, without NUL"
_PUT, _DELETE = Rank.PUT, Rank.DELETE  # looked up once, not for each row

_length_at = struct.Struct(">Q").unpack_from


class _Key(Struct, forbid_unknown_fields=True, gc=False):
    """`rid` and `ptn` (row id, physical partition) are left to the key's own bytes."""

    ts: Annotated[CommitTs, Meta(ge=1, le=2**63 - 1)]
    t: int
    scm: str = ""
    tbl: str = ""
    rid: int = 0
    ptn: int = 0
    ohk: bool = False
    ccl: str = ""


class _Columns(Struct, gc=False):
    """An object whose fields are skipped."""


class _Row(Struct, forbid_unknown_fields=True, gc=False):
    u: _Columns | None = None
    p: _Columns | None = None
    d: _Columns | None = None


_Keys = dict[Literal["u", "p", "d"], dict[str, Any]]


class _Query(Struct, forbid_unknown_fields=True, gc=False):
    q: str
    t: int


class _Text(Struct, gc=False):
    v: str


class _Kind(Struct, gc=False):
    v: MarkKind


class _MarkColumns(Struct, gc=False):
    changefeed_id: _Text
    unique_identifier: _Text
    event_type: _Kind


class _MarkRow(Struct, gc=False):
    u: _MarkColumns


_decode_key = json.Decoder(_Key).decode
_decode_row = json.Decoder(_Row).decode
_decode_query = json.Decoder(_Query).decode
_decode_mark = json.Decoder(_MarkRow).decode
_decode_keys = json.Decoder(_Keys).decode


@dataclass(frozen=True, slots=True)
class OpenProtocol:
    """`Change.key` and `Change.value` are the row's key JSON and value JSON, without frames and decompressed."""

    compression: Compression = "none"

    @property
    def name(self) -> str:
        return "open-protocol"

    def envelopes(self, message: Message) -> list[Envelope]:
        keys = _frames(message, "key", message.key, start=_after_version(message))
        values = _frames(message, "value", message.value, start=0)
        if len(keys) != len(values):
            raise unreadable(message, "value byte 0", form=f"{len(keys)} values for {len(keys)} keys", got=f"{len(values)} values")
        return [self._envelope(message, number, key, value) for number, (key, value) in enumerate(zip(keys, values, strict=True))]

    def parts(self, message: Message) -> list[Part]:
        """As CodecWithParts."""
        if message.key is None or (_IN_A_FILE not in message.key and _KEY_ALONE not in message.key):
            return []
        keys = _frames(message, "key", message.key, start=_after_version(message))
        values = _frames(message, "value", message.value, start=0)
        if len(keys) != len(values):
            return []  # `envelopes` refuses it
        parts: list[Part] = []
        for number, (key, value) in enumerate(zip(keys, values, strict=True)):
            head = self._head(message, number, key)
            table = TableName(head.scm, head.tbl)
            if head.ccl:
                parts.append(Claim(head.ccl, table, head.ts))
            elif head.ohk:
                row = self._keys(message, number, value)
                parts.append(KeyAlone(table, head.ts, row.get("p", row.get("d")), row.get("u")))
            else:
                parts.append((message.key[:_LENGTH_BYTES] + _framed(key), _framed(value)))
        return parts

    def _keys(self, message: Message, number: int, value: bytes) -> _Keys:
        try:
            return _decode_keys(self._decompressed(message, number, value))
        except JSON_ERRORS as error:
            raise _unreadable_event(message, "value", number, form="the JSON of a row", got=error) from error

    def identity(self, change: Change) -> Hashable:
        """The key holds table, row id and partition, the table in any case; TiCDC writes the columns in one order, so equal images are
        equal bytes."""
        return blake2b(change.key.lower() + change.value, digest_size=IDENTITY_BYTES).digest()

    def mark(self, change: Change) -> Mark | None:
        if change.rank is Rank.DELETE:
            return None
        try:
            row = _decode_mark(change.value).u
        except JSON_ERRORS as error:
            raise not_a_mark(change, error) from error
        return Mark(change.commit_ts, row.changefeed_id.v, row.unique_identifier.v, row.event_type.v)

    def _envelope(self, message: Message, number: int, key: bytes, value: bytes) -> Envelope:
        head = self._head(message, number, key)
        if head.ohk or head.ccl:
            raise large_message(message, schema=head.scm, table=head.tbl, commit_ts=head.ts, claim_check=head.ccl)
        if head.t != _ROW:
            return self._ddl_or_resolved(message, number, head, value)
        if not (head.scm and head.tbl) or "\0" in head.scm or "\0" in head.tbl:
            raise _unreadable_event(message, "key", number, form=_NAMES, got=key.decode(errors="replace"))
        if self.compression != "none":
            value = self._decompressed(message, number, value)
        try:
            row = _decode_row(value)
        except JSON_ERRORS as error:
            raise _unreadable_event(message, "value", number, form="the JSON of a row", got=error) from error
        if row.d is None and row.u is not None:
            rank = _PUT
        elif row.d is not None and row.u is None and row.p is None:
            rank = _DELETE
        else:
            raise _unreadable_event(message, "value", number, form="either u (with or without p) or d", got=_fields(row))
        return Change(head.ts, rank, head.scm, head.tbl, key, value, message.lane, message.position)

    def _head(self, message: Message, number: int, key: bytes) -> _Key:
        try:
            return _decode_key(key)
        except JSON_ERRORS as error:
            raise _unreadable_event(message, "key", number, form="the JSON of a key", got=error) from error

    def _ddl_or_resolved(self, message: Message, number: int, head: _Key, value: bytes) -> Ddl | Resolved:
        if head.t == _RESOLVED:
            if value:
                raise _unreadable_event(message, "value", number, form="an empty value of a resolved mark", got=f"{len(value)} bytes")
            return Resolved(message.lane, head.ts, message.position)
        if head.t != _DDL:
            raise _unreadable_event(message, "key", number, form="t of 1 (row), 2 (DDL) or 3 (resolved)", got=head.t)
        try:
            query = _decode_query(self._decompressed(message, number, value))
        except JSON_ERRORS as error:
            raise _unreadable_event(message, "value", number, form="the JSON of a DDL", got=error) from error
        return Ddl(head.ts, Rank.DDL, head.scm, head.tbl, query.q, message.lane, message.position)

    def _decompressed(self, message: Message, number: int, value: bytes) -> bytes:
        try:
            return decompressed(value, self.compression)
        except NotCompressed as error:
            raise _unreadable_event(message, "value", number, form=f"a value compressed with {self.compression}", got=error) from error


def codec(compression: Compression) -> Codec:
    return OpenProtocol(compression)


def _fields(row: _Row) -> str:
    return " and ".join(name for name in ("u", "p", "d") if getattr(row, name) is not None) or "neither"


def _after_version(message: Message) -> int:
    """Where the key's frames begin."""
    if message.key is None or len(message.key) < _LENGTH_BYTES:
        text = "null" if message.key is None else f"{len(message.key)} bytes"
        raise unreadable(message, "key byte 0", form="the 8 bytes of a version", got=text)
    (version,) = _length_at(message.key)
    if version != _VERSION:
        raise unreadable(message, "key byte 0", form=f"version {_VERSION}", got=version)
    return _LENGTH_BYTES


def _frames(message: Message, part: str, data: bytes | None, *, start: int) -> list[bytes]:
    """The contents of the frames from `start` to the very end; at least one."""
    if data is None:
        raise unreadable(message, f"{part} byte 0", form="frames", got="null")
    frames: list[bytes] = []
    at, end = start, len(data)
    while True:
        content = at + _LENGTH_BYTES
        if content > end:
            raise unreadable(message, f"{part} byte {at}", form="the 8 bytes of a length", got=f"{end - at} bytes")
        (length,) = _length_at(data, at)
        at = content + length
        if at > end:
            raise unreadable(message, f"{part} byte {content}", form=f"{length} bytes", got=f"{end - content} bytes")
        frames.append(data[content:at])
        if at == end:
            return frames


def _unreadable_event(message: Message, part: str, number: int, *, form: str, got: object) -> MessageUnreadable:
    """`number` counts the message's events from 0; a second walk over the frames gives its offset."""
    data, start = (message.key, _after_version(message)) if part == "key" else (message.value, 0)
    before = _frames(message, part, data, start=start)[:number]
    offset = start + sum(_LENGTH_BYTES + len(frame) for frame in before) + _LENGTH_BYTES
    return unreadable(message, f"{part} byte {offset} (event {number})", form=form, got=got)


def encode_mark(
    *, commit_ts: int, row_id: int, changefeed_id: str, uuid: str, kind: MarkKind, previous: tuple[str, MarkKind] | None, now_ms: int
) -> tuple[bytes | None, bytes]:
    """Key and value of a message with one version of the watermark row, shaped as the classic architecture writes them:
    columns sorted by name, `rid` omitted when 0. `previous` None makes it an insert."""

    def columns(uuid: str, kind: MarkKind) -> dict[str, dict[str, object]]:
        return {
            "changefeed_id": {"t": 15, "f": 16, "v": changefeed_id},
            "create_time": {"t": 3, "f": 1, "v": now_ms // 1000},
            "event_type": {"t": 1, "f": 1, "v": kind},
            "id": {"t": 8, "h": True, "f": 11, "v": row_id},
            "unique_identifier": {"t": 15, "f": 0, "v": uuid},
            "update_time": {"t": 3, "f": 1, "v": now_ms // 1000},
        }

    row_id_field = {"rid": row_id} if row_id else {}
    key = {"ts": commit_ts, "scm": MARK_TABLE.schema, "tbl": MARK_TABLE.table, **row_id_field, "t": _ROW}
    row = {"u": columns(uuid, kind)} if previous is None else {"u": columns(uuid, kind), "p": columns(*previous)}
    return _framed_key(json.encode(key)), _framed(json.encode(row))


def encode_resolved(ts: int, now_ms: int) -> tuple[bytes | None, bytes]:  # noqa: ARG001  (each protocol's takes both)
    """Key and value of a resolved mark."""
    return _framed_key(json.encode({"ts": ts, "t": _RESOLVED})), _framed(b"")


def packed(value: bytes, pack: Callable[[bytes], bytes]) -> bytes:
    """TiCDC compresses what is in each frame; the empty value of a resolved mark stays empty."""
    data, at = b"", 0
    while at < len(value):
        start = at + _LENGTH_BYTES
        at = start + _length_at(value, at)[0]
        data += _framed(pack(value[start:at]) if at > start else b"")
    return data


def _framed_key(content: bytes) -> bytes:
    return _VERSION.to_bytes(_LENGTH_BYTES, "big") + _framed(content)


def _framed(content: bytes) -> bytes:
    return len(content).to_bytes(_LENGTH_BYTES, "big") + content
