"""simple: one row, DDL, resolved mark or table's form a message (pingcap/ticdc `pkg/sink/codec/simple`).

    row        {"version":1,"database","table","tableID","type":"INSERT|UPDATE|DELETE","commitTs","buildTs","schemaVersion",
                "data":after,"old":before}
    DDL        {"version":1,"type":"CREATE|…","sql","commitTs","buildTs","tableSchema":after,"preTableSchema":before}
    resolved   {"version":1,"type":"WATERMARK","commitTs","buildTs"}
    BOOTSTRAP  {"version":1,"type":"BOOTSTRAP","commitTs":0,"buildTs","tableSchema"}: a table's form, for those who know it from here alone

A row is {column: text or null}; a TIMESTAMP is {"location","value"}, with the zone of its text. A row has no types.

What a table is at a commit_ts this product has from TiDB, as for each protocol. So BOOTSTRAP, which can be late or missing (v7.5.2 sends
none), and `schemaVersion` are of no use here, and no row waits for them.

TiCDC says in fields at the top that a row is not whole: unknown ones are refused there. Whether it has the checksum with which it was
written (`checksum`) is judged where the row is decoded, as all of its values: an operator can skip it there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct, field, json

from sidecar.shared.codecs.canal_json import PART_BYTES_MAX, row_change
from sidecar.shared.codecs.compression import Compression, NotCompressed, decompressed
from sidecar.shared.codecs.contract import IDENTITY_BYTES, Claim, Codec, KeyAlone, Part, TableDescription
from sidecar.shared.codecs.refusals import JSON_ERRORS, large_message, not_a_mark, unreadable
from sidecar.shared.model.nouns import MARK_TABLE, Change, CommitTs, Ddl, Envelope, Mark, MarkKind, Message, Rank, Resolved, TableName
from sidecar.shared.sql.lexer import tokens

_VERSION = 1
_RANKS = {"INSERT": Rank.PUT, "UPDATE": Rank.PUT, "DELETE": Rank.DELETE}
_DDL_TYPES = frozenset(("CREATE", "RENAME", "CINDEX", "DINDEX", "ALTER", "ERASE", "TRUNCATE", "QUERY"))
_DATABASE_OPTIONS = frozenset(("DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "PLACEMENT", "SET", "READ"))
_RESOLVED, _BOOTSTRAP = "WATERMARK", "BOOTSTRAP"
_TABLE = b'"tableSchema":{'
_IN_A_FILE, _KEY_ALONE = b'"claimCheckLocation":"', b'"handleKeyOnly":true'

_FORM = "the JSON of simple"

READ_ROW_HEAD = b'{"version":1,'
"""How `encode_row` begins, and no value of another protocol: canal-json's `id` comes first, a frame of open-protocol is no text, and nor is
what is compressed; open-protocol's rows begin with their image."""


class _Columns(Struct, gc=False):
    """An object whose fields are skipped."""


class _Table(Struct, gc=False):
    schema: str
    table: str


class RowChecksum(Struct, gc=False):
    """`corrupted`: TiCDC computed another one than the row was written with."""

    corrupted: bool


class _Event(Struct, forbid_unknown_fields=True, rename="camel", gc=False):
    version: int
    type: str
    commit_ts: Annotated[CommitTs, Meta(ge=0, le=2**63 - 1)]
    build_ts: int
    database: str = ""
    table: str = ""
    table_id: int = field(name="tableID", default=0)
    sql: str = ""
    schema_version: int = 0
    checksum: RowChecksum | None = None
    claim_check_location: str = ""
    handle_key_only: bool = False
    unread: str = ""
    data: _Columns | None = None
    old: _Columns | None = None
    table_schema: _Table | None = None
    pre_table_schema: _Table | None = None


class _FormColumn(Struct, gc=False):
    name: str


class _FormTable(Struct, gc=False):
    schema: str
    table: str
    columns: list[_FormColumn] = []

    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


class _Form(Struct, rename="camel", gc=False):
    build_ts: int = 0
    sql: str = ""
    table_schema: _FormTable | None = None
    pre_table_schema: _FormTable | None = None


class _Images(Struct, gc=False):
    """What makes two messages the same change: not `buildTs`, when the message was built. Go writes the columns in one order."""

    type: str
    data: Raw = Raw(b"null")
    old: Raw = Raw(b"null")


