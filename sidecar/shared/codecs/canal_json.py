"""canal-json with TiDB's extension: one row, DDL or resolved mark a message (tiflow `pkg/sink/codec/canal`).

    row        {"database","table","isDdl":false,"type":"INSERT|UPDATE|DELETE","data":[row],"old":[row]|null,"_tidb":{"commitTs"}}
    DDL        {"database","table","isDdl":true,"type":"CREATE|…","sql","data":null,"_tidb":{"commitTs"}}
    resolved   {"isDdl":false,"type":"TIDB_WATERMARK","data":null,"_tidb":{"watermarkTs"}}

Fields come in any order. Without `_tidb` (enable-tidb-extension, off by default) there is neither commit_ts nor a resolved
mark, and nothing can be ordered. Unknown fields are refused in `_tidb`, where TiCDC says that a row is not whole, and passed
over elsewhere. Of `data` and `old` only the shape is checked: one object.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct, field, json

from sidecar.shared.codecs.compression import Compression, NotCompressed, decompressed
from sidecar.shared.codecs.contract import IDENTITY_BYTES, Claim, Codec, KeyAlone, Part
from sidecar.shared.codecs.refusals import EXTENSION_HINT, JSON_ERRORS, large_message, not_a_mark, unreadable
from sidecar.shared.errors import FeedError, FeedUnsuitable
from sidecar.shared.model.nouns import (
    MARK_TABLE,
    Change,
    CommitTs,
    Ddl,
    Envelope,
    Mark,
    MarkKind,
    Message,
    Rank,
    Resolved,
    TableName,
    physical_ms,
)

_RANKS = {"INSERT": Rank.PUT, "UPDATE": Rank.PUT, "DELETE": Rank.DELETE}
_DDL_TYPES = frozenset(("CREATE", "RENAME", "CINDEX", "DINDEX", "ALTER", "ERASE", "TRUNCATE", "QUERY"))
_RESOLVED = "TIDB_WATERMARK"
_IN_A_FILE, _KEY_ALONE = b'"claimCheckLocation":"', b'"onlyHandleKey":true'
PART_BYTES_MAX = 64 << 10
"""A message of a row that is not whole has the handle key's columns alone, of at most 3,072 bytes, in up to two images."""

_Ts = Annotated[CommitTs, Meta(ge=1, le=2**63 - 1)]


class _Extension(Struct, forbid_unknown_fields=True, rename="camel", gc=False):
    commit_ts: _Ts | None = None
    watermark_ts: _Ts | None = None
    only_handle_key: bool = False
    claim_check_location: str = ""
    rowkey: str = ""


class _Columns(Struct, gc=False):
    """An object whose fields are skipped."""


class _Event(Struct, rename="camel", gc=False):
    database: str
    table: str
    is_ddl: bool
    type: str
    sql: str = ""
    data: tuple[_Columns] | None = None
    old: tuple[_Columns] | None = None
    tidb: _Extension | None = field(name="_tidb", default=None)


class _Images(Struct, gc=False):
    """What makes two messages the same change: neither `ts` (when it was built) nor `mysqlType` (a Go map, in random order)."""

    type: str
    data: Raw
    old: Raw = Raw(b"null")


class _Keys(Struct, gc=False):
    data: tuple[dict[str, Any]] | None = None
    old: tuple[dict[str, Any]] | None = None


class _MarkColumns(Struct, gc=False):
    changefeed_id: str
    unique_identifier: str
    event_type: Literal["1", "2"]


class _MarkRow(Struct, gc=False):
    data: tuple[_MarkColumns]


_decode_event = json.Decoder(_Event).decode
_decode_images = json.Decoder(_Images).decode
_decode_keys = json.Decoder(_Keys).decode
_decode_mark = json.Decoder(_MarkRow).decode


