"""TiDB's TableInfo JSON to what decoding of raw key-values needs: column ids, handle layout, what an absent column means.

Rules (pingcap/tidb pkg/table/tables; tiflow cdc/model/schema_storage.go, cdc/entry/mounter.go):
- output columns are those of `table_info.table_schema`: public, not virtual, in offset order. Values are looked up by column
  id alone, never by position; ids that no output column has are skipped.
- a column absent from a row has its origin default; without one it is NULL if nullable, else TiCDC's zero value.
- the handle is one int64 (pk_is_handle, or the hidden `_tidb_rowid`) or the memcomparable columns of the clustered
  primary key. Under the new collation a key holds sort keys, and columns whose text they lose are in the value too.
- amid MODIFY COLUMN a row may hold the new column in place of the old one, which is still the table's: `successor`, which the
  schema history puts into TableInfo (schema/history.py). Amid DROP COLUMN of a column of the handle key rows have no key.
- a partition's rows have the partition's id in their keys; while partitions are reorganised, the ids that are added and
  dropped belong to the table as well.

Charset binary alone distinguishes binary from text here (values are bytes), so the BINARY attribute that `table_schema` refuses
for JSON feeds is harmless and masked.

A table whose rows are deleted softly is refused: its rows say so themselves, and only TiCDC makes DELETEs of that (model/soft_delete.py).
TableInfo has `softdelete_info` and `is_active_active` where it is one (pingcap/tidb pkg/meta/model/table.go).
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Column, TableSchema
from sidecar.shared.rowcodec.kv_table_fields import check_fields
from sidecar.shared.rowcodec.table_info import table_schema
from sidecar.shared.rowcodec.type_cast import default_text, field_type, zero_text

_NOT_NULL, _PRIMARY_KEY, _UNSIGNED, _BINARY = 1, 2, 32, 128
_TYPE_VARCHAR = 15
_PUBLIC = 5
_WHOLE_COLUMN = -1
_TABLE_INFO_HINT = "check that the table info is of a TiDB this ticdc-dump knows, and report it if so"


@dataclass(frozen=True, slots=True)
class KvColumn:
    """`type_code` is MySQL's; `length` TableInfo's Flen (-1: none). `absent` is the canonical text of a row without it.

    `successor`: what a row without this column has in its place; `absent` then counts for neither.
    """

    column: Column
    id: int
    type_code: int
    unsigned: bool
    length: int
    collation: str
    absent: str | None
    successor: KvColumn | None = None


@dataclass(frozen=True, slots=True)
class KvKeyPart:
    """One column of a clustered primary key. `number` counts in `KvTable.columns`.

    `is_whole`: the key alone holds the value; else the value must hold the column (prefix or lossy sort key).
    """

    number: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class KvTable:
    """One version of a table. `columns` are parallel to `schema.columns`. `physical_ids` are the table ids in its keys.

    `int_handle` is the number of the column that is the handle itself, None if it is hidden or there is a common handle;
    `key_parts` is empty unless the handle is a common one. `lost_key`: a column of the handle key that is being dropped, so
    that rows cannot be distinguished.
    """

    schema: TableSchema
    id: int
    physical_ids: frozenset[int]
    columns: tuple[KvColumn, ...]
    int_handle: int | None
    key_parts: tuple[KvKeyPart, ...]
    new_collation: bool
    lost_key: str | None = None


def kv_table(info: Mapping[str, Any], *, schema: str, new_collation: bool = True) -> KvTable:
    """`schema` is the table's database. `new_collation`: TiDB's `mysql.tidb.new_collation_enabled` of the cluster.

    Raises FeedUnsuitable for a column type that is unknown or a field that is absent.
    """
    if info.get("softdelete_info") is not None or info.get("is_active_active"):
        what = "rows of a SOFTDELETE table are deleted by a time in them, and raw key-values show them as rows"
        raise FeedUnsuitable(
            f"{schema}.{info.get('name', {}).get('O')}: {what}",
            hint="exclude it by the changefeed's filter; a changefeed of TiCDC's new architecture to Kafka carries it",
        )
    try:
        check_fields(info)
        return _table(_without_binary_attribute(info), schema, new_collation)
    except (LookupError, TypeError, ValueError, ArithmeticError, StopIteration) as error:
        raise FeedUnsuitable(
            f"the table info of {schema}.{info.get('name')} lacks or breaks a field: {error!r}", hint=_TABLE_INFO_HINT
        ) from error


def _without_binary_attribute(info: Mapping[str, Any]) -> dict[str, Any]:
    def column(value: dict[str, Any]) -> dict[str, Any]:
        field_type = value["type"]
        if field_type["Charset"] == "binary":
            return value
        return value | {"type": field_type | {"Flag": field_type["Flag"] & ~_BINARY}}

    return {**info, "cols": [column(item) for item in info["cols"]]}


def _table(info: dict[str, Any], schema: str, new_collation: bool) -> KvTable:
    shape = table_schema(info, schema=schema)
    if shape.definition is not None and not new_collation:
        shape = replace(shape, definition=replace(shape.definition, new_collation=False))
    by_name = {item["name"]["O"]: item for item in info["cols"]}
    columns = tuple(_with_successor(_column(column, by_name[column.name], shape), by_name[column.name], shape) for column in shape.columns)
    int_handle: int | None = None
    parts: tuple[KvKeyPart, ...] = ()
    if info["pk_is_handle"]:
        int_handle = next(n for n, column in enumerate(columns) if by_name[column.column.name]["type"]["Flag"] & _PRIMARY_KEY)
        if columns[int_handle].column.kind not in ("int", "uint"):
            raise ValueError(f"handle column {columns[int_handle].column.name} is no integer")
    elif info["is_common_handle"]:
        parts = _key_parts(info, columns, new_collation)
    lost_key = next((name for name in shape.key if by_name[name].get("dropped")), None)
    return KvTable(shape, info["id"], _physical_ids(info), columns, int_handle, parts, new_collation, lost_key)


def _column(column: Column, value: dict[str, Any], shape: TableSchema) -> KvColumn:
    field_type = value["type"]
    return KvColumn(
        column=column,
        id=value["id"],
        type_code=field_type["Tp"],
        unsigned=bool(field_type["Flag"] & _UNSIGNED),
        length=field_type["Flen"],
        collation=field_type["Collate"],
        absent=_absent(column, value, shape),
    )


def _with_successor(column: KvColumn, value: dict[str, Any], shape: TableSchema) -> KvColumn:
    """TableInfo's column of the successor is as it was when it was made: not public, under a name of its own."""
    if value.get("successor") is None:
        return column
    (made,) = _without_binary_attribute({"cols": [value["successor"] | {"state": _PUBLIC}]})["cols"]
    info = {"name": {"O": shape.name.table}, "cols": [made], "pk_is_handle": False, "index_info": None}
    (only,) = table_schema(info, schema=shape.name.schema).columns
    return replace(column, successor=_column(only, made, shape))


