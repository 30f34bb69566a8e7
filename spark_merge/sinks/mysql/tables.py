"""What the target's tables have, read from it and not from the log: its columns, its unique keys, and how these compare texts. It is the
target's keys that rows meet in.

- A table that cannot take a source's rows as they are says so at `check`, when its first row comes and after each DDL: it is missing, or
  lacks a column, or has no unique key of exactly the handle key's columns, by which rows are replaced.
- The same holds where two rows of the source can be one there (`compares`), or two values of a column (`holds`). Both are known from the
  log's definitions; a log of 0.3.0 and before has none.
- A unique key whose value a row does not show (an expression, a column that is no column of the source) makes all rows of the table one
  group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, ColumnDefinition, TableDefinition, TableName, TableSchema, lowered
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.rowcodec.type_cast import column_type
from spark_merge.ddl.conversion import Typed
from spark_merge.sinks.mysql.compares import merged_rows
from spark_merge.sinks.mysql.formulas import differing_columns
from spark_merge.sinks.mysql.holds import NULL, lost
from spark_merge.sinks.mysql.server_table import ServerColumn, ServerTable, read_table


@dataclass(frozen=True, slots=True)
class UniqueKeyPart:
    """`column`: its place in the source's schema. `length`: of a prefix, in characters (bytes of binary types), -1 for all. `collation`:
    of a text that the target compares otherwise than by its letters."""

    column: int
    length: int = -1
    collation: str = ""


@dataclass(frozen=True, slots=True)
class TargetTable:
    """`columns`: places in the source's schema of what is written, `names` the target's names for them; generated ones are not written.
    `unique`: all its unique keys; None: a row does not show them. `problem`: why it cannot take rows, with `way_out`."""

    name: TableName
    columns: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    unique: tuple[tuple[UniqueKeyPart, ...], ...] | None = None
    problem: str = ""
    way_out: str = ""
    there: bool = True

    def check(self) -> TargetTable:
        if self.problem:
            raise SinkError(self.problem, hint=self.way_out)
        return self


def target_table(schema: TableSchema, name: TableName, table: ServerTable | None, flavour: Flavour) -> TargetTable:
    """How the rows of `schema` go into `name`, which is as `table`."""
    if table is None:
        return TargetTable(
            name,
            problem=f"table {name} is not at the target, and rows of {schema.name} are for it",
            way_out="make it there with its rows; or lead it elsewhere with routes=; or GRANT rights on it; where nothing is accepted yet,"
            " create-tables=true in the sink's URI makes it",
            there=False,
        )
    there = {lowered(column.name): column for column in table.columns}
    for problem, way_out in _misfits(schema, name, table, there, flavour):
        return TargetTable(name, problem=problem, way_out=way_out)
    columns = [place for place, column in enumerate(schema.columns) if not there[lowered(column.name)].generated]
    names = tuple(there[lowered(schema.columns[place].name)].name for place in columns)
    return TargetTable(name, tuple(columns), names, _unique(schema, table, there))


_Misfit = tuple[str, str]


def _misfits(
    schema: TableSchema, name: TableName, table: ServerTable, there: Mapping[str, ServerColumn], flavour: Flavour
) -> Iterator[_Misfit]:
    made = {one.name: one for one in schema.definition.columns} if schema.definition else {}
    differing = differing_columns(schema.definition, flavour) if schema.definition else frozenset()
    for column in schema.columns:
        target = there.get(lowered(column.name))
        if target is None:
            yield (
                f"table {name} at the target has no column {column.name}, which {schema.name} has",
                "add the column there as the source has it; it is written from the next batch on, so dump the table again",
            )
        elif column.kind == "vector" and flavour is not Flavour.TIDB:
            yield (
                f"column {column.name} of {schema.name} is a vector, which {flavour.value} is not given",
                "leave the table out of the changefeed, or use a tidb: sink",
            )
        elif column.kind == "json" and target.type not in ("json", "longtext"):
            yield (f"column {column.name} of {name} is {target.type}, and a json of any length comes", "make it JSON (LONGTEXT in MariaDB)")
        elif target.generated and column.name in made and (lowered(column.name) in differing or not made[column.name].generated):
            yield (
                f"column {column.name} of {name} is generated at the target, and {schema.name} may have other values in it",
                f"ALTER TABLE {name} MODIFY it to a plain column of its type, so that it is written; then dump the table again",
            )
    key = {lowered(column) for column in schema.key}
    if not any({lowered(column or "") for column, _ in index} == key and not any(n for _, n in index) for index in table.indexes):
        columns = ", ".join(schema.key)
        yield (
            f"table {name} at the target has no unique key of exactly ({columns}), by which rows of {schema.name} are replaced",
            f"add PRIMARY KEY or UNIQUE ({columns}) there: without it a row that is written again would be there twice",
        )
    if schema.definition is not None:
        yield from _narrower(schema, schema.definition, name, there, flavour)
        for what, loss in merged_rows(schema, schema.definition, table):
            yield (
                f"two rows of {schema.name} may be one in {name} at the target, by its {what}: {loss}",
                f"ALTER TABLE {name}: give it the source's keys, and their columns the source's types and collations (of a cluster without"
                " new collations: utf8mb4_0900_bin, in MariaDB utf8mb4_nopad_bin); if it has rows, dump the table again",
            )


def _narrower(
    schema: TableSchema, definition: TableDefinition, name: TableName, there: Mapping[str, ServerColumn], flavour: Flavour
) -> Iterator[_Misfit]:
    defined = {one.name: one for one in definition.columns}
    for column in schema.columns:
        here, target = defined[column.name], there[lowered(column.name)]
        if target.generated and not here.generated:
            yield (
                f"column {column.name} of {name} is generated at the target, and {schema.name} has values of its own in it",
                f"ALTER TABLE {name} MODIFY the column without GENERATED ALWAYS; if it has rows, dump the table again",
            )
            continue
        null = here.nullable and not target.nullable and not target.generated
        loss = NULL if null else lost(Typed(column, column_type(here)), target, flavour)
        if loss is not None:
            yield (
                f"column {column.name} of {name} is {target.spelled()} at the target, and {_spelled(here)} in {schema.name}: {loss}",
                f"ALTER TABLE {name} MODIFY the column as the source has it; if it has rows, dump the table again",
            )


def _spelled(here: ColumnDefinition) -> str:
    charset = f" CHARACTER SET {here.charset}" if here.charset else ""
    return f"{here.type_text}{charset}{'' if here.nullable else ' NOT NULL'}"


def _unique(schema: TableSchema, table: ServerTable, there: Mapping[str, ServerColumn]) -> tuple[tuple[UniqueKeyPart, ...], ...] | None:
    places = {lowered(column.name): place for place, column in enumerate(schema.columns)}
    keys = []
    for index in table.indexes:
        parts = []
        for column, length in index:
            place = places.get(lowered(column or ""))
            if place is None:
                return None
            parts.append(_part(schema.columns[place], place, length, there[lowered(column or "")]))
        keys.append(tuple(parts))
    return tuple(keys)


def _part(column: Column, place: int, length: int | None, target: ServerColumn) -> UniqueKeyPart:
    collation = target.collation or ""
    by_letters = column.kind != "text" or collation.endswith("_bin") or collation in ("", "binary")
    return UniqueKeyPart(place, -1 if length is None else length, "" if by_letters else collation)


def keys_sum(tables: Mapping[TableName, TargetTable]) -> str:
    """Which worker has a change hangs on this."""
    keys = sorted((str(name), repr(table.unique)) for name, table in tables.items())
    return hashlib.sha256(repr(keys).encode()).hexdigest()


def read_tables(
    session: MysqlSession, schemas: Sequence[TableSchema], names: Mapping[TableName, TableName]
) -> dict[TableName, TargetTable]:
    """By the source's name; `names` are the target's. Raises pymysql's errors."""
    flavour = session.flavour
    return {schema.name: target_table(schema, names[schema.name], read_table(session, names[schema.name]), flavour) for schema in schemas}
