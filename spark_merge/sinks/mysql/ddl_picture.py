"""What the target's tables are before a DDL, and whether it has been carried out since: judged by that alone.

An error's code cannot tell: two tables whose names were swapped are there as before, and so are a table and a partition that were
exchanged. They differ in the ids that a server gives its tables and partitions and that go with the rows: TiDB's, and
InnoDB's, which an account needs PROCESS to see. Without them definitions are compared, and what these leave open is not decided here.

    CREATE, DROP       there, or not there                      RENAME      each table under its new name
    ALTER, … INDEX     another definition                       EXCHANGE    partition and table have each other's id

TRUNCATE, and what leaves the definition as it is (TRUNCATE PARTITION), is done again: no row comes before it is noted as done, and other
ids may also be those of a table that somebody rebuilt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import pymysql

from sidecar.shared.model.nouns import TableName
from sidecar.shared.mysql.errors import NO_RIGHT, NO_TABLE
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.sql.text import quoted
from spark_merge.ddl.statement import Statement, StatementKind


class PictureSession(Protocol):
    """One connection that does not reconnect while a DDL is under way."""

    def rows(self, sql: str, values: Any = None) -> tuple[tuple[Any, ...], ...]:
        """Carry out a statement. Raises pymysql's errors."""

    def close(self) -> None:
        """Never raises."""


class Picture(NamedTuple):
    """`definition`: SHOW CREATE TABLE without the table's name and its counter; of a schema its collation; empty: it is not there.
    `ids`: the table's own by "", its partitions' by name in small letters; None: the server does not tell."""

    definition: str = ""
    ids: Mapping[str, int] | None = None

    @property
    def there(self) -> bool:
        return bool(self.definition)


Pictures = Mapping[TableName, Picture]
"""Of tables of the target; of a schema by its name and no table."""

_NAME = re.compile(r"^(CREATE (?:TEMPORARY )?TABLE )`(?:[^`]|``)*`")
_COUNTER = re.compile(r" AUTO_INCREMENT=\d+| /\*T!\[auto_(?:rand_base|id_cache)\][^*]*\*/")
_NO_RIGHT_OR_TABLE = NO_RIGHT | {1109, NO_TABLE}
_PARTITION = re.compile(r"#p#(.*)$", re.IGNORECASE | re.DOTALL)


# ---- what is there ----------------------------------------------------------------------------------------------------


def pictures(session: PictureSession, dialect: Flavour, names: Iterable[TableName]) -> dict[TableName, Picture]:
    """Raises pymysql's errors."""
    return {name: _table(session, dialect, name) if name.table else _schema(session, name.schema) for name in names}


def _schema(session: PictureSession, name: str) -> Picture:
    rows = session.rows("SELECT DEFAULT_COLLATION_NAME FROM information_schema.schemata WHERE SCHEMA_NAME = %s", (name,))
    return Picture(str(rows[0][0])) if rows else Picture()


def _table(session: PictureSession, dialect: Flavour, name: TableName) -> Picture:
    rows = session.rows("SELECT TABLE_TYPE FROM information_schema.tables WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s", tuple(name))
    if not rows:
        return Picture()
    if "VIEW" in str(rows[0][0]).upper():
        return Picture("VIEW", {})
    ((_, text, *_rest),) = session.rows(f"SHOW CREATE TABLE {quoted(name.schema)}.{quoted(name.table)}")
    definition = _COUNTER.sub("", _NAME.sub(r"\1", text))
    return Picture(definition, _tidb_ids(session, name) if dialect is Flavour.TIDB else _innodb_ids(session, dialect, name))


def _tidb_ids(session: PictureSession, name: TableName) -> dict[str, int]:
    where = "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    own = session.rows(f"SELECT TIDB_TABLE_ID FROM information_schema.tables {where}", tuple(name))
    parts = session.rows(
        f"SELECT PARTITION_NAME, TIDB_PARTITION_ID FROM information_schema.partitions {where} AND PARTITION_NAME IS NOT NULL", tuple(name)
    )
    return {"": int(own[0][0])} | {str(part).lower(): int(number) for part, number in parts}


