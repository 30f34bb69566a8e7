"""A table's statements. A table of TiDB is a table `schema.table` of the same columns and key; it is made with its first rows.

A schema change makes a table of the columns after it, which takes the rows over column by column (ddl/effects.py says from where). What no
statement here can follow is refused, with what an operator can do.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import assert_never

import pyarrow as pa

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema, lowered
from spark_merge.codecs.encode.block import Block, image_columns
from spark_merge.ddl.conversion import Conversion
from spark_merge.ddl.effects import TableEffect, TableFate
from spark_merge.port.contract import Head
from spark_merge.sinks.kit.table_ddl import checked_effects
from spark_merge.sinks.sqlite.database import quoted

COLUMNS_MAX = 2000
"""SQLITE_MAX_COLUMN of a SQLite that was built as it is by default."""
_RESERVED = "sqlite_"


def misfits(schemas: Iterable[TableSchema]) -> Iterator[tuple[str, str]]:
    """What keeps each of them from having rows here, with the way out."""
    for one in schemas:
        if lowered(str(one.name)).startswith(_RESERVED):
            way_out = "leave it out by the changefeed's filter, or take another sink: a `sqlite:` sink has no routes"
            yield f"{one.name} cannot be a table of SQLite, which keeps names that begin with {_RESERVED} for itself", way_out
        if len(one.columns) > COLUMNS_MAX:
            way_out = "leave it out by the changefeed's filter, or take another sink"
            yield f"{one.name} has {len(one.columns)} columns, and a table of SQLite has {COLUMNS_MAX} at most", way_out


def made(schema: TableSchema) -> str:
    """Raises SinkError for a table that SQLite cannot have."""
    for problem, way_out in misfits([schema]):
        raise SinkError(problem, hint=way_out)
    return create(_name(schema.name), schema)


def make(connection: sqlite3.Connection, schema: TableSchema) -> None:
    """The table is there, as this sink makes it. Raises SinkError for one that SQLite cannot have, or that is there and is another."""
    connection.execute(made(schema))
    for problem, way_out in differs(connection, schema):
        raise SinkError(problem, hint=way_out)


def differs(connection: sqlite3.Connection, schema: TableSchema) -> Iterator[tuple[str, str]]:
    """How a table that is there is another than this sink makes, with the way out. Types and collations of others may take two values for
    one, or two rows; and rows are written in the order of the columns."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.execute(made(schema))
        there, wanted = (_shape(one, str(schema.name)) for one in (connection, fresh))
    if there and there != wanted:
        yield (
            f"table {schema.name} of the file is not as this sink makes it: it has {_differences(there, wanted)}",
            "drop or rename it and dump the table again, or give the sink a file of its own",
        )


def _shape(connection: sqlite3.Connection, name: str) -> list[str]:
    """Its columns with their affinities, then each unique key with its collations, whatever their names. Empty: it is not there."""
    info = connection.execute(f"PRAGMA table_xinfo({quoted(name)})").fetchall()
    columns = [f"{lowered(column)} {_affinity_of(kind.upper())}" for _, column, kind, *_ in info]
    keys = []
    for _, index, unique, *_ in connection.execute(f"PRAGMA index_list({quoted(name)})").fetchall():
        parts = connection.execute(f"PRAGMA index_xinfo({quoted(index)})").fetchall()
        own = [f"{lowered(column or 'an expression')} {collation}" for _, _, column, _, collation, in_key in parts if in_key]
        if unique:
            keys.append(f"unique key ({', '.join(own)})")
    return columns + sorted(keys)


def _affinity_of(kind: str) -> str:
    """Of a declared type, as far as this sink uses it (www.sqlite.org/datatype3.html, "Determination Of Column Affinity")."""
    if "INT" in kind:
        return "INTEGER"
    return "TEXT" if any(word in kind for word in ("CHAR", "CLOB", "TEXT")) else kind


def _differences(there: Collection[str], wanted: Collection[str]) -> str:
    more, less = ([one for one in some if one not in others] for some, others in ((there, wanted), (wanted, there)))
    return f"{', '.join(more) or 'nothing more'} and not {', '.join(less) or 'that order'}"


def create(name: str, schema: TableSchema) -> str:
    """`name`: quoted."""
    columns = ", ".join(f"{quoted(column.name)} {_affinity(column)}" for column in schema.columns)
    key = ", ".join(map(quoted, schema.key))
    return f"CREATE TABLE IF NOT EXISTS {name} ({columns}, PRIMARY KEY ({key})) WITHOUT ROWID"