class _Keys(Struct, gc=False):
    data: dict[str, Any] | None = None
    old: dict[str, Any] | None = None


class _MarkColumns(Struct, gc=False):
    changefeed_id: str
    unique_identifier: str
    event_type: Literal["1", "2"]


class _MarkRow(Struct, gc=False):
    data: _MarkColumns


_decode_event = json.Decoder(_Event).decode
_decode_images = json.Decoder(_Images).decode
_decode_form = json.Decoder(_Form).decode
_decode_keys = json.Decoder(_Keys).decode
_decode_mark = json.Decoder(_MarkRow).decode


@dataclass(frozen=True, slots=True)
class Simple:
    """`Change.key` is the message's key (TiCDC sends none: empty), `Change.value` the message's value, decompressed."""

    compression: Compression = "none"

    @property
    def name(self) -> str:
        return "simple"

    def envelopes(self, message: Message) -> list[Envelope]:
        """None for the form of a table alone."""
        value = self._value(message)
        event = _event(message, value)
        if event.type == _BOOTSTRAP:
            return []
        if not event.commit_ts:
            raise unreadable(message, "value byte 0", form="commitTs of 1 or more", got=0)
        if event.type == _RESOLVED:
            return [Resolved(message.lane, event.commit_ts, message.position)]
        if (rank := _RANKS.get(event.type)) is not None:
            return [_change(message, event, rank, value)]
        return [_ddl(message, event)]

    def parts(self, message: Message) -> list[Part]:
        """As CodecWithParts. A message has one row."""
        if message.value is None or len(message.value) > PART_BYTES_MAX:
            return []
        value = self._value(message)
        if _IN_A_FILE not in value and _KEY_ALONE not in value:
            return []
        event = _event(message, value)
        table = TableName(event.database, event.table)
        if not event.commit_ts:
            return []
        if event.claim_check_location:
            return [Claim(event.claim_check_location, table, event.commit_ts)]
        if not event.handle_key_only:
            return []
        images = _decode_keys(value)
        return [KeyAlone(table, event.commit_ts, images.old, images.data)]

    def form(self, message: Message) -> TableDescription | None:
        """As CodecWithDescriptions."""
        if message.value is None or _TABLE not in (value := self._value(message)):
            return None
        try:
            form = _decode_form(value)
        except JSON_ERRORS as error:
            raise unreadable(message, "value byte 0", form=_FORM, got=error) from error
        if (table := form.table_schema) is None:
            return None
        before = None if form.pre_table_schema is None else form.pre_table_schema.names()
        return TableDescription(TableName(table.schema, table.table), table.names(), before, form.sql, form.build_ts)

    def identity(self, change: Change) -> Hashable:
        images = _decode_images(change.value)
        table = f"{change.schema}\0{change.table}\0{images.type}\0".lower().encode()
        return blake2b(b"".join((table, images.data, b"\0", images.old)), digest_size=IDENTITY_BYTES).digest()

    def mark(self, change: Change) -> Mark | None:
        if change.rank is Rank.DELETE:
            return None
        try:
            row = _decode_mark(change.value).data
        except JSON_ERRORS as error:
            raise not_a_mark(change, error) from error
        return Mark(change.commit_ts, row.changefeed_id, row.unique_identifier, MarkKind(int(row.event_type)))

    def _value(self, message: Message) -> bytes:
        if message.value is None:
            raise unreadable(message, "value byte 0", form=_FORM, got="null")
        try:
            return decompressed(message.value, self.compression)
        except NotCompressed as error:
            raise unreadable(message, "value byte 0", form=f"a value compressed with {self.compression}", got=error) from error


def codec(compression: Compression) -> Codec:
    return Simple(compression)


def _event(message: Message, value: bytes) -> _Event:
    try:
        event = _decode_event(value)
    except JSON_ERRORS as error:
        raise unreadable(message, "value byte 0", form=_FORM, got=error) from error
    if event.version != _VERSION:
        raise unreadable(message, "value byte 0", form=f"version {_VERSION}", got=event.version)
    return event


