"""Tables that are not at the target yet, from what the log says they were made of: `create-tables=true` in the sink's URI.

The statement is written in TiDB's words and goes the way of any DDL (spark_merge/ddl/parser.py,
ddl_dialect.py), so there is one list of what each
target has for them. A table that is there is compared: columns, types, what may be NULL, what is generated, and the key that identifies
rows. What a copy does not need is not made: AUTO_INCREMENT and AUTO_RANDOM (values come with the rows), foreign keys, checks, comments,
an index on an expression where the target has none, partitions that it cannot have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

import pymysql

from sidecar.shared.errors import SinkError, UnsupportedDdl
from sidecar.shared.model.nouns import (
    MARK_TABLE,
    ColumnDefinition,
    IndexDefinition,
    IndexPart,
    TableDefinition,
    TableName,
    TableSchema,
    lowered,
)
from sidecar.shared.mysql.collation import by_bytes
from sidecar.shared.mysql.flavour import Flavour, flavour_of
from sidecar.shared.sql.text import Shows, quoted, quoted_text, shown
from spark_merge.ddl.names import at_target
from spark_merge.ddl.parser import parsed
from spark_merge.ddl.routes import SEPARATE, Routes, check_disjoint
from spark_merge.sinks.mysql.by_bytes import made_table
from spark_merge.sinks.mysql.ddl_dialect import rendered
from spark_merge.sinks.mysql.ddl_picture import PictureSession
from spark_merge.sinks.mysql.formulas import plain_columns
from spark_merge.sinks.mysql.server_table import read_table
from spark_merge.sinks.mysql.tables import target_table

_NO_SUCH_PARTITIONS = frozenset({*range(1478, 1528), *range(1564, 1568), *range(1653, 1660), 1748})
"""The servers' errors of partitioning."""

_INTEGER = re.compile(r"^((?:tiny|small|medium|big)?int|year)\(\d+\)")


class _Server(NamedTuple):
    """`by_bytes`: it compares the bytes of all texts."""

    dialect: Flavour
    by_bytes: bool


class Made(NamedTuple):
    """`partitioned` False: the source's table is, and this one is not."""

    name: TableName
    partitioned: bool = True