def _key_parts(info: dict[str, Any], columns: tuple[KvColumn, ...], new_collation: bool) -> tuple[KvKeyPart, ...]:
    numbers = {column.column.name: number for number, column in enumerate(columns)}
    primary = next(index for index in info["index_info"] or () if index["is_primary"])
    parts = []
    for item in primary["idx_cols"]:
        number = numbers[item["name"]["O"]]
        if columns[number].column.kind in ("json", "vector"):
            raise ValueError(f"key column {columns[number].column.name} is of a type that no key has")
        lossy = new_collation and _is_lossy(columns[number])
        parts.append(KvKeyPart(number, is_whole=item["length"] == _WHOLE_COLUMN and not lossy))
    return tuple(parts)


def _is_lossy(column: KvColumn) -> bool:
    """Whether the sort key loses text, so that TiDB writes the column into the value (types.NeedRestoredData)."""
    if column.column.kind != "text" or column.collation == "utf8mb4_0900_bin":
        return False
    return not column.collation.endswith("_bin") or column.type_code == _TYPE_VARCHAR


def _physical_ids(info: dict[str, Any]) -> frozenset[int]:
    partition = info.get("partition")
    if not partition or not partition["enable"]:
        return frozenset({info["id"]})
    lists = ("definitions", "adding_definitions", "dropping_definitions")
    return frozenset(item["id"] for name in lists for item in partition.get(name) or ())


# ---- absent columns -------------------------------------------------------------------------------------------------


def _absent(column: Column, value: dict[str, Any], shape: TableSchema) -> str | None:
    default = value["origin_default"]
    if column.kind == "bit" and value["origin_default_bit"] is not None:
        try:
            return str(int.from_bytes(b64decode(value["origin_default_bit"], validate=True), "big"))
        except Base64Error as error:
            raise ValueError(f"origin_default_bit of {column.name}") from error
    if default is None:
        return None if column.nullable else zero_text(column)
    if column.kind == "timestamp" and not value["version"] and str(default).strip("0-: .") != "":
        raise FeedUnsuitable(
            f"table {shape.name}, column {column.name}: its default {default} is in the time zone of a TiDB before 2.1, not in UTC",
            hint="set the column's default again (alter table … alter column … set default), or leave the table out",
        )
    return default_text(column, default, field_type(value["type"]))