def apply(connection: sqlite3.Connection, block: Block) -> None:
    """The block's rows in their order: puts by key, deletes by key."""
    schema, name = block.schema, quoted(str(block.schema.name))
    marks = ", ".join("?" * len(schema.columns))
    put = f"INSERT OR REPLACE INTO {name} VALUES ({marks})"
    delete = f"DELETE FROM {name} WHERE {' AND '.join(f'{quoted(column)} = ?' for column in schema.key)}"
    places = [schema.column_names().index(column) for column in schema.key]
    images = zip(*(column.to_pylist() for column in image_columns(block)), strict=True)
    for op, image in zip(_texts(block.op), images, strict=True):
        if op == "delete":
            connection.execute(delete, [image[place] for place in places])
        else:
            connection.execute(put, image)


def statements(head: Head, done: Collection[CommitTs]) -> list[str]:
    """Of the DDLs that end `head`, but those that the operator has done by hand. All tables that change are copied first, then what they
    were is dropped, then the copies get their names: so tables may exchange names. Raises SinkError for what cannot be followed."""
    copies, drops, renames = list[str](), list[str](), list[str]()
    for effect in checked_effects(head) if head.upto_ts not in done else ():
        if effect.rows_leave:
            raise _refused(head, effect, "rows leave with a partition, without a change event of each")
        match effect.fate:
            case TableFate.CREATED:
                drops.append(f"DROP TABLE IF EXISTS {_name(effect.name)}")  # of that name, which is gone at the source
            case TableFate.DROPPED | TableFate.EMPTIED:
                drops.append(f"DROP TABLE IF EXISTS {_name(_before(effect).name)}")
            case TableFate.GONE:
                if effect.problem is not None:
                    raise _refused(head, effect, effect.problem.message) from effect.problem
            case TableFate.KEPT | TableFate.RENAMED:
                if effect.changes_columns or (effect.before is not None and effect.before.name != effect.name):
                    copy = quoted(f"_ticdc_dump_copy_{len(renames)}")
                    copies += _copied(head, effect, copy)
                    drops += [f"DROP TABLE IF EXISTS {_name(name)}" for name in (_before(effect).name, effect.name)]
                    renames.append(f"ALTER TABLE {copy} RENAME TO {_name(effect.name)}")
            case TableFate.EXCHANGED | TableFate.ARRIVED | TableFate.UNKEYED | TableFate.UNKNOWN:
                raise _refused(head, effect, f"of {effect.name} rows come or go without a change event of each ({effect.fate.value})")
            case _ as never:
                assert_never(never)
    return [*copies, *drops, *renames]


def _copied(head: Head, effect: TableEffect, copy: str) -> tuple[str, ...]:
    """The table as it is after the DDL, with the rows of the one before, which is made where it has had no rows yet."""
    before = _before(effect)
    after = effect.after or replace(before, name=effect.name)
    for one in effect.columns:
        if one.unknown:
            raise _refused(head, effect, f"existing rows have {one.unknown} in column {one.column.name}")
        if one.before is not None and one.conversion not in (Conversion.UNCHANGED, Conversion.TEXT):
            raise _refused(head, effect, f"column {one.column.name} has values of a {one.before.kind}, whose text may change")
    values = ", ".join(_literal(one.existing) if one.before is None else _value(one.before, one.column) for one in effect.columns)
    into = f"INSERT INTO {copy} SELECT {values} FROM {_name(before.name)}"
    return create(_name(before.name), before), create(copy, after), into


def _value(before: Column, after: Column) -> str:
    """Of a row that is there, whose value is the same or its text. A year's text has four digits, an integer's has no zeros before it."""
    name = quoted(before.name)
    return f"CAST({name} AS INTEGER)" if before.kind == "year" != after.kind else name


def _before(effect: TableEffect) -> TableSchema:
    assert effect.before is not None, "a table that stays was there"
    return effect.before


def _refused(head: Head, effect: TableEffect, why: str) -> SinkError:
    text = effect.record.query if effect.record else "a step of a DDL"
    return SinkError(
        f"the DDL {text!r} cannot be carried out on SQLite tables: {why}",
        hint=f"bring the table to what TiDB has by hand, and add ddl-done={head.upto_ts} to the sink's URI; or deliver a new dump to a new"
        " file",
    )


def _name(name: TableName) -> str:
    return quoted(str(name))


def _literal(text: str | None) -> str:
    return "NULL" if text is None else "'" + text.replace("'", "''") + "'"


def _affinity(column: Column) -> str:
    """`uint` goes beyond SQLite's integers, and would become a float."""
    return "INTEGER" if column.kind == "int" else "TEXT"


def _texts(column: pa.Array) -> list[str]:
    texts: list[str] = column.to_pylist()
    return texts
