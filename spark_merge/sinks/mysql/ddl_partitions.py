"""Which rows a partition has: with it (DROP, TRUNCATE, EXCHANGE) rows may leave at the target only if they are those of the source's.

    the clause    of the same kind, by the same columns or the same expression
    RANGE         the same bound, and the same one of the partition before it
    LIST          the same values; of a partition with DEFAULT also those of all others
    HASH          of an integer column, the same place in as many partitions. Of an expression only at TiDB
    KEY           at TiDB alone: it hashes by CRC-32 and the others by functions of their own. TiDB ignores LINEAR, they do not
    COLUMNS       texts are equal as at the source, and in RANGE before the same bounds (compares.py)

Versions up to 0.4 made bounds of UNIX_TIMESTAMP in UTC, whatever their author's time zone, and a table may be made by hand. So the target's
own clause is read, at TiDB too. What cannot be read is not the same.

Sources: pingcap/tidb pkg/table/tables/partition.go (locateHashPartition, locateRangeColumnPartition, ForKeyPruning), pkg/ddl/partition.go
(LINEAR); MariaDB sql/sql_partition.cc.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

from sidecar.shared.model.nouns import Column, TableDefinition, TableSchema, lowered
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.partition.clause import Clause, Literal, NotRead, PartitionExpression, Rows, read_clause
from sidecar.shared.partition.ids import of_literal
from sidecar.shared.partition.value import NotDecided
from spark_merge.sinks.mysql.by_bytes import made_table
from spark_merge.sinks.mysql.compares import Servers, alike
from spark_merge.sinks.mysql.ddl_dialect import collation_at
from spark_merge.sinks.mysql.server_table import ServerColumn, TableThere

_SAME_CALL = {"DAY": "DAYOFMONTH", "CEIL": "CEILING"}
_BY_DEFAULT = {("YEARWEEK", 1): (PartitionExpression(literal=0),)}
_DIGITS = re.compile(r"(\d{4})-?(\d\d?)-?(\d\d?)(?:[ T]?(\d\d?):?(\d\d?):?(\d\d?)(\.\d+)?)?")
"""Of a bound of a date, as TiDB and MariaDB keep what its author wrote."""
_NUMBER = Column("", "int")
"""What an expression has for each row."""
_WRAP = 1 << 64
_SHOWN_MAX = 200
"""Characters of a list of values."""


class OtherRows(NamedTuple):
    """`remedy`: what an operator does at the target so that they are the same; empty: nothing does."""

    why: str
    remedy: str


def other_rows(leaving: Iterable[str] | None, before: TableSchema, there: TableThere, flavour: Flavour) -> OtherRows | None:
    """Why these partitions, None for any, may have other rows at the target, which `there` is; None: they have the same."""
    partitions = f"give {there.name} there the source's partitions (ALTER TABLE … PARTITION BY, or REORGANIZE PARTITION)"
    definition = before.definition
    if definition is None or not definition.partitioning:
        return OtherRows("the log does not have the table's partitions", "")
    if not there.partitioning:
        return OtherRows("the table is not there, or has no partitions there", partitions)
    if there.partitioning.startswith("PARTITION BY LINEAR"):
        return OtherRows("it has LINEAR partitions there, and TiDB ignores LINEAR", partitions)
    try:
        here = read_clause(definition.partitioning)
        if flavour is not Flavour.TIDB and (why := _of_tidb_alone(here, before, flavour)):
            return OtherRows(why, "")
        target = read_clause(there.partitioning)
        if _goes_by(here) != _goes_by(target):
            return OtherRows(f"it is partitioned by {_shown(target)} there, and by {_shown(here)} at the source", partitions)
        if (other := _other_texts(here, definition, there, flavour)) is not None:
            return other
        names = here.names if leaving is None else tuple(map(lowered, leaving))
        why = next(filter(None, (_other_values(name, here, target, before) for name in names)), "")
        return OtherRows(why, partitions) if why else None
    except (NotRead, NotDecided) as error:
        same = flavour is Flavour.TIDB and definition.partitioning == there.partitioning
        return None if same else OtherRows(f"its partitions cannot be compared there and at the source: {error}", "")


# ---- what they go by ---------------------------------------------------------------------------------------------------


def _of_tidb_alone(clause: Clause, before: TableSchema, flavour: Flavour) -> str:
    if clause.kind == "KEY":
        return f"TiDB places a row of KEY by CRC-32, and {flavour.value} by a function of its own"
    column = lowered(clause.expression.name) if clause.expression else ""
    if clause.kind == "HASH" and not any(lowered(one.name) == column and one.kind in ("int", "uint") for one in before.columns):
        return f"of HASH only that of an integer column is known to be the same at {flavour.value}, and this is {_shown(clause)}"
    return ""


def _goes_by(clause: Clause) -> tuple[object, ...]:
    return clause.kind, tuple(map(lowered, clause.columns)), clause.expression and _folded(clause.expression)


def _folded(one: PartitionExpression) -> PartitionExpression:
    """Servers write some calls otherwise."""
    arguments = (*map(_folded, one.arguments), *_BY_DEFAULT.get((one.call, len(one.arguments)), ()))
    return replace(one, call=_SAME_CALL.get(one.call, one.call), name=lowered(one.name), arguments=arguments)


def _other_texts(here: Clause, definition: TableDefinition, there: TableThere, flavour: Flavour) -> OtherRows | None:
    servers = Servers(not definition.new_collation, there.table is not None and there.table.by_bytes, flavour is Flavour.TIDB)
    defined = {lowered(one.name): one for one in definition.columns}
    by_bytes = servers.by_bytes and not servers.by_bytes_there
    made = {lowered(one.name): one for one in made_table(definition, flavour, by_bytes=by_bytes).columns}
    for place, name in enumerate(map(lowered, here.columns)):
        source, column, bounds = defined[name], there.column(name), _bounds(here, place)
        decides = bounds is None or _decides_alone(here, place)
        if column is not None and alike(source, column, servers, bounds, decides=decides):
            continue
        verb = "compared" if bounds is None else "ordered"
        by = (
            "its bytes (the cluster has no new collations)"
            if source.charset and servers.by_bytes
            else _kind(source.collation, source.type_text)
        )
        why = f"its column {name} is {verb} by {column and _kind(column.collation, column.type_text)} there, and by {by} at the source"
        one = made[name]
        wanted = ServerColumn(one.name, "", collation_at(one.collation, flavour), False, one.charset, one.type_text, one.nullable)
        if not alike(source, wanted, servers, bounds, decides=decides):
            return OtherRows(f"{why}, as no column of {flavour.value} is with these bounds", "")
        collation = f" COLLATE {wanted.collation}" if wanted.collation else ""
        return OtherRows(why, f"MODIFY column {name} of {there.name} there to {wanted.spelled()}{collation}")
    return None


def _decides_alone(clause: Clause, place: int) -> bool:
    """Whether no later column decides where this one is equal to its bound."""
    return all(one.kind == "MAXVALUE" for rows in clause.values for row in rows for one in row[place + 1 :])


def _bounds(clause: Clause, place: int) -> Collection[str] | None:
    """Of a column in RANGE, as texts."""
    if clause.kind != "RANGE":
        return None
    literals = [row[place] for rows in clause.values for row in rows]
    return [bytes.fromhex(one.text).decode("latin-1") if one.kind == "hex" else one.text for one in literals if one.kind != "MAXVALUE"]


def _kind(collation: str | None, type_text: str) -> str:
    return collation or type_text


# ---- values ------------------------------------------------------------------------------------------------------------


def _other_values(name: str, here: Clause, target: Clause, before: TableSchema) -> str:
    for clause, where in ((here, "at the source"), (target, "there")):
        if name not in clause.names:
            return f"it has no partition {name} {where}"
    mine, others = _values(here, name), _values(target, name)
    if mine == others or _read(mine, here, before) == _read(others, here, before):
        return ""
    return f"its partition {name} has {_spelled(target, others)} there, and {_spelled(here, mine)} at the source"


def _values(clause: Clause, name: str) -> tuple[Rows, ...]:
    """Of RANGE the bounds below and above, of LIST its values, and those that DEFAULT does not stand for; else its place of how many."""
    place = clause.names.index(name)
    if clause.kind not in ("RANGE", "LIST"):
        return tuple(((Literal("number", str(number)),),) for number in (place, clause.count))
    own = clause.values[place]
    if clause.kind == "RANGE":
        return (clause.values[place - 1] if place else (), own)
    others = tuple(row for rows in clause.values if rows != own for row in rows)
    return (own, others if any(row[0].kind == "DEFAULT" for row in own) else ())


def _read(groups: tuple[Rows, ...], clause: Clause, before: TableSchema) -> list[frozenset[object]]:
    """As values of the columns, which have no order in LIST. Raises NotDecided."""
    known = {lowered(one.name): one for one in before.columns}
    if absent := [name for name in clause.columns if lowered(name) not in known]:
        raise NotDecided(f"column {absent[0]}, which the rows do not have")
    columns = [known[lowered(name)] for name in clause.columns] or [_NUMBER]
    return [frozenset(_row(row, columns) for row in rows) for rows in groups]


def _row(row: tuple[Literal, ...], columns: Sequence[Column]) -> tuple[object, ...]:
    """What comes after MAXVALUE in a bound does not count."""
    counts = takewhile(lambda one: one[0].kind not in ("MAXVALUE", "DEFAULT"), zip(row, columns, strict=False))
    made = tuple(_value(literal, column) for literal, column in counts)
    return (*made, *(one.kind for one in row[len(made) : len(made) + 1]))


def _value(literal: Literal, column: Column) -> object:
    """MariaDB shows an unsigned number of 64 bits as a signed one."""
    if column.kind in ("date", "datetime") and (digits := _DIGITS.fullmatch(literal.text)):
        year, *parts = (one and one.zfill(2) for one in digits.groups()[:-1])
        day, clock = "-".join((year, *parts[:2])), ":".join(filter(None, parts[2:]))
        literal = Literal("text", f"{day} {clock}{digits[7] or ''}".strip())
    rank, value = of_literal(literal, column, str.encode)
    return (rank, value % _WRAP if isinstance(value, int) else value)


def _spelled(clause: Clause, groups: tuple[Rows, ...]) -> str:
    first, second = ([", ".join(one.text or one.kind for one in row) for row in rows] for rows in (groups[0], groups[-1]))
    match clause.kind:
        case "RANGE":
            return f"the rows from {first[0] if first else 'the least'} to below {second[0]}"
        case "LIST":
            return f"the rows of {', '.join(first)}"[:_SHOWN_MAX]
        case _:
            return f"place {first[0]} of {second[0]}"


def _shown(clause: Clause) -> str:
    return f"{clause.kind} ({', '.join(clause.columns) or _formula(clause.expression)})"


def _formula(one: PartitionExpression | None) -> str:
    if one is None:
        return ""
    if not one.call:
        return one.name or str(one.literal)
    return f"{one.call}({', '.join(map(_formula, one.arguments))})"
