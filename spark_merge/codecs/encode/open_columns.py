"""A column as open-protocol describes it, and its values in JSON.

Type codes are TiDB's (pkg/parser/mysql/type.go), from the definition's SQL type. Flags are TiCDC's own (cdc/model/sink.go,
schema_storage.go::initColumnFlags; ticdc pkg/sink/codec/open/message.go::initColumnFlags):

      1  binary       charset binary, which all types have but those of text
      2  handle key
      4  generated
      8  primary key
     16  unique       in a unique index that is not the primary key
     32  multiple     in an index of several columns, or the first one of an index that is not unique
     64  nullable
    128  unsigned     bit and year too

The new architecture leaves the indexes' flags of a stored generated column as TiDB has them: those of an index's first column.
It takes flags from a cache by table id that outlives some DDLs; what it wrote then is not what the table is, and is not done again here.

Values: facts of decode/open_protocol.py, the other way.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never
from zoneinfo import ZoneInfo

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, ColumnDefinition, IndexDefinition, Kind, TableDefinition, TableSchema
from spark_merge.codecs.encode import go_json
from spark_merge.codecs.encode.go_quote import go_quotes
from spark_merge.codecs.encode.local_time import local_texts
from spark_merge.codecs.encode.messages import Architecture, definition_of

_BINARY, _HANDLE, _GENERATED, _PRIMARY, _UNIQUE, _MULTIPLE, _NULLABLE, _UNSIGNED = (1 << bit for bit in range(8))
_TYPES = {
    "tinyint": 1, "smallint": 2, "int": 3, "float": 4, "double": 5, "timestamp": 7, "bigint": 8, "mediumint": 9, "date": 10, "time": 11,
    "datetime": 12, "year": 13, "varchar": 15, "varbinary": 15, "bit": 16, "vector": 225, "json": 245, "decimal": 246, "enum": 247,
    "set": 248, "tinytext": 249, "tinyblob": 249, "mediumtext": 250, "mediumblob": 250, "longtext": 251, "longblob": 251, "text": 252,
    "blob": 252, "char": 254, "binary": 254,
}  # fmt: skip
_BASE64_TYPES = frozenset({249, 250, 251, 252})
_OF_TEXT: frozenset[Kind] = frozenset({"text", "enum", "set"})
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class OpenColumn:
    column: Column
    type: int
    flags: int
    is_key: bool

    def opening(self, *, html: bool) -> str:
        """What stands before its value."""
        handle = '"h":true,' if self.is_key else ""
        return f'{go_json.string(self.column.name, html=html)}:{{"t":{self.type},{handle}"f":{self.flags},"v":'


def open_columns(schema: TableSchema, architecture: Architecture) -> list[OpenColumn]:
    """In the order of the schema's columns. Raises SinkError if its definition is absent, or does not tell a column."""
    definition = definition_of(schema)
    by_name = {item.name: item for item in definition.columns}
    return [_open_column(schema, column, by_name, architecture) for column in schema.columns]


def _open_column(schema: TableSchema, column: Column, by_name: Mapping[str, ColumnDefinition], architecture: Architecture) -> OpenColumn:
    of_column, definition = by_name.get(column.name), definition_of(schema)
    word = _WORD.match(of_column.type_text) if of_column is not None else None
    if of_column is None or word is None or word[0] not in _TYPES:
        raise SinkError(
            f"the definition of {schema.name} in the log does not tell the type of column {column.name}",
            hint="the log's schemas file does not fit its data: check that the log is whole, then report this",
        )
    is_key = column.name in schema.key
    flags = _own_flags(column, of_column) | _index_flags(definition, of_column, architecture)
    if is_key and not (of_column.generated and architecture == "new"):
        flags |= _HANDLE
    return OpenColumn(column, _TYPES[word[0]], flags, is_key)


def _own_flags(column: Column, definition: ColumnDefinition) -> int:
    is_text = column.kind in _OF_TEXT and definition.charset not in ("", "binary")
    is_unsigned = column.kind in ("uint", "bit", "year") or " unsigned" in definition.type_text.rpartition(")")[2]
    flags = 0 if is_text else _BINARY
    flags |= _GENERATED if definition.generated else 0
    flags |= _NULLABLE if definition.nullable else 0
    return flags | (_UNSIGNED if is_unsigned else 0)


