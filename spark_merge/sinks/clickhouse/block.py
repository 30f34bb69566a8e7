"""Rows in the target's types: what an insert carries.

A delete carries its key alone; its other columns are NULL, or a zero that nobody sees. Nothing is rounded: a value that its column at the
target cannot hold stops, with its table, column and text.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.codecs.encode.block import Block, image_columns, versions
from spark_merge.codecs.encode.typed import file_schema, typed
from spark_merge.sinks.clickhouse.columns import DATE_KINDS, END_YEAR, FIRST_YEAR
from spark_merge.sinks.clickhouse.server import Compression

VERSION, DELETED = "version", "is_deleted"

_ZERO = {"date": "1970-01-01", "datetime": "1970-01-01 00:00:00", "timestamp": "1970-01-01 00:00:00"}
_EMPTY = frozenset({"text", "binary", "enum", "set", "time", "json", "vector"})

DATES_HINT = (
    "have such columns as text: add dates=text to the sink's URI, which turns the target's columns into String and continues;"
    " or correct the value at the source, if nobody needs it as it was"
)


@dataclass(frozen=True, slots=True)
class Ours:
    """The names of our two columns in a table."""

    version: str
    deleted: str

    @classmethod
    def of(cls, schema: TableSchema) -> Ours:
        taken, prefix = {name.lower() for name in schema.column_names()}, "_"
        while {prefix + VERSION, prefix + DELETED} & taken:
            prefix += "_"
        return cls(prefix + VERSION, prefix + DELETED)


def columns_of(schema: TableSchema) -> list[str]:
    ours = Ours.of(schema)
    return [*schema.column_names(), ours.version, ours.deleted]


def rows_of(block: Block, kept: TableSchema) -> pa.Table:
    """The block under `kept`, its table as the target keeps it: `columns_of`, in that order. Raises SinkError for what does not fit."""
    puts = pc.not_equal(block.op, "delete")
    texts = []
    for column, text in zip(kept.columns, image_columns(block), strict=True):
        in_key = column.name in kept.key
        _check_null(block, column, text, puts, in_key=in_key)
        written_text = text if in_key else pc.if_else(puts, text, pa.scalar(_blank(column), pa.string()))
        _check_years(block, column, written_text)
        texts.append(written_text)
    image = pa.StructArray.from_arrays(texts, names=list(kept.column_names()))
    table = typed(replace(block, schema=kept, before=pa.nulls(block.rows, image.type), after=image), file_schema(kept))
    _check_calendar(block, table.column(_ENVELOPE - 1))
    values = [column.combine_chunks() for column in table.columns[_ENVELOPE:]]
    values += [pc.cast(versions(block), pa.uint64()), pc.cast(pc.invert(puts), pa.uint8())]
    return pa.Table.from_arrays(values, names=columns_of(kept))


_ENVELOPE = 7
"""Columns of codecs/encode/typed.py before the table's own; the last of them has the values without a typed form."""


def _blank(column: Column) -> str | None:
    if column.nullable:
        return None
    return "" if column.kind in _EMPTY else _ZERO.get(column.kind, "0")


def _check_null(block: Block, column: Column, text: Any, puts: Any, *, in_key: bool) -> None:
    if (in_key or not column.nullable) and text.null_count and pc.any(pc.and_(text.is_null(), pc.or_(puts, pa.scalar(in_key)))).as_py():
        raise SinkError(
            f"{block.schema.name}.{column.name}, which is NOT NULL, is NULL in segment {block.seq}",
            hint="the table's schema in the log does not fit its rows: check that no DDL is missing, then report this",
        )


def _check_years(block: Block, column: Column, text: Any) -> None:
    if column.kind not in DATE_KINDS:
        return
    outside = pc.or_(pc.less(text, FIRST_YEAR), pc.greater_equal(text, END_YEAR))
    if pc.any(outside).as_py():
        raise _refused(block, column.name, column.kind, pc.filter(text, outside)[0].as_py())


def _check_calendar(block: Block, untyped: pa.ChunkedArray) -> None:
    if untyped.null_count < len(untyped):
        (name, text), *_ = json.loads(untyped.drop_null()[0].as_py()).items()
        raise _refused(block, name, "date", text)


def _refused(block: Block, name: str, kind: str, text: str) -> SinkError:
    return SinkError(f"{block.schema.name}.{name}: the {kind} '{text}' in segment {block.seq} is none that the target has", hint=DATES_HINT)


# ---- to bytes ------------------------------------------------------------------------------------------------------------------------


def stream_of(rows: pa.Table, compression: Compression) -> bytes:
    """One record batch as a stream of Arrow IPC."""
    options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema, options=options) as writer:
        for batch in rows.combine_chunks().to_batches():
            writer.write_batch(batch)
    stream: bytes = out.getvalue().to_pybytes()
    return stream


def token_of(output: str, content: bytes) -> str:
    """The same for the same content in the same life of an output. By its content, and not by where it came from: what a unit holds hangs
    on more than its place (rows that an operator skips), and a token that promises too much would lose a row."""
    return f"{output}-{hashlib.blake2b(content, digest_size=16).hexdigest()}"