@dataclass(frozen=True, slots=True)
class CanalJson:
    """`Change.key` is the message's key (TiCDC sends none: empty), `Change.value` the message's value, decompressed."""

    compression: Compression = "none"

    @property
    def name(self) -> str:
        return "canal-json"

    def envelopes(self, message: Message) -> list[Envelope]:
        value = self._value(message)
        try:
            event = _decode_event(value)
        except JSON_ERRORS as error:
            raise unreadable(message, "value byte 0", form="the JSON of canal-json", got=error) from error
        extension = event.tidb
        if extension is None:
            raise _without_extension(message, event)
        if extension.only_handle_key or extension.claim_check_location:
            raise large_message(
                message,
                schema=event.database,
                table=event.table,
                commit_ts=extension.commit_ts,
                claim_check=extension.claim_check_location,
            )
        rank = None if event.is_ddl else _RANKS.get(event.type)
        if rank is not None:
            return [_change(message, event, rank, extension.commit_ts, value)]
        return [_ddl_or_resolved(message, event, extension)]

    def parts(self, message: Message) -> list[Part]:
        """As CodecWithParts. A message has one row."""
        if message.value is None or len(message.value) > PART_BYTES_MAX:
            return []
        value = self._value(message)
        if _IN_A_FILE not in value and _KEY_ALONE not in value:
            return []
        try:
            event, images = _decode_event(value), _decode_keys(value)
        except JSON_ERRORS as error:
            raise unreadable(message, "value byte 0", form="the JSON of canal-json", got=error) from error
        extension, table = event.tidb, TableName(event.database, event.table)
        if extension is None or extension.commit_ts is None:
            return []
        if extension.claim_check_location:
            return [Claim(extension.claim_check_location, table, extension.commit_ts)]
        if not extension.only_handle_key or images.data is None:
            return []
        (data,), old = images.data, images.old and images.old[0]
        return [KeyAlone(table, extension.commit_ts, *((data, None) if event.type == "DELETE" else (old, data)))]

    def identity(self, change: Change) -> Hashable:
        images = _decode_images(change.value)
        table = f"{change.schema}\0{change.table}\0{images.type}\0".lower().encode()
        return blake2b(b"".join((table, images.data, images.old)), digest_size=IDENTITY_BYTES).digest()

    def mark(self, change: Change) -> Mark | None:
        if change.rank is Rank.DELETE:
            return None
        try:
            (row,) = _decode_mark(change.value).data
        except JSON_ERRORS as error:
            raise not_a_mark(change, error) from error
        return Mark(change.commit_ts, row.changefeed_id, row.unique_identifier, MarkKind(int(row.event_type)))

    def _value(self, message: Message) -> bytes:
        if message.value is None:
            raise unreadable(message, "value byte 0", form="the JSON of canal-json", got="null")
        try:
            return decompressed(message.value, self.compression)
        except NotCompressed as error:
            raise unreadable(message, "value byte 0", form=f"a value compressed with {self.compression}", got=error) from error


def codec(compression: Compression) -> Codec:
    return CanalJson(compression)


def _without_extension(message: Message, event: _Event) -> FeedError:
    if event.is_ddl or event.type in _RANKS:
        what = f"a DDL of {event.database}" if event.is_ddl else f"a row of {event.database}.{event.table}"
        return FeedUnsuitable(f"{message.at()}: {what} has no `_tidb`, so no commit_ts to order it by", hint=EXTENSION_HINT)
    return unreadable(message, "value byte 0", form="a known type, with `_tidb`", got=f"type {event.type!r} without it")


def _change(message: Message, event: _Event, rank: Rank, commit_ts: CommitTs | None, value: bytes) -> Change:
    if commit_ts is None:
        raise unreadable(message, "value byte 0", form="`_tidb` of a row with commitTs", got="none")
    change = row_change(message, TableName(event.database, event.table), rank, commit_ts, value)
    if event.data is None:
        raise unreadable(message, "value byte 0", form="data of a row with one object", got="null")
    if event.type == "UPDATE" and event.old is None:
        raise unreadable(message, "value byte 0", form="old of an UPDATE with one object", got="null")
    return change


