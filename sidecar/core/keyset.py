"""SQL text for reading a table in the order of its key: names, literals, key predicates (design 7). Pure text, no server.

- Keys are canonical text (model.Kind). They are never compared here: each literal is written so that the server compares it
  exactly as it orders the column, by its index, its collation and its type.
- Predicates are an OR of ANDs, never a row constructor, which older TiDB cannot turn into a range (facts/tidb.md 7).
- A column is always qualified by its table's name: in ORDER BY a select alias would hide it and sort as text.
- Text and binary literals are hex, so no quoting rule, sql_mode or character set can change them.
- An enum, set or bit is ordered by its number, so its number is compared. No index helps there: such a key is exact but slow.
- A float has no literal on which every server agrees about order, JSON and vectors have no order: no such key is read by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sidecar.core.model import Column, Kind, TableName, TableSchema

Key = tuple[str, ...]

ROWID = "_tidb_rowid"

_INT = re.compile(r"-?[0-9]+")
_UINT = re.compile(r"[0-9]+")
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_HEX = re.compile(r"([0-9A-F]{2})*")
_TEMPORAL: dict[Kind, re.Pattern[str]] = {
    "date": re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII),
    "time": re.compile(r"-?\d{2,3}:\d{2}:\d{2}(\.\d{1,6})?", re.ASCII),
    "datetime": re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?", re.ASCII),
    "timestamp": re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?", re.ASCII),
}
_INT_MIN, _INT_MAX, _UINT_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1


class NotAKey(ValueError):
    """A canonical text that the column's type cannot have, or the wrong number of them. The text says which."""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """`charset` and `collation` are the server's names for a text column, empty for the connection's utf8mb4."""

    column: Column
    charset: str = ""
    collation: str = ""


@dataclass(frozen=True, slots=True)
class ReadKey:
    """What orders the SELECTs of `table`: NOT NULL columns that are unique together. In the ports' words it is the handle
    key; where TiDB keeps rows by `_tidb_rowid`, it is that column instead, and `after`, `upper`, `last` and bounds are its."""

    table: TableName
    columns: tuple[KeyColumn, ...]

    @property
    def by_rowid(self) -> bool:
        return self.columns[0].column.name == ROWID


def rowid_key(table: TableName) -> ReadKey:
    return ReadKey(table, (KeyColumn(Column(ROWID, "int", nullable=False)),))


def unreadable(columns: Sequence[Column]) -> str | None:
    """Why a key of these columns cannot be read by, or None."""
    for column in columns:
        if column.kind in ("float", "double", "json", "vector"):
            return f"its key column {column.name} is a {column.kind}, which has no exact order in SQL"
        if column.kind == "enum" and "" in column.elements:
            return f"its key column {column.name} is an enum with an empty label, which looks like the invalid value 0"
    return None


# ---- names and literals ---------------------------------------------------------------------------------------------


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def quoted_table(table: TableName) -> str:
    return f"{quoted(table.schema)}.{quoted(table.table)}"


def qualified(table: TableName, column: str) -> str:
    return f"{quoted(table.table)}.{quoted(column)}"


def literal(key: KeyColumn, text: str) -> str:
    """`text` as SQL that compares with `comparable`. Raises NotAKey."""
    column = key.column
    match column.kind:
        case "int":
            return _number(column, text, _INT, low=_INT_MIN, high=_INT_MAX)
        case "uint":
            return _number(column, text, _UINT, low=0, high=_UINT_MAX)
        case "bit":
            return _number(column, text, _UINT, low=0, high=(1 << max(column.length, 1)) - 1)
        case "year":
            return _number(column, text, _UINT, low=0, high=2155)
        case "decimal" if _DECIMAL.fullmatch(text):
            return text
        case "float" | "double":
            return _float(column, text)
        case "text":
            return _text(key, text)
        case "binary" if _HEX.fullmatch(text):
            return f"x'{text}'"
        case "enum" if text in column.elements:
            return str(column.elements.index(text) + 1)
        case "enum" if text == "":
            return "0"  # the value that MySQL stores for a label that is none
        case "set":
            return str(_set_number(column, text))
        case "date" | "time" | "datetime" | "timestamp" if _TEMPORAL[column.kind].fullmatch(text):
            return f"'{text}'"
    raise _not_a_key(column, text)


def comparable(key: KeyColumn, place: str) -> str:
    """The column at `place` in the form in which it compares with `literal` and orders."""
    return f"CAST({place} AS UNSIGNED)" if key.column.kind in ("enum", "set", "bit") else place


def _number(column: Column, text: str, form: re.Pattern[str], *, low: int, high: int) -> str:
    if not form.fullmatch(text) or not low <= int(text) <= high:
        raise _not_a_key(column, text)
    return str(int(text))


