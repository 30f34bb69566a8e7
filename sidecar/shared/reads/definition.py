"""What tables were made of, by information_schema: equal to `rowcodec.definition` of the same table's TableInfo, as far as SQL shows it.

- TiDB 8.5 and later hide the display widths of integers: a definition then has TiDB's default widths. TiDB never shows ZEROFILL.
- TiDB shows a default that is an expression by the same text as one that is a string. A call of one of the functions that TiDB takes for
  defaults is an expression. So is any default of a type that takes no other.
- MariaDB shows defaults as SQL, and JSON columns as LONGTEXT. What it writes otherwise than TiDB does, is written as TiDB does.
- An index of TiDB that has only a condition, or is columnar, looks like any other. One of vectors or of whole texts is recognized by its
  columns, and omitted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from sidecar.shared.model.nouns import ColumnDefinition, IndexDefinition, TableDefinition, TableName
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.session import MysqlSession, Row
from sidecar.shared.reads.indexes import grouped
from sidecar.shared.rowcodec.definition import bound, integer_width, partitioning_clause
from sidecar.shared.sql.text import quoted_text

COLUMNS_REPORTED = "COLUMN_DEFAULT, CHARACTER_SET_NAME, COLLATION_NAME, GENERATION_EXPRESSION"
"""Behind the columns that `schema` asks for: name, nullable, data type, type, extra."""

_INTEGER = re.compile(r"(tinyint|smallint|mediumint|int|bigint)(?!\()( unsigned)?")
_NOW = re.compile(r"(?:current_timestamp|now)(?:\((\d*)\))?", re.IGNORECASE)
_ON_UPDATE = re.compile(r"on update (\S+)", re.IGNORECASE)
_EXPRESSIONS = re.compile(
    r"(rand|uuid|date_format|str_to_date|replace|upper|lower|substring_index|json_\w+|nextval|vec_from_text|to_days|md5|sha1|current_date)\(",
    re.IGNORECASE,
)
_ONLY_EXPRESSIONS = re.compile(r"json|(tiny|medium|long)?(text|blob)|vector|geometry")
_LARGE = re.compile(r"json|(tiny|medium|long)?(text|blob)|vector")
_BARE = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE)


def read_partitions(session: MysqlSession, scope: str, values: tuple[str, ...] | None) -> Mapping[TableName, tuple[tuple[int, ...], str]]:
    """Of the partitioned tables: the ids in the order of the partitions, none where the server has none, and the clause that makes them.
    Raises pymysql's errors."""
    number = "TIDB_PARTITION_ID" if session.flavour is Flavour.TIDB else "NULL"
    by_table = grouped(
        session.rows(
            f"SELECT TABLE_SCHEMA, TABLE_NAME, {number}, PARTITION_NAME, PARTITION_METHOD, PARTITION_EXPRESSION, PARTITION_DESCRIPTION"
            " FROM information_schema.partitions"
            f" WHERE PARTITION_NAME IS NOT NULL AND {scope} ORDER BY TABLE_SCHEMA, TABLE_NAME, PARTITION_ORDINAL_POSITION",
            values,
        )
    )
    return {table: (tuple(int(row[0]) for row in rows if row[0] is not None), _partitioning(rows)) for table, rows in by_table.items()}


def _partitioning(rows: Sequence[Row]) -> str:
    _, _, method, by, _ = rows[0]
    return partitioning_clause(method, by or "", [row[1] for row in rows], [bound(row[4] or "") for row in rows])


def read_tables(session: MysqlSession, scope: str, values: tuple[str, ...] | None) -> Mapping[TableName, tuple[bool, str]]:
    """Whether each table is clustered, and its collation. Raises pymysql's errors."""
    pk_type = "TIDB_PK_TYPE" if session.flavour is Flavour.TIDB else "'CLUSTERED'"
    rows = session.rows(
        f"SELECT TABLE_SCHEMA, TABLE_NAME, {pk_type}, TABLE_COLLATION FROM information_schema.tables WHERE {scope}",
        values,
    )
    return {TableName(schema, table): (pk == "CLUSTERED", collation or "") for schema, table, pk, collation in rows}


def definition(
    columns: Iterable[Row],
    indexes: Sequence[IndexDefinition],
    table: tuple[bool, str],
    partitioning: str,
    *,
    flavour: Flavour,
    json_columns: Collection[str] = (),
) -> TableDefinition:
    """`columns`: rows of information_schema in table order, `COLUMNS_REPORTED` last; `json_columns`: those that MariaDB calls LONGTEXT."""
    column_definitions = tuple(_column(row, flavour, is_json=row[0] in json_columns) for row in columns)
    large = {column.name for column in column_definitions if _LARGE.match(column.type_text)}
    of_rows = (index for index in indexes if index.unique or all(part.column not in large or part.length >= 0 for part in index.parts))
    clustered, collation = table
    has_primary = any(index.primary for index in indexes)
    return TableDefinition(column_definitions, tuple(of_rows), clustered and has_primary, collation.split("_")[0], collation, partitioning)


def _column(row: Row, flavour: Flavour, *, is_json: bool) -> ColumnDefinition:
    name, nullable, _, type_text, extra, default, charset, collation, generated = row
    type_text = "json" if is_json else _with_width(type_text)
    on_update = _ON_UPDATE.search(extra)
    return ColumnDefinition(
        name=name,
        type_text=type_text,
        nullable=nullable.upper() == "YES",
        charset="" if is_json else charset or "",
        collation="" if is_json else collation or "",
        default=None if generated or default is None else _default(str(default), type_text, flavour, extra),
        on_update=_now(on_update[1]) or "" if on_update else "",
        generated=generated or "",
        stored=bool(generated) and "VIRTUAL" not in extra.upper(),
    )


def _with_width(type_text: str) -> str:
    match = _INTEGER.match(type_text)
    if match is None:
        return type_text
    return f"{match[1]}({integer_width(match[1], match[2] is not None)}){type_text[len(match[1]) :]}"


def _now(text: str) -> str | None:
    match = _NOW.fullmatch(text)
    return None if match is None else "CURRENT_TIMESTAMP" + (f"({match[1]})" if match[1] and match[1] != "0" else "")


def _default(text: str, type_text: str, flavour: Flavour, extra: str) -> str | None:
    """As SQL; None for no default."""
    if type_text.startswith(("timestamp", "datetime")) and (now := _now(text)) is not None:
        return now
    if flavour is Flavour.MARIADB:
        return _of_mariadb(text)
    if type_text.startswith("bit") and text.startswith("b'"):
        return text
    if text.upper() == "CURRENT_DATE" and type_text == "date":
        return "(CURRENT_DATE)"
    generated = flavour is Flavour.MYSQL and "DEFAULT_GENERATED" in extra.upper()
    is_expression = generated or _EXPRESSIONS.match(text) or (flavour is Flavour.TIDB and _ONLY_EXPRESSIONS.match(type_text))
    return f"({text})" if is_expression else quoted_text(text)


def _of_mariadb(text: str) -> str | None:
    """SQL already. A number stands without quotes, and so does NULL."""
    if text.upper() == "NULL":
        return None
    if _BARE.fullmatch(text):
        return quoted_text(text)
    return text if text.startswith(("'", "b'")) else f"({text})"
