"""TiDB's TableInfo JSON (status port `/schema/{db}/{table}`, DDL jobs) to the schema that the feed's rows have.

Rules, as in TiCDC (tiflow cdc/model/schema_storage.go):
- columns are the public ones in offset order; virtual generated ones are not in the feed and are omitted;
- `Charset` binary distinguishes binary from text, `Flag` marks unsigned integers;
- the table's id and its partitions' are TiDB's;
- what the table was made of is `definition.definition_of`'s;
- the handle key is the primary key, else the unique index whose columns are all NOT NULL (and in the feed), with the
  fewest columns, then the smallest id; else there is none and TiCDC does not replicate the table.

TiCDC itself does not look at a column's state; the omission of columns that are not public is on purpose.
A text column with the BINARY attribute is refused: TiCDC's new architecture goes by the flag and sends it as if it were
VARBINARY, the classic one goes by the charset, and the rows do not show which (ticdc pkg/sink/codec/open/codec.go).
Views and sequences have no TableSchema: the caller omits them.
"""

from __future__ import annotations

from typing import Any

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Column, Kind, TableName, TableSchema
from sidecar.shared.rowcodec.definition import definition_of

_PUBLIC = 5

_NOT_NULL = 1
_PRIMARY_KEY = 2
_UNSIGNED = 32
_BINARY = 128

_INTEGERS = frozenset({1, 2, 3, 8, 9})
_STRINGS = frozenset({15, 249, 250, 251, 252, 253, 254})
_CHAR_OR_BINARY = 254
_KINDS: dict[int, Kind] = {
    4: "float", 5: "double", 7: "timestamp", 10: "date", 11: "time", 12: "datetime", 13: "year", 14: "date", 16: "bit",
    225: "vector", 245: "json", 246: "decimal", 247: "enum", 248: "set",
}  # fmt: skip
_WITH_SCALE = frozenset({"decimal", "time", "datetime", "timestamp"})


def table_schema(info: dict[str, Any], *, schema: str) -> TableSchema:
    """The schema of one table; `schema` is its database, which TableInfo does not hold.

    Raises FeedUnsuitable for a column type that this version does not know, or if a field of TableInfo is absent.
    """
    try:
        name = TableName(schema, info["name"]["O"])
        in_feed = [item for item in sorted(info["cols"], key=lambda col: int(col["offset"])) if _is_in_feed(item)]
        columns = tuple(_column(name, item) for item in in_feed)
        # a part of a TableInfo, which its reader made for one column, is no table
        definition = definition_of(info) if "id" in info else None
        return TableSchema(name, columns, _handle_key(info, in_feed), int(info.get("id", 0)), _physical_ids(info), definition=definition)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise FeedUnsuitable(
            f"the table info of {schema}.{info.get('name')} lacks or breaks a field: {error!r}",
            hint="check that the TiDB status address is TiDB's and that this ticdc-dump knows its version",
        ) from error


def _physical_ids(info: dict[str, Any]) -> tuple[int, ...]:
    """As information_schema has them. A part of a TableInfo, which its reader made for one column, has no id."""
    partition = info.get("partition")
    if partition is not None and partition["enable"]:
        return tuple(int(one["id"]) for one in partition["definitions"])
    return (int(info["id"]),) if "id" in info else ()


def _is_in_feed(value: dict[str, Any]) -> bool:
    virtual = value["generated_expr_string"] != "" and not value["generated_stored"]
    return value["state"] == _PUBLIC and not virtual


def _column(table: TableName, value: dict[str, Any]) -> Column:
    name, field_type = value["name"]["O"], value["type"]
    kind = _kind(field_type)
    if kind is None:
        raise FeedUnsuitable(
            f"table {table}, column {name}: type {field_type['Tp']} is unknown",
            hint="leave the table out by the changefeed's filter, or run a ticdc-dump that knows this type",
        )
    if kind == "text" and field_type["Flag"] & _BINARY:
        raise FeedUnsuitable(
            f"table {table}, column {name}: a text column with the BINARY attribute is not distinguished from VARBINARY",
            hint="alter the column to the _bin collation without BINARY, or exclude the table by the changefeed's filter",
        )
    fixed_length = kind == "bit" or (kind == "binary" and field_type["Tp"] == _CHAR_OR_BINARY)
    return Column(
        name=name,
        kind=kind,
        nullable=not field_type["Flag"] & _NOT_NULL,
        length=field_type["Flen"] if fixed_length or kind == "decimal" else -1,
        scale=max(field_type["Decimal"], 0) if kind in _WITH_SCALE else 0,
        elements=tuple(field_type["Elems"] or ()) if kind in ("enum", "set") else (),
    )


def _kind(field_type: dict[str, Any]) -> Kind | None:
    code = field_type["Tp"]
    if code in _INTEGERS:
        return "uint" if field_type["Flag"] & _UNSIGNED else "int"
    if code in _STRINGS:
        return "binary" if field_type["Charset"] == "binary" else "text"
    return _KINDS.get(code)


def _handle_key(info: dict[str, Any], in_feed: list[dict[str, Any]]) -> tuple[str, ...]:
    if info["pk_is_handle"]:
        return tuple(item["name"]["O"] for item in in_feed if item["type"]["Flag"] & _PRIMARY_KEY)
    indexes = [index for index in info["index_info"] or () if index["state"] == _PUBLIC]
    for index in indexes:
        if index["is_primary"]:
            return _index_columns(index)
    not_null = {item["name"]["O"] for item in in_feed if item["type"]["Flag"] & _NOT_NULL}
    unique = [index for index in indexes if index["is_unique"] and not_null.issuperset(_index_columns(index))]
    if not unique:
        return ()
    return _index_columns(min(unique, key=lambda index: (len(index["idx_cols"]), index["id"])))


def _index_columns(index: dict[str, Any]) -> tuple[str, ...]:
    return tuple(column["name"]["O"] for column in index["idx_cols"])
