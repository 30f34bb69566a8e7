"""canal-json with TiDB's extension, as TiCDC of either architecture writes it: one row, DDL or resolved mark a message.

    row                    {"id","database","table","pkNames","isDdl","type","es","ts","sql","sqlType","mysqlType","old","data","_tidb"}
    DDL, resolved mark     the same with "data" before "old", and null from "sqlType" on and in "pkNames"

Byte for byte TiCDC's, but for what no two of its own messages need have in common either:

- `ts` is the moment at which TiCDC built the message. Here it is `es`, the commit's: a message is a function of the log alone, and a task
  that is done again writes the same bytes;
- `mysqlType` is a Go map there, its fields come in random order. Here they come in the table's.

Both architectures write the same of the same row. A row's key is empty, a DDL's and a mark's null. Source: tiflow
pkg/sink/codec/canal/canal_json_row_event_encoder.go, ticdc pkg/sink/codec/canal/canal_json_encoder.go; the recordings.

Options, besides those in messages.py; what an encoder does not know it leaves alone:

    enable-tidb-extension                   must be true: without it there is neither commit_ts nor a resolved mark
    only-output-updated-columns             `old` has the columns alone that have changed: false
    content-compatible                      types with their lengths and labels, and only-output-updated-columns: false
    output-row-key, large-message-handle-compression    refused
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import repeat
from typing import TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw, json

from sidecar.shared.columns.values import UnfitValue
from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import TSO_LOGICAL_BITS, CommitTs, TableSchema, physical_ms
from spark_merge.codecs.encode.block import halved, of_changes
from spark_merge.codecs.encode.canal_ddl import canal_word
from spark_merge.codecs.encode.canal_texts import canal_texts
from spark_merge.codecs.encode.canal_types import CanalColumn, CanalTable, canal_table
from spark_merge.codecs.encode.easy_json import quoted
from spark_merge.codecs.encode.handle_key import fields_of, json_object, key_columns
from spark_merge.codecs.encode.local_time import zone_of
from spark_merge.codecs.encode.messages import Architecture, RowMessage
from spark_merge.port.contract import CHANGES

_ROW_KEY = b""
_TABLES_MAX = 4096
"""Tables of which what their messages have in common is kept in a worker."""

_BLOCK_ROWS_MAX = 8192
_BLOCK_BYTES_MAX = 64 << 20
"""Of canonical text, which may grow sixfold; Arrow's arrays of text end at 2 GiB."""

_TRUE, _FALSE = frozenset({"1", "t", "T", "true", "TRUE", "True"}), frozenset({"", "0", "f", "F", "false", "FALSE", "False"})
"""As Go's strconv.ParseBool; empty: not given."""

_NOT_HERE = {
    "output-row-key": _FALSE,
    "large-message-handle-compression": frozenset({"", "none"}),
}
"""Options that change the bytes in a way that is not known here, with the values that do not."""

_images_of = json.Decoder(list[Raw] | None).decode

_Part: TypeAlias = "str | pa.Array"
"""Of a message: the same in all rows, or one text a row."""