def row_change(message: Message, table: TableName, rank: Rank, commit_ts: CommitTs, value: bytes) -> Change:
    """Of a message that is one row. Raises MessageUnreadable for a table that cannot be one."""
    if not all(table) or "\0" in table.schema or "\0" in table.table:
        form = "database and table of a row, without NUL"
        raise unreadable(message, "value byte 0", form=form, got=f"{table.schema!r} and {table.table!r}")
    return Change(commit_ts, rank, table.schema, table.table, message.key or b"", value, message.lane, message.position)


def _ddl_or_resolved(message: Message, event: _Event, extension: _Extension) -> Ddl | Resolved:
    if event.is_ddl and event.type in _DDL_TYPES:
        if extension.commit_ts is None:
            raise unreadable(message, "value byte 0", form="`_tidb` of a DDL with commitTs", got="none")
        return Ddl(extension.commit_ts, Rank.DDL, event.database, event.table, event.sql, message.lane, message.position)
    if event.type == _RESOLVED and not event.is_ddl:
        if extension.watermark_ts is None:
            raise unreadable(message, "value byte 0", form=f"`_tidb` of {_RESOLVED} with watermarkTs", got="none")
        return Resolved(message.lane, extension.watermark_ts, message.position)
    form = f"type of a DDL: {', '.join(sorted(_DDL_TYPES))}" if event.is_ddl else f"type {', '.join(_RANKS)} or {_RESOLVED}"
    raise unreadable(message, "value byte 0", form=form, got=repr(event.type))


def encode_mark(
    *, commit_ts: int, row_id: int, changefeed_id: str, uuid: str, kind: MarkKind, previous: tuple[str, MarkKind] | None, now_ms: int
) -> tuple[bytes | None, bytes]:
    """Key and value of a message with one version of the watermark row, as TiCDC writes them. `previous` None makes it an insert."""

    def image(uuid: str, kind: MarkKind) -> list[dict[str, str]]:
        now_s = str(now_ms // 1000)
        row = {"id": str(row_id), "changefeed_id": changefeed_id, "unique_identifier": uuid, "event_type": str(int(kind))}
        return [{**row, "create_time": now_s, "update_time": now_s}]

    text, number = ("varchar", 12), ("int", 4)
    types = {
        "id": ("bigint", -5),
        "changefeed_id": text,
        "unique_identifier": text,
        "event_type": ("tinyint", -6),
        "create_time": number,
        "update_time": number,
    }
    value = _message(
        schema=MARK_TABLE.schema,
        table=MARK_TABLE.table,
        type="INSERT" if previous is None else "UPDATE",
        ts=commit_ts,
        now_ms=now_ms,
        row={
            "sqlType": {column: java for column, (_, java) in types.items()},
            "mysqlType": {column: mysql for column, (mysql, _) in types.items()},
            "old": None if previous is None else image(*previous),
            "data": image(uuid, kind),
        },
        extension={"commitTs": commit_ts},
    )
    return b"", value


def encode_resolved(ts: int, now_ms: int) -> tuple[bytes | None, bytes]:
    """Key (null) and value of a resolved mark."""
    no_row: dict[str, object] = {"sqlType": None, "mysqlType": None, "data": None, "old": None}
    return None, _message(schema="", table="", type=_RESOLVED, ts=ts, now_ms=now_ms, row=no_row, extension={"watermarkTs": ts})


def packed(value: bytes, pack: Callable[[bytes], bytes]) -> bytes:
    """TiCDC compresses the whole value."""
    return pack(value)


def _message(*, schema: str, table: str, type: str, ts: int, now_ms: int, row: dict[str, object], extension: dict[str, int]) -> bytes:
    """The fields in TiCDC's order; only the watermark row has a primary key here."""
    head = {"id": 0, "database": schema, "table": table, "pkNames": ["id"] if table else None, "isDdl": False, "type": type}
    times = {"es": physical_ms(ts), "ts": now_ms, "sql": ""}
    return json.encode({**head, **times, **row, "_tidb": extension})
