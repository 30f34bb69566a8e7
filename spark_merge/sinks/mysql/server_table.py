"""A table of the target as the server shows it: its columns and its unique indexes; of its partitions the clause that makes them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from sidecar.shared.model.nouns import TableName, lowered
from sidecar.shared.mysql.collation import PADS
from sidecar.shared.rowcodec.definition import bound, partitioning_clause

UniqueIndex: TypeAlias = "tuple[tuple[str | None, int | None], ...]"


@dataclass(frozen=True, slots=True)
class ServerColumn:
    """`type` as in information_schema's DATA_TYPE, `type_text` as in its COLUMN_TYPE."""

    name: str
    type: str
    collation: str | None
    generated: bool
    charset: str | None = None
    type_text: str = ""
    nullable: bool = True

    def spelled(self) -> str:
        charset = f" CHARACTER SET {self.charset}" if self.charset else ""
        return f"{self.type_text}{charset}{'' if self.nullable else ' NOT NULL'}"


@dataclass(frozen=True, slots=True)
class ServerTable:
    """`indexes`: unique ones, each as (column or None for an expression, length of its prefix or None). `by_bytes`: the server compares
    texts by their bytes, whatever their collations."""

    columns: tuple[ServerColumn, ...]
    indexes: tuple[UniqueIndex, ...]
    by_bytes: bool = False


class Queried(Protocol):
    """A session with the server."""

    def rows(self, sql: str, values: Any = None) -> tuple[tuple[Any, ...], ...]:
        """Raises pymysql's errors."""


def read_table(session: Queried, name: TableName) -> ServerTable | None:
    """None for a table that is not there, or that the account may not see. Raises pymysql's errors."""
    where = "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    columns = session.rows(
        "SELECT COLUMN_NAME, DATA_TYPE, COLLATION_NAME, EXTRA, CHARACTER_SET_NAME, COLUMN_TYPE, IS_NULLABLE,"
        f" {PADS} FROM information_schema.COLUMNS"
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
        ServerColumn(one, kind.lower(), collation, _is_generated(extra), charset, text, nullable == "YES")
        for one, kind, collation, extra, charset, text, nullable, _ in columns
    ]
    return ServerTable(tuple(results), tuple(map(tuple, indexes.values())), not int(columns[0][-1]))


def _is_generated(extra: str) -> bool:
    """A column, and not its default alone: DEFAULT_GENERATED is what MySQL 8 and TiDB say of DEFAULT CURRENT_TIMESTAMP."""
    return "GENERATED" in extra.upper().replace(",", " ").split()


def read_partitioning(session: Queried, name: TableName) -> str:
    """As a log's definition has it (TableDefinition.partitioning). Raises pymysql's errors."""
    rows = session.rows(
        "SELECT PARTITION_NAME, PARTITION_METHOD, PARTITION_EXPRESSION, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND PARTITION_NAME IS NOT NULL ORDER BY PARTITION_ORDINAL_POSITION",
        name,
    )
    if not rows:
        return ""
    parts = {str(part): bound(str(values or "")) for part, _, _, values in rows}  # a subpartition is another row of its partition
    return partitioning_clause(str(rows[0][1]), str(rows[0][2] or ""), list(parts), list(parts.values()))


class TableThere:
    """A table before a DDL; what nobody needs is not read. Each raises pymysql's errors."""

    def __init__(self, session: Queried, name: TableName) -> None:
        self._session = session
        self.name = name

    @cached_property
    def table(self) -> ServerTable | None:
        return read_table(self._session, self.name)

    @cached_property
    def partitioning(self) -> str:
        return read_partitioning(self._session, self.name)

    def column(self, name: str) -> ServerColumn | None:
        there = self.table.columns if self.table else ()
        return next((one for one in there if lowered(one.name) == lowered(name)), None)

    def equal(self, texts: Iterable[tuple[str, str]], collation: str) -> bool:
        """Whether the server takes two of a pair for one."""
        charset = collation.partition("_")[0]
        text = f"CONVERT(%s USING {charset}) COLLATE {collation}"
        pairs = list(texts)
        sql = f"SELECT {' OR '.join([f'{text} = {text}'] * len(pairs))}"
        return bool(pairs) and bool(self._session.rows(sql, [one for pair in pairs for one in pair])[0][0])
