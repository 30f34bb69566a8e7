"""Rows of TiCDC's storage sink in csv, as a protocol of our own: the storage feed makes a message of each row of a file.

    row             {"type":"INSERT|UPDATE|DELETE","database","table","columns":[name],"binary":"base64|hex","data":[[text|null]],
                     "old":[[text|null]],"_tidb":{"commitTs"},"isDdl":false}
    DDL, resolved   as of canal-json (canal_json.py), made by the feed too

- `columns` are the schema file's, in its order; rows lack the virtual generated ones. `binary`: how binary values are written.
- An UPDATE without `old` comes from a changefeed without old values. Its key has not changed: TiCDC sends a delete and an insert then.
- A row's message begins with its type, in the order of CsvMessage. No message of canal-json does.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, UnsetType, field, json

from sidecar.shared.codecs.canal_json import CanalJson, row_change
from sidecar.shared.codecs.refusals import JSON_ERRORS, not_a_mark, unreadable
from sidecar.shared.model.nouns import Change, CommitTs, Envelope, Mark, MarkKind, Message, Rank, TableName

CODEC = "csv"

_ROW_HEAD = b'{"type":'
_OTHERS = CanalJson()

RowType = Literal["INSERT", "UPDATE", "DELETE"]
Texts = list[str | None]


class CsvExtension(Struct, rename="camel", gc=False):
    commit_ts: Annotated[CommitTs, Meta(ge=1, le=2**63 - 1)]


class CsvMessage(Struct, rename={"tidb": "_tidb", "is_ddl": "isDdl"}, gc=False):
    """`columns`: a JSON array of the names."""

    type: RowType
    database: str
    table: str
    columns: Raw
    binary: Literal["base64", "hex"]
    data: tuple[Texts]
    old: tuple[Texts] | UnsetType
    tidb: CsvExtension
    is_ddl: bool = False


class _Row(Struct, gc=False):
    """What order needs."""

    type: RowType
    database: str
    table: str
    data: tuple[Raw]
    tidb: CsvExtension = field(name="_tidb")


class _NamedRow(Struct, gc=False):
    columns: list[str]
    data: tuple[Texts]


encode_row = json.Encoder().encode
"""Of a CsvMessage."""

_decode_row = json.Decoder(_Row).decode
_decode_named = json.Decoder(_NamedRow).decode


@dataclass(frozen=True, slots=True)
class CsvCodec:
    """`Change.key` is empty, `Change.value` the message's value."""

    @property
    def name(self) -> str:
        return CODEC

    def envelopes(self, message: Message) -> list[Envelope]:
        value = message.value
        if value is None or not value.startswith(_ROW_HEAD):
            return _OTHERS.envelopes(message)
        try:
            row = _decode_row(value)
        except JSON_ERRORS as error:
            raise unreadable(message, "value byte 0", form="the JSON of a row of csv", got=error) from error
        rank = Rank.DELETE if row.type == "DELETE" else Rank.PUT
        return [row_change(message, TableName(row.database, row.table), rank, row.tidb.commit_ts, value)]

    def identity(self, change: Change) -> Hashable:
        return _OTHERS.identity(change)

    def mark(self, change: Change) -> Mark | None:
        if change.rank is Rank.DELETE:
            return None
        try:
            row = _decode_named(change.value)
            texts = {name: text for name, text in zip(row.columns, row.data[0], strict=True) if text is not None}
            return Mark(change.commit_ts, texts["changefeed_id"], texts["unique_identifier"], MarkKind(int(texts["event_type"])))
        except (*JSON_ERRORS, ValueError, KeyError) as error:
            raise not_a_mark(change, error) from error
