"""What the target's tables have, read from it and not from the log: its columns, its unique keys, and how these compare texts. It is the
target's keys that rows meet in.

- A table that cannot take a source's rows as they are says so when its first row comes: it is missing, or lacks a column, or has no unique
  key of exactly the handle key's columns, by which rows are replaced.
- A unique key whose value a row does not show (an expression, a column that is no column of the source) makes all rows of the table one
  group.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sidecar.core.model import Column, ColumnDefinition, TableName, TableSchema, lowered
from sidecar.errors import SinkError
from sidecar.mysql.flavour import Flavour
from sidecar.mysql.session import MysqlSession


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


@dataclass(frozen=True, slots=True)
class ServerColumn:
    """`type` as in information_schema's DATA_TYPE."""

    name: str
    type: str
    collation: str | None
    generated: bool
    charset: str | None = None


@dataclass(frozen=True, slots=True)
class ServerTable:
    """`indexes`: unique ones, each as (column or None for an expression, length of its prefix or None)."""

    columns: tuple[ServerColumn, ...]
    indexes: tuple[tuple[tuple[str | None, int | None], ...], ...]


def read_table(session: MysqlSession, name: TableName) -> ServerTable | None:
    """None for a table that is not there, or that the account may not see. Raises pymysql's errors."""
    where = "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    columns = session.rows(
        "SELECT COLUMN_NAME, DATA_TYPE, COLLATION_NAME, EXTRA, CHARACTER_SET_NAME FROM information_schema.COLUMNS"
        f" {where} ORDER BY ORDINAL_POSITION",
        name,
    )
    if not columns:
        return None
    rows = session.rows(
        f"SELECT INDEX_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS {where} AND NON_UNIQUE = 0"
        " ORDER BY INDEX_NAME, SEQ_IN_INDEX",
        name,
    )
    indexes: defaultdict[str, list[tuple[str | None, int | None]]] = defaultdict(list)
    for index, column, length in rows:
        indexes[index].append((column, None if length is None else int(length)))
    results = [
        ServerColumn(one, kind.lower(), collation, _is_generated(extra), charset) for one, kind, collation, extra, charset in columns
    ]
    return ServerTable(tuple(results), tuple(map(tuple, indexes.values())))


def _is_generated(extra: str) -> bool:
    """A column, and not its default alone: DEFAULT_GENERATED is what MySQL 8 and TiDB say of DEFAULT CURRENT_TIMESTAMP."""
    return "GENERATED" in extra.upper().replace(",", " ").split()


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
    key = {lowered(column) for column in schema.key}
    if not any({lowered(column or "") for column, _ in index} == key and not any(n for _, n in index) for index in table.indexes):
        columns = ", ".join(schema.key)
        yield (
            f"table {name} at the target has no unique key of exactly ({columns}), by which rows of {schema.name} are replaced",
            f"add PRIMARY KEY or UNIQUE ({columns}) there: without it a row that is written again would be there twice",
        )
    yield from _coarser(schema, name, there, key)


def _coarser(schema: TableSchema, name: TableName, there: Mapping[str, ServerColumn], key: set[str]) -> Iterator[_Misfit]:
    """Two keys of the source that are one at the target would be one row there."""
    defined = {lowered(column.name): column for column in schema.definition.columns} if schema.definition else {}
    for column in sorted(key & there.keys() & defined.keys()):
        here, target = defined[column], there[column].collation
        if target is not None and here.collation and not _as_fine(target, here):
            yield (
                f"key column {column} of {name} is compared by {target} at the target, and by {here.collation} at the source",
                f"ALTER TABLE {name} MODIFY the column with COLLATE {_named(here.collation)}: keys that differ here may be one there",
            )


def _as_fine(target: str, here: ColumnDefinition) -> bool:
    return _named(target) == _named(here.collation) or target.endswith("_bin") or target == "binary"


def _named(collation: str) -> str:
    """As TiDB names it. MariaDB's of UCA 14.0 stands for that of 9.0 (ddl_dialect.py): all but a few rare letters compare alike."""
    return collation.replace("utf8mb3_", "utf8_").replace("uca1400_nopad", "0900")


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