def _index_flags(definition: TableDefinition, column: ColumnDefinition, architecture: Architecture) -> int:
    flags = 0
    for index in definition.indexes:
        names = [part.column for part in index.parts]
        if column.name in names:
            flags |= _flags_of(index, is_first=names[0] == column.name, as_tidb=bool(column.generated) and architecture == "new")
    return flags


def _flags_of(index: IndexDefinition, *, is_first: bool, as_tidb: bool) -> int:
    """`as_tidb`: TiDB flags the first column alone, but all of a primary key."""
    is_alone = len(index.parts) == 1
    multiple_of_tidb = is_first and not index.primary and not (index.unique and is_alone)
    flags = _MULTIPLE if multiple_of_tidb else 0
    if index.primary:
        flags |= _PRIMARY
    elif index.unique and (is_alone or not as_tidb):
        flags |= _UNIQUE
    return flags if is_alone or as_tidb else flags | _MULTIPLE


# ---- values ---------------------------------------------------------------------------------------------------------


def json_values(open_column: OpenColumn, texts: pa.Array, zone: ZoneInfo, *, html: bool) -> pa.Array:
    """JSON of each canonical text, null where null. Raises UNFIT for a text that is no number, label or
    bytes of the column's kind; the shapes of dates and decimals are taken as they are."""
    column = open_column.column
    match column.kind:
        case "int" | "uint" | "bit":
            pc.cast(texts, pa.int64() if column.kind == "int" else pa.uint64())  # for its error alone
            return texts
        case "year":
            return pc.cast(pc.cast(texts, pa.int16()), pa.string())
        case "float" | "double":
            return go_json.floats(texts, bits=32 if column.kind == "float" else 64, html=html)
        case "enum":
            return _by_dictionary(texts, lambda label: _enum_number(label, column.elements))
        case "set":
            return _by_dictionary(texts, lambda labels: _set_number(labels, column.elements))
        case "binary":
            return _binary(open_column, texts, html=html)
        case "text" if open_column.type in _BASE64_TYPES:
            return _base64(pl.Series(pl.from_arrow(texts)).cast(pl.Binary))
        case "text" | "json":
            return go_json.strings(texts, html=html)
        case "timestamp":
            return go_json.quoted(local_texts(texts, zone))
        case "decimal" | "date" | "time" | "datetime" | "vector":
            return go_json.quoted(texts)
        case _ as never:
            assert_never(never)


def _by_dictionary(texts: pa.Array, number: Callable[[str], int]) -> pa.Array:
    dictionary_encode = texts.dictionary_encode()
    return pa.array([str(number(text)) for text in dictionary_encode.dictionary.to_pylist()], pa.string()).take(dictionary_encode.indices)


def _enum_number(label: str, elements: tuple[str, ...]) -> int:
    """From 1; the empty text that is no label is the 0 that TiDB keeps for an invalid value."""
    return 0 if label == "" and "" not in elements else elements.index(label) + 1


def _set_number(labels: str, elements: tuple[str, ...]) -> int:
    return sum(1 << elements.index(label) for label in labels.split(",")) if labels else 0


def _binary(open_column: OpenColumn, digits: pa.Array, *, html: bool) -> pa.Array:
    data = pl.Series(pl.from_arrow(digits)).str.decode("hex", strict=True)
    if open_column.type in _BASE64_TYPES:
        return _base64(data)
    return go_json.strings(pa.array(go_quotes(data.to_list()), pa.string(), size=len(data)), html=html)


def _base64(data: pl.Series) -> pa.Array:
    return go_json.quoted(pc.cast(data.bin.encode("base64").to_arrow(), pa.string()))


UNFIT = (ValueError, KeyError, binascii.Error, pl.exceptions.PolarsError)
"""What a text that is none of its kind raises; pyarrow's errors are ValueErrors."""