def _innodb_ids(session: PictureSession, dialect: Flavour, name: TableName) -> dict[str, int] | None:
    """None without the right to see them, for another engine's table, and where its name there is not known."""
    tables = "INNODB_SYS_TABLES" if dialect is Flavour.MARIADB else "INNODB_TABLES"
    try:
        if (file := _file_of(session, dialect, name)) is None:
            return None
        rows = session.rows(
            f"SELECT NAME, TABLE_ID FROM information_schema.{tables} WHERE NAME = %s OR LEFT(NAME, %s) IN (%s, %s)",
            (file, len(file) + 3, f"{file}#P#", f"{file}#p#"),
        )
    except pymysql.err.MySQLError as error:
        if error.args and error.args[0] in _NO_RIGHT_OR_TABLE:
            return None
        raise
    ids = {_partition_of(_text(one)): int(number) for one, number in rows}
    return ids or None


def _file_of(session: PictureSession, dialect: Flavour, name: TableName) -> str | None:
    """Its name in InnoDB, in the character set of file names, to which MariaDB converts. MySQL 8 does that for nobody; how ASCII is
    written there is known (strings/ctype-utf8.cc), and of other letters some are written in ways of their own."""
    if dialect is Flavour.MARIADB:
        ((schema, table),) = session.rows(
            "SELECT CAST(CONVERT(%s USING filename) AS BINARY), CAST(CONVERT(%s USING filename) AS BINARY)", tuple(name)
        )
        return f"{_text(schema)}/{_text(table)}"
    if not (name.schema + name.table).isascii():
        return None
    return "/".join("".join(one if one.isalnum() or one == "_" else f"@{ord(one):04x}" for one in part) for part in name)


def _partition_of(file: str) -> str:
    match = _PARTITION.search(file)
    return match[1].lower() if match else ""


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


# ---- whether it is done -----------------------------------------------------------------------------------------------


def wanted(statement: Statement, before: Pictures) -> bool | None:
    """Before anything was noted: True, there is nothing to do; None, it cannot be done. IF NOT EXISTS says nothing: where the source had
    the table, there was no DDL."""
    there = [picture.there for picture in before.values()]
    match statement.kind:
        case StatementKind.DROP_TABLE | StatementKind.DROP_VIEW | StatementKind.DROP_SCHEMA:
            return not any(there)
        case StatementKind.CREATE_SCHEMA:
            return all(there)
        case StatementKind.CREATE_TABLE | StatementKind.CREATE_LIKE:
            return None if there[0] else False
        case _:
            return False


def done(statement: Statement, before: Pictures, now: Pictures) -> bool | None:
    """Whether the statement, of which `before` was noted, has been carried out. None: it is not known. Statement and pictures name tables
    of the target; those that it makes or takes come first."""
    first = next(iter(before))
    match statement.kind:
        case StatementKind.CREATE_TABLE | StatementKind.CREATE_LIKE | StatementKind.CREATE_SCHEMA:
            return now[first].there
        case StatementKind.DROP_TABLE | StatementKind.DROP_VIEW | StatementKind.DROP_SCHEMA:
            return not any(picture.there for picture in now.values())
        case StatementKind.RENAME:
            return _is_one_of(before, _renamed(statement, before), now)
        case StatementKind.EXCHANGE:
            exchanged = _exchanged(statement, before)
            return None if exchanged is None else _is_one_of(before, exchanged, now)
        case StatementKind.TRUNCATE:
            return False
        case _:
            if statement.moves:
                (old, new) = statement.moves[0]
                return True if now[new].there and not now[old].there else False if now == before else None
            return now[first].definition != before[first].definition


def _renamed(statement: Statement, before: Pictures) -> dict[TableName, Picture]:
    after = dict(before)
    for source, target in statement.moves:
        after[target], after[source] = after.get(source, Picture()), Picture()
    return after


def _exchanged(statement: Statement, before: Pictures) -> dict[TableName, Picture] | None:
    ((table, other),) = statement.moves
    of_table, of_other = before[table].ids, before[other].ids
    assert statement.leaving, "it names the one that is exchanged"
    partition = statement.leaving[0].lower()
    if of_table is None or of_other is None or partition not in of_table or "" not in of_other:
        return None
    swapped = before[table]._replace(ids={**of_table, partition: of_other[""]})
    return {**before, table: swapped, other: before[other]._replace(ids={**of_other, "": of_table[partition]})}


def _is_one_of(before: Pictures, after: Pictures, now: Pictures) -> bool | None:
    """Ids go before definitions, which name other tables in foreign keys."""
    known = all(picture.ids is not None for picture in (*before.values(), *now.values()) if picture.there)
    old, new, seen = (
        [(name, p.ids if known and p.there else p.definition) for name, p in sorted(one.items())] for one in (before, after, now)
    )
    if old == new:
        return True if known else None
    return True if seen == new else False if seen == old else None
