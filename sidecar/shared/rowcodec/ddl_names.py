"""Which tables a DDL job's statement names, where the job itself has lost it: older TiDB keeps no `involving_schema_info`.

Names are in small letters, as TiDB keeps them there. A statement of another form names none here.
"""

from __future__ import annotations

import msgspec

from sidecar.shared.model.nouns import TableName
from sidecar.shared.schema.ddl import Action
from sidecar.shared.sql.lexer import tokens

_BETWEEN_NAMES = frozenset({"TO", ",", "RENAME", "AS", "="})


class Involved(msgspec.Struct):
    """A table that a job locks."""

    database: str = ""
    table: str = ""


def involved_by(action: int, query: str, schema_name: str) -> tuple[TableName, ...]:
    """`DdlJob.involved`; `schema_name`: the job's."""
    names: list[Involved] = []
    if action in (Action.RENAME_TABLE, Action.RENAME_TABLES):
        names = renamed_by(query, schema_name)
    elif action == Action.EXCHANGE_PARTITION:
        names = [Involved(one.database or schema_name, one.table) for one in _tables_of(query)]
    return tuple(TableName(one.database, one.table) for one in names)


def renamed_by(query: str, last_schema: str) -> list[Involved]:
    """Of RENAME TABLE, and of ALTER TABLE … RENAME: old and new name of each table in turn. A name without a
    schema is of the session's, which `last_schema`, the one that the last table is renamed into, is where that has none; else it is not
    known: nothing."""
    every = [token for token in tokens(query) if (token.kind, token.value) != ("word", "IGNORE")]
    head = [token.value for token in every[:2]]
    if head not in (["RENAME", "TABLE"], ["ALTER", "TABLE"]):
        return []
    sides: list[list[str]] = [[]]
    for token in every[2:]:
        if token.value in _BETWEEN_NAMES and token.kind in ("word", "sign"):
            sides.append([])
        elif token.kind in ("word", "name"):
            sides[-1].append(token.name.lower())
    sides = [side for side in sides if side]
    if head[0] == "ALTER":
        sides = sides[:2]  # what follows is no name: ALGORITHM, LOCK
    session = last_schema if sides and len(sides[-1]) == 1 else ""
    named = [Involved(side[0] if len(side) > 1 else session, side[-1]) for side in sides]
    return named if all(one.database for one in named[1::2]) else []


def _tables_of(query: str) -> list[Involved]:
    """The names behind each word TABLE."""
    names = []
    every = list(tokens(query))
    for at, token in enumerate(every):
        if (token.kind, token.value) == ("word", "TABLE"):
            first, dot, second = [*every[at + 1 : at + 4], *every[-1:] * 3][:3]
            names.append(Involved(first.name.lower(), second.name.lower()) if dot.text == "." else Involved("", first.name.lower()))
    return names
