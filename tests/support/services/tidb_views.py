"""What TiDB's information_schema shows of a table, made of its TableInfo as TiDB makes it, for the columns that the adapters ask for.

Source: pingcap/tidb pkg/executor/infoschema_reader.go, pkg/table/column.go::NewColDesc, pkg/parser/types/field_type.go::InfoSchemaStr,
with `deprecate-integer-display-length` as TiDB 8.5 has it. Written beside sidecar/shared/rowcodec/definition.py, not from it.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

Info = Mapping[str, Any]
Row = tuple[Any, ...]

_NAMES = {
    1: "tinyint", 2: "smallint", 3: "int", 4: "float", 5: "double", 7: "timestamp", 8: "bigint", 9: "mediumint", 10: "date", 11: "time",
    12: "datetime", 13: "year", 15: "varchar", 16: "bit", 225: "vector", 245: "json", 246: "decimal", 247: "enum", 248: "set",
    249: "tinyblob", 250: "mediumblob", 251: "longblob", 252: "blob", 253: "varchar", 254: "char",
}  # fmt: skip
_TEXTS = {15, 249, 250, 251, 252, 253, 254}
PUBLIC = 5


def data_type(info: Info) -> str:
    name = _NAMES[info["Tp"]]
    if info["Tp"] not in _TEXTS:
        return name
    if info["Charset"] == "binary":
        return name.replace("char", "binary")
    return name.replace("blob", "text")


def column_type(info: Info) -> str:
    tp, flen, decimal = info["Tp"], info["Flen"], info["Decimal"]
    text = data_type(info)
    if tp in (247, 248):
        text += "('" + "','".join(one.replace("'", "''") for one in info["Elems"]) + "')"
    elif tp in (7, 11, 12) and decimal > 0:
        text += f"({decimal})"
    elif (tp in (4, 5) and decimal > 0) or tp == 246:
        text += f"({flen},{decimal})"
    elif tp in (15, 16, 253, 254, 13) or (tp == 1 and flen == 1) or (tp == 225 and flen != -1):
        text += f"({flen})"
    return text + (" unsigned" if info["Flag"] & 32 and tp not in (13, 16) else "")


def columns(info: Info) -> list[Row]:
    return [_column(item) for item in info["cols"] if item["state"] == PUBLIC and not item["hidden"]]


def _column(info: Info) -> Row:
    kind = info["type"]
    has_charset = kind["Tp"] in (247, 248) or (kind["Tp"] in _TEXTS and not kind["Flag"] & 128)
    extra = "DEFAULT_GENERATED on update CURRENT_TIMESTAMP" if kind["Flag"] & 8192 else "auto_increment" if kind["Flag"] & 512 else ""
    if kind["Flag"] & 8192 and kind["Decimal"] > 0:
        extra += f"({kind['Decimal']})"
    if info["generated_expr_string"]:
        extra = ("STORED" if info["generated_stored"] else "VIRTUAL") + " GENERATED"
    default = None if kind["Flag"] & 4096 else info["default"]
    if default == "CURRENT_TIMESTAMP" and kind["Tp"] in (7, 12) and kind["Decimal"] > 0:
        default = f"{default}({kind['Decimal']})"
    if kind["Tp"] == 16 and default is not None:
        default = f"b'{int.from_bytes(b64decode(info['default_bit']), 'big'):b}'"
    charset = (kind["Charset"], kind["Collate"]) if has_charset else (None, None)
    nullable = "NO" if kind["Flag"] & 1 else "YES"
    head = (info["name"]["O"], nullable, data_type(kind), column_type(kind), extra)
    return (*head, default, *charset, info["generated_expr_string"])


def indexes(info: Info) -> list[Row]:
    """Name, id, column, length, expression, whether it is not unique."""
    rows: list[Row] = []
    if info["pk_is_handle"]:
        rows += [("PRIMARY", 0, item["name"]["O"], None, None, 0) for item in info["cols"] if item["type"]["Flag"] & 2][:1]
    for index in sorted(info["index_info"] or (), key=lambda one: int(one["id"])):
        for part in index["idx_cols"] if index["state"] == PUBLIC else ():
            column = info["cols"][part["offset"]]
            length = None if part["length"] == -1 else part["length"]
            name, expression = ("NULL", column["generated_expr_string"]) if column["hidden"] else (part["name"]["O"], None)
            rows.append((index["idx_name"]["O"], index["id"], name, length, expression, int(not index["is_unique"])))
    return rows


def partitions(info: Info) -> list[Row]:
    """Id, name, method, expression, description."""
    result = info["partition"]
    if not result or not result["enable"]:
        return []
    method = {1: "RANGE", 2: "HASH", 3: "LIST", 4: "KEY"}[result["type"]]
    by = result["expr"]
    if result["columns"]:
        method += "" if method == "KEY" else " COLUMNS"
        by = ",".join(f"`{one['O']}`" for one in result["columns"])
    return [(one["id"], one["name"]["O"], method, by, _description(one)) for one in result["definitions"]]


def _description(info: Info) -> str:
    if info["less_than"]:
        return ",".join(info["less_than"])
    values: Sequence[Sequence[str]] = info["in_values"] or ()
    return ",".join(row[0] if len(row) == 1 else f"({','.join(row)})" for row in values)


def table(info: Info) -> Row:
    """TIDB_PK_TYPE and the collation."""
    return "CLUSTERED" if info["pk_is_handle"] or info["is_common_handle"] else "NONCLUSTERED", info["collate"]