def _float(column: Column, text: str) -> str:
    """Only for equality. All digits of the double, so that it is the same double again."""
    try:
        value = float(text)
    except ValueError:
        raise _not_a_key(column, text) from None
    if value - value != 0:  # NaN and the infinities
        raise _not_a_key(column, text)
    return f"{value:.17e}"


def _text(key: KeyColumn, text: str) -> str:
    """A literal of the column's own character set: else a server may convert the column, and order by another collation."""
    try:
        found = f"_utf8mb4 x'{text.encode().hex()}'"
    except UnicodeEncodeError:
        raise _not_a_key(key.column, text) from None
    if key.charset in ("", "utf8mb4"):
        return found
    return f"CONVERT({found} USING {key.charset}) COLLATE {key.collation}"


def _set_number(column: Column, text: str) -> int:
    labels = text.split(",") if text else []
    if len(set(labels)) < len(labels) or not set(labels) <= set(column.elements):
        raise _not_a_key(column, text)
    return sum(1 << column.elements.index(label) for label in labels)


def _not_a_key(column: Column, text: str) -> NotAKey:
    return NotAKey(f"{text[:100]!r} is no value of key column {column.name} ({column.kind})")


# ---- predicates -----------------------------------------------------------------------------------------------------


def above(key: ReadKey, bound: Key) -> str:
    """True for rows whose key comes after `bound`. Raises NotAKey."""
    return _beyond(key, bound, operator=">", last=">")


def up_to(key: ReadKey, bound: Key) -> str:
    """True for rows whose key is `bound` or comes before it. Raises NotAKey."""
    return _beyond(key, bound, operator="<", last="<=")


def one_of(key: ReadKey, keys: Sequence[Key]) -> str:
    """True for the rows with these keys; false for all when there are none. Raises NotAKey."""
    found = [" AND ".join(f"{place} = {value}" for place, value in _terms(key, one)) for one in keys]
    return " OR ".join(f"({terms})" for terms in found) or "FALSE"


def between(key: ReadKey, *, after: Key | None, upper: Key | None, where: str | None = None) -> str:
    """The WHERE clause, from its keyword on, for keys in `(after, upper]`; empty without any bound. Raises NotAKey.

    `where` stands on a line of its own: a comment at its end takes nothing with it.
    """
    terms = [above(key, after)] if after is not None else []
    terms += [up_to(key, upper)] if upper is not None else []
    terms += [f"{where}\n"] if where else []
    return " WHERE " + " AND ".join(f"({term})" for term in terms) if terms else ""


def order_by(key: ReadKey, *, descending: bool = False) -> str:
    """The ORDER BY clause, from its keyword on. An enum, set or bit orders by its number without a cast."""
    direction = " DESC" if descending else ""
    return " ORDER BY " + ", ".join(f"{_place(key.table, part)}{direction}" for part in key.columns)


def _beyond(key: ReadKey, bound: Key, *, operator: str, last: str) -> str:
    """(a > x) OR (a = x AND b > y) …, with `last` as the operator of the last column."""
    terms = list(_terms(key, bound))
    found = []
    for index, (place, value) in enumerate(terms):
        equal = [f"{other} = {same}" for other, same in terms[:index]]
        found.append(" AND ".join([*equal, f"{place} {last if index == len(terms) - 1 else operator} {value}"]))
    return " OR ".join(f"({term})" for term in found)


def _terms(key: ReadKey, values: Key) -> Iterator[tuple[str, str]]:
    if len(values) != len(key.columns):
        names = ", ".join(part.column.name for part in key.columns)
        raise NotAKey(f"a key of {key.table} has {len(key.columns)} columns ({names}), not {len(values)}")
    for part, text in zip(key.columns, values, strict=True):
        yield comparable(part, _place(key.table, part)), literal(part, text)


def _place(table: TableName, part: KeyColumn) -> str:
    return qualified(table, part.column.name)


# ---- cutting a range ------------------------------------------------------------------------------------------------


def evenly_between(key: ReadKey, after: Key, highest: Key, *, count: int) -> tuple[Key, ...]:
    """At most `count` keys above `after` that rise evenly and end with `highest`, for one integer column; else `highest`
    alone. Keys need not exist to cut a range."""
    if len(key.columns) > 1 or key.columns[0].column.kind not in ("int", "uint"):
        return (highest,)
    low, high = int(after[0]), int(highest[0])
    steps = min(count, high - low)
    return tuple((str(low + (high - low) * step // steps),) for step in range(1, steps + 1))


def thinned(keys: Sequence[Key], *, count: int) -> tuple[Key, ...]:
    """At most `count` of `keys`, spread evenly, the last one among them."""
    steps = min(count, len(keys))
    return tuple(keys[len(keys) * step // steps - 1] for step in range(1, steps + 1))


def key_columns(schema: TableSchema) -> tuple[Column, ...]:
    """The handle key's columns in the key's order."""
    by_name = {column.name: column for column in schema.columns}
    return tuple(by_name[name] for name in schema.key)