@dataclass(frozen=True, slots=True)
class CanalJsonEncoder:
    """`spark_merge.codecs.encode.messages.Encoder`."""

    zone: ZoneInfo
    full_types: bool = False
    updated_only: bool = False
    deleted_key_only: bool = False

    def rows(
        self,
        schema: TableSchema,
        changes: pa.Table,
        physical_ids: Sequence[int] | None,  # canal-json has no partition
        *,
        keys_only: bool = False,
        topic: str = "",  # noqa: ARG002  (other protocols' need)
    ) -> list[RowMessage]:
        if keys_only and not self.deleted_key_only:
            return replace(self, deleted_key_only=True).rows(schema, changes, physical_ids)
        table = _table(schema, self.full_types)
        parts = halved(changes.select(CHANGES.names), rows_max=_BLOCK_ROWS_MAX, bytes_max=_BLOCK_BYTES_MAX)
        values = (value for part in parts for value in self._values(table, part))
        return list(zip(repeat(_ROW_KEY), values))

    def location_message(self, whole: RowMessage, schema: TableSchema, location: str) -> RowMessage:
        key, value = whole
        fields: dict[str, bytes | Raw] = {}
        for name, content in fields_of(value or b"").items():
            match name:
                case "sqlType" | "mysqlType":
                    fields[name] = key_columns(content, schema.key, quoted)
                case "old" | "data":
                    images = _images_of(content)
                    reduced = b",".join(key_columns(image, schema.key, quoted) for image in images or ())
                    fields[name] = content if images is None else b"[%b]" % reduced
                case "_tidb":
                    fields[name] = json_object(_with_location(content, location), quoted)
                case _:
                    fields[name] = content
        return key, json_object(fields.items(), quoted)

    def resolved(self, ts: CommitTs) -> RowMessage:
        return None, _no_row("", "", "TIDB_WATERMARK", ts, sql=None)

    def ddl(self, ddl: DdlRecord, before: TableSchema | None, after: TableSchema | None) -> RowMessage:  # noqa: ARG002  (the record has it)
        return None, _no_row(ddl.schema, ddl.table, canal_word(ddl.query), ddl.commit_ts, sql=ddl.query)

    def _values(self, table: CanalTable, changes: pa.Table) -> Sequence[bytes]:
        """One message a row; rows of one op are made together."""
        ops = changes["op"].combine_chunks().dictionary_encode()
        if len(ops.dictionary) == 1:
            return self._of_op(table, changes, ops.dictionary[0].as_py())
        codes = ops.indices.to_numpy(zero_copy_only=False)
        made: list[bytes] = [b""] * len(codes)
        for code, op in enumerate(ops.dictionary.to_pylist()):
            places = np.flatnonzero(codes == code)
            for place, value in zip(places.tolist(), self._of_op(table, changes.take(pa.array(places)), op), strict=True):
                made[place] = value
        return made

    def _of_op(self, table: CanalTable, changes: pa.Table, op: str) -> list[bytes]:
        """Rows of one op, at least one."""
        (batch,) = changes.combine_chunks().to_batches()
        block = of_changes(table.schema, changes["seq"][0].as_py(), batch)
        key_only = op == "delete" and self.deleted_key_only
        places = [place for place, one in enumerate(table.columns) if one.in_key or not key_only]
        columns = [table.columns[place] for place in places]
        commit_ts = pc.cast(block.commit_ts, pa.string())
        es = pc.cast(pc.shift_right(block.commit_ts, TSO_LOGICAL_BITS), pa.string())
        canonical = [(block.before if op == "delete" else block.after).field(place) for place in places]
        data = self._encoded(table, columns, canonical)
        old = self._encoded(table, columns, [block.before.field(place) for place in places]) if op == "update" else None
        parts: list[_Part] = [
            f'{table.head}"{op.upper()}","es":', es, ',"ts":', es, ',"sql":"","sqlType":{', *_sql_types(columns, canonical),
            '},"mysqlType":{', ",".join(f"{one.quoted}:{one.mysql}" for one in columns),
            '},"old":', *(["null"] if old is None else self._old(columns, old, data)),
            ',"data":', *_image(columns, data), ',"_tidb":{"commitTs":', commit_ts, "}}",
        ]  # fmt: skip
        made: list[bytes] = _joined(parts).cast(pa.binary()).to_pylist()
        return made

    def _encoded(self, table: CanalTable, columns: Sequence[CanalColumn], texts: Sequence[pa.Array]) -> list[pa.Array]:
        """Each value in JSON but for its quotes, null where null."""
        made = []
        for one, canonical in zip(columns, texts, strict=True):
            try:
                made.append(canal_texts(canonical, one.column, self.zone))
            except UnfitValue as unfit:
                raise SinkError(
                    f"table {table.schema.name}, column {one.column.name}: the value {unfit}",
                    hint="check that the log is whole, then report this: the value does not fit the column's schema in the log",
                ) from unfit
        return made

    def _old(self, columns: Sequence[CanalColumn], old: Sequence[pa.Array], data: Sequence[pa.Array]) -> list[_Part]:
        if not self.updated_only:
            return _image(columns, old)
        fields = []
        for one, before, after in zip(columns, old, data, strict=True):
            same = pc.or_(pc.fill_null(pc.equal(before, after), False), pc.and_(before.is_null(), after.is_null()))
            fields.append(pc.if_else(same, "", _joined([f",{one.quoted}:", _or_null(before)])))
        return ["[{", pc.utf8_slice_codeunits(_joined(fields), 1), "}]"]