def make_tables(session: PictureSession, schemas: Iterable[TableSchema], routes: Routes) -> list[Made]:
    """Those that are not there, with their schemas, and a look at the others. Raises SinkError for a table of other columns, and for one
    whose definition the log does not tell, and for two that routes take to one; pymysql's errors."""
    wanted = sorted((one for one in schemas if one.columns and one.name.schema != MARK_TABLE.schema), key=lambda one: one.name)
    check_disjoint((one.name for one in wanted), lambda name: routes.target(name).folded(), hint=SEPARATE)
    dialect = flavour_of(str(session.rows("SELECT VERSION()")[0][0]))
    server = _Server(dialect, by_bytes(session, dialect))
    for schema in sorted({routes.target(one.name).schema for one in wanted}):
        session.rows(f"CREATE DATABASE IF NOT EXISTS {quoted(schema)} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    return [made for one in wanted if (made := _make(session, one, routes, server)) is not None]


def _make(session: PictureSession, schema: TableSchema, routes: Routes, server: _Server) -> Made | None:
    """None: it was there."""
    target, dialect = routes.target(schema.name), server.dialect
    if schema.definition is None:
        raise SinkError(
            f"{schema.name}: the log does not say what it was made of, so it cannot be made as {target}",
            hint="make it at the target by hand and remove `create-tables`; a log that this version begins has it",
        )
    there = _columns(session, target)
    made, definition = None, _without_formulas(_carried(schema, schema.definition), dialect)
    shows = Shows.TIDB if dialect is Flavour.TIDB else Shows.MYSQL
    known = [_with_labels(schema, definition, lambda labels: shown(labels, shows))]
    definition = made_table(definition, dialect, by_bytes=not definition.new_collation and not server.by_bytes)
    known.append(_with_labels(schema, definition, lambda labels: shown(labels, shows)))
    if not there:
        made = _carry_out(session, schema.name, _with_labels(schema, definition, in_sql), routes, dialect)
        there = _columns(session, target)
    _compare(session, schema, known, target, there, dialect)
    return made


def _carry_out(session: PictureSession, name: TableName, definition: TableDefinition, routes: Routes, dialect: Flavour) -> Made:
    whole = definition.partitioning
    try:
        session.rows(create_statement(name, definition, routes, dialect))
    except (pymysql.err.MySQLError, UnsupportedDdl) as error:
        cannot = isinstance(error, UnsupportedDdl) or error.args[0] in _NO_SUCH_PARTITIONS
        if not whole or not cannot:
            raise
        session.rows(create_statement(name, replace(definition, partitioning=""), routes, dialect))
        return Made(routes.target(name), partitioned=False)
    return Made(routes.target(name))


# ---- the statement ----------------------------------------------------------------------------------------------------


def create_statement(name: TableName, definition: TableDefinition, routes: Routes, dialect: Flavour) -> str:
    """Raises UnsupportedDdl for what the target has not."""
    return rendered(at_target(parsed(tidbs_statement(name, _possible(definition, dialect)), name.schema), routes), dialect)


def _possible(definition: TableDefinition, dialect: Flavour) -> TableDefinition:
    if dialect is not Flavour.MARIADB:
        return definition
    return replace(definition, indexes=tuple(index for index in definition.indexes if not any(part.expression for part in index.parts)))


def _carried(schema: TableSchema, definition: TableDefinition) -> TableDefinition:
    """The definition without indexes of columns that the changefeed omits. An expression may be over one of them."""
    if not schema.omitted:
        return definition
    there = {one.name for one in definition.columns}
    return replace(definition, indexes=tuple(index for index in definition.indexes if all(part.column in there for part in index.parts)))


def _without_formulas(definition: TableDefinition, dialect: Flavour) -> TableDefinition:
    plain = plain_columns(definition, dialect)
    columns = tuple(replace(one, generated="", stored=False) if lowered(one.name) in plain else one for one in definition.columns)
    return replace(definition, columns=columns)


def tidbs_statement(name: TableName, definition: TableDefinition) -> str:
    items = [_column(column) for column in definition.columns]
    items += [_index(index, clustered=definition.clustered) for index in definition.indexes]
    charset = f" CHARACTER SET {definition.charset} COLLATE {definition.collation}" if definition.charset else ""
    return f"CREATE TABLE {quoted(name.schema)}.{quoted(name.table)} ({', '.join(items)}){charset} {definition.partitioning}".strip()


def in_sql(labels: Iterable[str]) -> str:
    return ",".join(map(quoted_text, labels))


def _with_labels(schema: TableSchema, definition: TableDefinition, written: Callable[[Iterable[str]], str]) -> TableDefinition:
    """The definition has labels as the source shows them, which is neither SQL nor what another server shows."""
    labels = {column.name: column.elements for column in schema.columns if column.kind in ("enum", "set")}
    if unknown := [name for name, results in labels.items() if not results]:
        raise SinkError(
            f"{schema.name}: the log does not have the labels of column {unknown[0]}, because TiDB shows a line end and a backslash with a"
            " letter in the same way",
            hint="make the table at the target by hand and remove `create-tables`, or rename the label in TiDB",
        )
    texts = {
        column.name: f"{column.type_text.partition('(')[0]}({written(labels[column.name])})"
        for column in definition.columns
        if column.name in labels
    }
    columns = tuple(replace(column, type_text=texts.get(column.name, column.type_text)) for column in definition.columns)
    return replace(definition, columns=columns)


def _column(column: ColumnDefinition) -> str:
    text = f"{quoted(column.name)} {column.type_text}"
    if column.charset:
        text += f" CHARACTER SET {column.charset} COLLATE {column.collation}"
    if column.generated:
        text += f" GENERATED ALWAYS AS ({column.generated}) {'STORED' if column.stored else 'VIRTUAL'}"
    text += " NULL" if column.nullable else " NOT NULL"
    if column.default is not None:
        text += f" DEFAULT {column.default}"
    return text + (f" ON UPDATE {column.on_update}" if column.on_update else "")


def _index(index: IndexDefinition, *, clustered: bool) -> str:
    parts = ", ".join(map(_part, index.parts))
    if index.primary:
        return f"PRIMARY KEY ({parts}) {'CLUSTERED' if clustered else 'NONCLUSTERED'}"
    return f"{'UNIQUE ' if index.unique else ''}KEY {quoted(index.name)} ({parts})"


def _part(part: IndexPart) -> str:
    if part.expression:
        return f"({part.expression})"
    return quoted(part.column) + (f"({part.length})" if part.length >= 0 else "")


# ---- what is there ----------------------------------------------------------------------------------------------------


class _Column(NamedTuple):
    """`type` without what says nothing of values."""

    name: str
    type: str
    nullable: bool
    generated: bool

    def __str__(self) -> str:
        null = "" if self.nullable else " not null"
        return f"{self.name} {self.type}{null}{' generated' if self.generated else ''}"


def _columns(session: PictureSession, name: TableName) -> list[_Column]:
    """Empty: it is not there."""
    rows = session.rows(
        "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, GENERATION_EXPRESSION FROM information_schema.columns"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        tuple(name),
    )
    return [_Column(str(one), _plain(str(kind)), null == "YES", bool(expression)) for one, kind, null, expression in rows]


def _compare(
    session: PictureSession, schema: TableSchema, known: list[TableDefinition], target: TableName, there: list[_Column], dialect: Flavour
) -> None:
    """A column is as in one of `known`: the log's definition, and the one that is made of it, which comes last. Those that the changefeed
    omits may be there, and generated ones over them."""
    carried = {lowered(one.name) for one in known[-1].columns}
    omitted = {lowered(one.name) for one in schema.omitted}
    if omitted:
        there = [one for one in there if lowered(one.name) in carried or not (lowered(one.name) in omitted or one.generated)]
    each = [_pairs(there, [_expected(column, dialect) for column in definition.columns]) for definition in known]
    differ = [
        f"{pairs[-1][0] or 'nothing'} and not {pairs[-1][1] or 'nothing'}"
        for pairs in zip(*each, strict=True)
        if all(one != other for one, other in pairs)
    ]
    if differ:
        raise SinkError(
            f"{target}, which is at the target, is another table than {schema.name} of the log: it has {'; '.join(differ)}",
            hint="alter, rename or drop it, give the log's table another target with `routes`, or remove `create-tables` if it is right",
        )
    if schema.key:
        target_table(schema, target, read_table(session, target), dialect).check()


def _expected(column: ColumnDefinition, dialect: Flavour) -> _Column:
    kind = _plain(column.type_text)
    generated = bool(column.generated)
    is_text = dialect is Flavour.MARIADB and kind == "json"
    return _Column(column.name, "longtext" if is_text else kind, column.nullable or (generated and dialect is Flavour.MARIADB), generated)


def _pairs(there: list[_Column], expected: list[_Column]) -> list[tuple[_Column | None, _Column | None]]:
    longest = range(max(len(there), len(expected)))
    return [(there[n] if n < len(there) else None, expected[n] if n < len(expected) else None) for n in longest]


def _plain(type_text: str) -> str:
    """Labels keep their case."""
    head, quote, labels = type_text.partition("'")
    return _INTEGER.sub(r"\1", head.lower()).replace(" zerofill", "") + quote + labels
