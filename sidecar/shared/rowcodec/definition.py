"""TiDB's TableInfo JSON to what the table was made of: what a sink makes or describes a table by.

Rules (pingcap/tidb pkg/executor/show.go, pkg/ddl/partition.go::AppendPartitionInfo, pkg/parser/types/field_type.go::CompactStr):
- types are written as information_schema's COLUMN_TYPE does where display widths are shown; TiDB 8.5 and later hide those of integers
  by default, and TableInfo holds them always. ZEROFILL, which COLUMN_TYPE omits, is written;
- a default is SQL that any MySQL reads back to the same value under `time_zone = '+00:00'`: TableInfo holds those of timestamps in UTC;
- columns that are hidden (an expression index has one) and indexes that say nothing of rows or not of all (vector, columnar, full
  text, with a condition) are omitted;
- while partitions are reorganised, the schema history has new ones without names and bounds (schema/history.py): then the
  partitioning is not written.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.shared.model.nouns import ColumnDefinition, IndexDefinition, IndexPart, TableDefinition
from sidecar.shared.sql.text import Shows, quoted, quoted_text, shown

_PUBLIC = 5
_WHOLE = -1
_NOT_NULL, _PRIMARY_KEY, _UNSIGNED, _ZEROFILL, _NO_DEFAULT, _ON_UPDATE_NOW = 1, 2, 32, 64, 4096, 8192

_YEAR, _BIT, _VECTOR = 13, 16, 225
_INTEGERS = {1: "tinyint", 2: "smallint", 9: "mediumint", 3: "int", 8: "bigint"}
INTEGER_WIDTHS = {"tinyint": 4, "smallint": 6, "mediumint": 9, "int": 11, "bigint": 20}
"""TiDB's, of signed ones; those of unsigned ones are one less, but for bigint."""
_FLOATS = {4: "float", 5: "double"}
_TIMES = {7: "timestamp", 11: "time", 12: "datetime"}
_PLAIN = {10: "date", 14: "date", 245: "json"}
_LABELLED = {247: "enum", 248: "set"}
_SIZED = {15: ("varchar", "varbinary"), 253: ("varchar", "varbinary"), 254: ("char", "binary")}
_LARGE = {
    249: ("tinytext", "tinyblob"), 250: ("mediumtext", "mediumblob"), 251: ("longtext", "longblob"), 252: ("text", "blob"),
}  # fmt: skip
_CURRENT = frozenset({"CURRENT_TIMESTAMP", "CURRENT_DATE"})
_KINDS = {1: "RANGE", 2: "HASH", 3: "LIST", 4: "KEY"}
_WITH_VALUES = {"RANGE": "VALUES LESS THAN", "LIST": "VALUES IN"}
_NOT_OF_ROWS = ("vector_index", "inverted_index", "full_text_index", "condition_expr_string")
_ESCAPED = {"\0": "\\0", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z"}
_DEFAULT_CHARSET, _DEFAULT_COLLATION = "utf8mb4", "utf8mb4_bin"


def definition_of(info: Mapping[str, Any]) -> TableDefinition:
    """Raises KeyError, TypeError or ValueError for a field that is absent or cannot be."""
    shown = [item for item in sorted(info["cols"], key=lambda col: int(col["offset"])) if item["state"] == _PUBLIC]
    hidden = {item["name"]["O"]: str(item["generated_expr_string"]) for item in shown if item.get("hidden")}
    columns = tuple(_column(item) for item in shown if not item.get("hidden"))
    return TableDefinition(
        columns=columns,
        indexes=_indexes(info, shown, hidden),
        clustered=bool(info["pk_is_handle"] or info.get("is_common_handle")),
        charset=info.get("charset") or _DEFAULT_CHARSET,
        collation=info.get("collate") or _DEFAULT_COLLATION,
        partitioning=_partitioning(info),
    )


# ---- columns --------------------------------------------------------------------------------------------------------


def _column(value: Mapping[str, Any]) -> ColumnDefinition:
    field_type = value["type"]
    has_charset = field_type["Tp"] in _SIZED | _LARGE | _LABELLED and field_type["Charset"] != "binary"
    generated = str(value["generated_expr_string"])
    return ColumnDefinition(
        name=value["name"]["O"],
        type_text=type_text(field_type),
        nullable=not field_type["Flag"] & _NOT_NULL,
        charset=field_type["Charset"] if has_charset else "",
        collation=field_type["Collate"] if has_charset else "",
        default=None if generated else _default(value),
        on_update="CURRENT_TIMESTAMP" + _fraction(field_type) if field_type["Flag"] & _ON_UPDATE_NOW else "",
        generated=generated,
        stored=bool(generated and value["generated_stored"]),
    )


def type_text(field_type: Mapping[str, Any]) -> str:
    """Of TiDB's FieldType. Raises ValueError for a type that is unknown."""
    code, flag = field_type["Tp"], field_type["Flag"]
    text = _bare_type(field_type)
    if code in (_BIT, _YEAR):
        return text
    return text + (" unsigned" if flag & _UNSIGNED else "") + (" zerofill" if flag & _ZEROFILL else "")


def _bare_type(field_type: Mapping[str, Any]) -> str:
    code, length, scale = field_type["Tp"], field_type["Flen"], field_type["Decimal"]
    is_binary = field_type["Charset"] == "binary"
    match code:
        case _ if code in _INTEGERS:
            return (
                f"{_INTEGERS[code]}({integer_width(_INTEGERS[code], bool(field_type['Flag'] & _UNSIGNED)) if length == _WHOLE else length})"
            )
        case _ if code in _FLOATS:
            return f"{_FLOATS[code]}({length},{scale})" if scale > 0 else _FLOATS[code]
        case _ if code in _TIMES:
            return _TIMES[code] + _fraction(field_type)
        case _ if code in _PLAIN:
            return _PLAIN[code]
        case _ if code in _LABELLED:
            return f"{_LABELLED[code]}({shown(field_type['Elems'] or (), Shows.TIDB)})"
        case _ if code in _SIZED:
            return f"{_SIZED[code][is_binary]}({1 if length == _WHOLE else length})"
        case _ if code in _LARGE:
            return _LARGE[code][is_binary]
        case 246:
            return f"decimal({10 if length == _WHOLE else length},{max(scale, 0)})"
        case 13:
            return f"year({4 if length == _WHOLE else length})"
        case 16:
            return f"bit({1 if length == _WHOLE else length})"
        case 225:
            return "vector" if length == _WHOLE else f"vector({length})"
    raise ValueError(f"type {code} is unknown")


def integer_width(name: str, unsigned: bool) -> int:
    return INTEGER_WIDTHS[name] - (unsigned and name != "bigint")


def _fraction(field_type: Mapping[str, Any]) -> str:
    return f"({field_type['Decimal']})" if field_type["Decimal"] > 0 else ""


def _default(column: Mapping[str, Any]) -> str | None:
    field_type, value = column["type"], column.get("default")
    if field_type["Flag"] & _NO_DEFAULT:
        return None
    if field_type["Tp"] == _BIT and column.get("default_bit") is not None:
        return f"b'{int.from_bytes(b64decode(column['default_bit'], validate=True), 'big'):b}'"
    if value is None:
        return None
    if column.get("default_is_expr"):
        return f"({value})"
    if str(value).upper() in _CURRENT and field_type["Tp"] in _TIMES | _PLAIN:
        now = str(value).upper() + _fraction(field_type)
        return now if str(value).upper() == "CURRENT_TIMESTAMP" else f"({now})"
    return quoted_text(str(value))


# ---- indexes --------------------------------------------------------------------------------------------------------


def _indexes(info: Mapping[str, Any], shown: Sequence[Mapping[str, Any]], hidden: Mapping[str, str]) -> tuple[IndexDefinition, ...]:
    of_rows = [index for index in info["index_info"] or () if index["state"] == _PUBLIC and not any(map(index.get, _NOT_OF_ROWS))]
    definitions = [
        IndexDefinition(
            name=index["idx_name"]["O"],
            parts=tuple(_part(part, hidden) for part in index["idx_cols"]),
            unique=bool(index["is_unique"]),
            primary=bool(index["is_primary"]),
            id=int(index["id"]),
        )
        for index in of_rows
    ]
    if info["pk_is_handle"]:
        names = (column["name"]["O"] for column in shown if column["type"]["Flag"] & _PRIMARY_KEY)
        definitions.append(IndexDefinition("PRIMARY", tuple(map(IndexPart, names)), unique=True, primary=True))
    return tuple(sorted(definitions, key=lambda index: (not index.primary, index.id)))


def _part(value: Mapping[str, Any], hidden: Mapping[str, str]) -> IndexPart:
    name = value["name"]["O"]
    return IndexPart(expression=hidden[name]) if name in hidden else IndexPart(name, int(value["length"]))


# ---- partitions -----------------------------------------------------------------------------------------------------


def _partitioning(info: Mapping[str, Any]) -> str:
    partition = info.get("partition")
    if not partition or not partition["enable"]:
        return ""
    definitions = partition["definitions"]
    names = [str(definition.get("name", {}).get("O", "")) for definition in definitions]
    if not all(names):
        return ""
    kind = _KINDS.get(partition["type"])
    if kind is None:
        raise ValueError(f"partition type {partition['type']} is unknown")
    columns = ",".join(quoted(item["O"]) for item in partition.get("columns") or ())
    method = f"{kind} COLUMNS" if columns and kind in _WITH_VALUES else kind
    values = [_values(kind, definition) for definition in definitions]
    return partitioning_clause(method, columns or str(partition.get("expr") or ""), names, values)


def partitioning_clause(method: str, by: str, names: Sequence[str], values: Sequence[str]) -> str:
    """`method`: RANGE, RANGE COLUMNS, LIST, LIST COLUMNS, HASH or KEY. `by`: columns or an expression, in SQL. `values`: of each partition
    what is between the brackets, not looked at for HASH and KEY."""
    head, words = f"PARTITION BY {method} ({by})", _WITH_VALUES.get(method.split(" ")[0])
    if words is None and list(names) == [f"p{number}" for number in range(len(names))]:
        return f"{head} PARTITIONS {len(names)}"
    partition_clauses = (
        f"PARTITION {quoted(name)}" + (f" {words} ({value})" if words else "") for name, value in zip(names, values, strict=True)
    )
    return f"{head} ({', '.join(partition_clauses)})"


def _values(kind: str, value: Mapping[str, Any]) -> str:
    if kind == "RANGE":
        return ",".join(map(bound, value["less_than"]))
    if kind == "LIST":
        return ",".join(bound(row[0]) if len(row) == 1 else f"({','.join(map(bound, row))})" for row in value["in_values"])
    return ""


def bound(text: str) -> str:
    """A bound as TableInfo holds it, in SQL: text that has no form in SQL as hexadecimal digits."""
    escaped = "".join(_ESCAPED.get(char, char) for char in text)
    if escaped.isprintable():
        return escaped
    bare = text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text
    return "0x" + bare.encode().hex()