def encoder(*, architecture: Architecture, options: Mapping[str, str]) -> CanalJsonEncoder:  # noqa: ARG001  (both write the same)
    """Raises ConfigError for an option, named, that cannot be written."""
    for name, harmless in _NOT_HERE.items():
        if options.get(name, "") not in harmless:
            raise ConfigError(
                f"{name}={options[name]}: canal-json is not written so here",
                hint=f"leave {name} out, of the URI and of the file of config=",
            )
    if not _flag(options, "enable-tidb-extension"):
        raise ConfigError(
            "canal-json without TiDB's extension has neither commit_ts nor resolved marks",
            hint="add enable-tidb-extension=true",
        )
    full_types = _flag(options, "content-compatible")
    return CanalJsonEncoder(
        zone=zone_of(options.get("time-zone", "UTC")),
        full_types=full_types,
        updated_only=full_types or _flag(options, "only-output-updated-columns"),
        deleted_key_only=_flag(options, "delete-only-output-handle-key-columns"),
    )


def as_sent(keys: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The log has messages as they are."""
    return keys, values


def _flag(options: Mapping[str, str], name: str) -> bool:
    value = options.get(name, "")
    if value not in _TRUE | _FALSE:
        raise ConfigError(f"{name}={value} is neither true nor false", hint=f"set {name} to true or to false")
    return value in _TRUE


@lru_cache(maxsize=_TABLES_MAX)
def _table(schema: TableSchema, full_types: bool) -> CanalTable:
    return canal_table(schema, full_types=full_types)


# ---- rows -----------------------------------------------------------------------------------------------------------


def _sql_types(columns: Sequence[CanalColumn], texts: Sequence[pa.Array]) -> Iterator[_Part]:
    comma = ""
    for one, canonical in zip(columns, texts, strict=True):
        yield f"{comma}{one.quoted}:"
        yield str(one.java) if one.promotion is None else _promoted(canonical, one)
        comma = ","


def _promoted(canonical: pa.Array, one: CanalColumn) -> pa.Array:
    assert one.promotion is not None
    above = pc.fill_null(pc.greater(canonical.cast(pa.uint64()), pa.scalar(one.promotion.most, pa.uint64())), False)
    return pc.if_else(above, str(one.promotion.java), str(one.java))


def _image(columns: Sequence[CanalColumn], texts: Sequence[pa.Array]) -> list[_Part]:
    parts: list[_Part] = ["[{"]
    comma = ""
    for one, text in zip(columns, texts, strict=True):
        parts += [f"{comma}{one.quoted}:", _or_null(text)] if text.null_count else [f'{comma}{one.quoted}:"', text, '"']
        comma = ","
    return [*parts, "}]"]


def _or_null(texts: pa.Array) -> pa.Array:
    return pc.fill_null(pc.binary_join_element_wise('"', texts, '"', ""), "null")


def _joined(parts: Sequence[_Part]) -> pa.Array:
    merged: list[_Part] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    return pc.binary_join_element_wise(*merged, "")


def _with_location(extension: Raw, location: str) -> Iterator[tuple[str, bytes | Raw]]:
    """Behind the commit_ts."""
    for name, content in fields_of(extension).items():
        yield name, content
        if name == "commitTs":
            yield "claimCheckLocation", quoted(location).encode()


# ---- messages without a row -----------------------------------------------------------------------------------------


def _no_row(database: str, table: str, kind: str, ts: CommitTs, *, sql: str | None) -> bytes:
    """A DDL, or a resolved mark where `sql` is None."""
    es = physical_ms(ts)
    is_ddl, extension = ("false", "watermarkTs") if sql is None else ("true", "commitTs")
    return (
        f'{{"id":0,"database":{quoted(database)},"table":{quoted(table)},"pkNames":null,"isDdl":{is_ddl},"type":"{kind}","es":{es},"ts":{es},'
        f'"sql":{quoted(sql or "")},"sqlType":null,"mysqlType":null,"data":null,"old":null,"_tidb":{{"{extension}":{ts}}}}}'
    ).encode()