def _change(message: Message, event: _Event, rank: Rank, value: bytes) -> Change:
    if event.handle_key_only or event.claim_check_location:
        raise large_message(
            message, schema=event.database, table=event.table, commit_ts=event.commit_ts, claim_check=event.claim_check_location
        )
    if (event.data is None) is not (rank is Rank.DELETE) or (event.old is None) is not (event.type == "INSERT"):
        images = " and ".join(name for name in ("data", "old") if getattr(event, name) is not None) or "neither"
        form = "data of an INSERT, old of a DELETE, both of an UPDATE"
        raise unreadable(message, "value byte 0", form=form, got=f"{images} of type {event.type}")
    return row_change(message, TableName(event.database, event.table), rank, event.commit_ts, value)


def _ddl(message: Message, event: _Event) -> Ddl:
    if event.type not in _DDL_TYPES:
        form = f"type {', '.join(_RANKS)}, {_RESOLVED}, {_BOOTSTRAP}, or of a DDL: {', '.join(sorted(_DDL_TYPES))}"
        raise unreadable(message, "value byte 0", form=form, got=repr(event.type))
    table = event.table_schema or event.pre_table_schema
    name = TableName(table.schema, table.table) if table else TableName(_database(message, event.sql), "")
    return Ddl(event.commit_ts, Rank.DDL, *name, event.sql, message.lane, message.position)


def _database(message: Message, query: str) -> str:
    """Of a DDL that has no table, which its text alone names. Empty: that of the session, which the text does not say."""
    words = [token for token in tokens(query) if token.kind != "end"]
    heads = [token.value for token in words[:2]]
    if len(words) < 2 or heads[0] not in ("CREATE", "DROP", "ALTER") or heads[1] not in ("DATABASE", "SCHEMA"):
        raise unreadable(message, "value byte 0", form="tableSchema of a DDL that is of no database", got=query[:200])
    at = 2
    while at < len(words) and words[at].kind == "word" and words[at].value in ("IF", "NOT", "EXISTS"):
        at += 1
    is_named = at < len(words) and (heads[0] != "ALTER" or words[at].kind == "name" or words[at].value not in _DATABASE_OPTIONS)
    return words[at].name if is_named else ""


def encode_row(table: TableName, commit_ts: CommitTs, *, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> bytes:
    """The value of a message of a row; cells as sidecar/shared/columns/simple.py writes them, by column."""
    kind = "DELETE" if after is None else "INSERT" if before is None else "UPDATE"
    head = {"version": _VERSION, "database": table.schema, "table": table.table, "type": kind, "commitTs": commit_ts, "buildTs": 0}
    images = {name: dict(sorted(image.items())) for name, image in (("data", after), ("old", before)) if image is not None}
    return json.encode(head | images)


def encode_unread_row(table: TableName, commit_ts: CommitTs, *, deleted: bool, why: str) -> bytes:
    """As encode_row, of a row that cannot be read any more: the decoder refuses it with these words."""
    kind, image = ("DELETE", "old") if deleted else ("INSERT", "data")
    head = {"version": _VERSION, "database": table.schema, "table": table.table, "type": kind, "commitTs": commit_ts, "buildTs": 0}
    return json.encode(head | {"unread": why, image: {}})


def encode_mark(
    *, commit_ts: int, row_id: int, changefeed_id: str, uuid: str, kind: MarkKind, previous: tuple[str, MarkKind] | None, now_ms: int
) -> tuple[bytes | None, bytes]:
    """Key and value of a message with one version of the watermark row, as TiCDC writes them. `previous` None makes it an insert."""

    def image(uuid: str, kind: MarkKind) -> dict[str, str]:
        now_s = str(now_ms // 1000)
        times = {"create_time": now_s, "update_time": now_s}
        row = {"changefeed_id": changefeed_id, "event_type": str(int(kind)), "id": str(row_id), "unique_identifier": uuid}
        return dict(sorted({**row, **times}.items()))

    head = {
        "version": _VERSION,
        "database": MARK_TABLE.schema,
        "table": MARK_TABLE.table,
        "type": "INSERT" if previous is None else "UPDATE",
        "commitTs": commit_ts,
        "buildTs": now_ms,
    }
    old = {} if previous is None else {"old": image(*previous)}
    return b"", json.encode({**head, "data": image(uuid, kind), **old})


def encode_resolved(ts: int, now_ms: int) -> tuple[bytes | None, bytes]:
    """Key (null) and value of a resolved mark."""
    return None, json.encode({"version": _VERSION, "type": _RESOLVED, "commitTs": ts, "buildTs": now_ms})


def packed(value: bytes, pack: Callable[[bytes], bytes]) -> bytes:
    """TiCDC compresses the whole value."""
    return pack(value)
