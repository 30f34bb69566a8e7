"""SQL text for reading a table in the order of its key: names, literals, key predicates. Pure text, no server.

- Keys are canonical text (model.Kind). They are never compared here: each literal is written so that the server compares it
  exactly as it orders the column, by its index, its collation and its type.
- A range is one OR of ANDs: never a row constructor, which older TiDB cannot turn into a range, and never an OR for
  each bound, of which TiDB ranges the first column only and reads a chunk's whole prefix (pingcap/tidb 54337).
- A table is read under the alias `ALIAS`, and a column is always qualified by it: a predicate outlives a RENAME of its table, and in
  ORDER BY a column's alias would hide the column and sort as text.
- Text and binary literals are hex, so no quoting rule, sql_mode or character set can change them.
- An enum, set or bit is ordered by its number, so its literal is one. No cast stands around an enum or bit, for that hides its range.
  Around a set one does: TiDB has no range for it, and takes its 64th label for a minus sign.
- Texts that differ may be one key (`a` and `A`, 1.0 and 1.00): where the server alone can tell, the SQL lets it.
- A float has no literal on which every server agrees about order, JSON and vectors have no order: no such key is read by.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal

from sidecar.shared.model.nouns import Column, Kind, TableName, TableSchema
from sidecar.shared.sql.text import quoted

Key = tuple[str, ...]

ROWID = "_tidb_rowid"

ALIAS = "t"

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


def quoted_table(table: TableName) -> str:
    return f"{quoted(table.schema)}.{quoted(table.table)}"


def read_as(table: TableName) -> str:
    """What stands behind FROM, so that `qualified` names its columns."""
    return f"{quoted_table(table)} AS {quoted(ALIAS)}"


def qualified(column: str) -> str:
    return f"{quoted(ALIAS)}.{quoted(column)}"


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


def spelled(column: Column, text: str) -> str:
    """The canonical text of a key's value that `literal` takes: equal values have equal texts. Raises NotAKey."""
    match column.kind:
        case "int" | "uint" | "bit":
            return str(int(text))
        case "year":
            return f"{int(text):04d}"
        case "decimal":
            value = Decimal(text).quantize(Decimal(1).scaleb(-column.scale), context=_EXACT)
            if value != Decimal(text):
                raise NotAKey(f"{text[:100]!r} has more digits after the point than key column {column.name}, which has {column.scale}")
            return f"{abs(value) if value == 0 else value:f}"
        case "float" | "double":
            return repr(float(text))
        case "set":
            labels = set(text.split(",")) if text else set()
            return ",".join(label for label in column.elements if label in labels)
        case "time" | "datetime" | "timestamp":
            return _spelled_time(column, text)
        case _:
            return text


_EXACT = Context(prec=100)


def _spelled_time(column: Column, text: str) -> str:
    clock, _, fraction = text.partition(".")
    if fraction.rstrip("0") != fraction[: column.scale].rstrip("0"):
        raise NotAKey(f"{text!r} has more digits of a second than key column {column.name}, which has {column.scale}")
    digits = fraction.ljust(column.scale, "0")[: column.scale]
    if column.kind == "time":
        hours, _, rest = clock.removeprefix("-").partition(":")
        is_zero = not any(char in "123456789" for char in clock + digits)
        clock = f"{'-' if clock.startswith('-') and not is_zero else ''}{int(hours):02d}:{rest}"
    return f"{clock}.{digits}" if column.scale else clock


def spelled_key(key: ReadKey, values: Key) -> Key:
    """The key in canonical text. Raises NotAKey for one that its columns cannot have."""
    _literals(key, values)
    return tuple(spelled(part.column, text) for part, text in zip(key.columns, values, strict=True))


def spelled_keys(key: ReadKey, keys: Sequence[Key]) -> tuple[tuple[Key, ...], dict[Key, NotAKey]]:
    """The keys in canonical text, each once, in their order; and those that its columns cannot have."""
    result, unfit = dict[Key, None](), dict[Key, NotAKey]()
    for one in keys:
        try:
            result[spelled_key(key, one)] = None
        except NotAKey as error:
            unfit[one] = error
    return tuple(result), unfit


def comparable(key: KeyColumn) -> str:
    """The column in the form in which it compares with `literal` as it orders."""
    place = qualified(key.column.name)
    return f"CAST({place} AS UNSIGNED)" if key.column.kind == "set" else place


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
        result = f"_utf8mb4 x'{text.encode().hex()}'"
    except UnicodeEncodeError:
        raise _not_a_key(key.column, text) from None
    if key.charset in ("", "utf8mb4"):
        return result
    return f"CONVERT({result} USING {key.charset}) COLLATE {key.collation}"


def _set_number(column: Column, text: str) -> int:
    labels = text.split(",") if text else []
    if len(set(labels)) < len(labels) or not set(labels) <= set(column.elements):
        raise _not_a_key(column, text)
    return sum(1 << column.elements.index(label) for label in labels)


def _not_a_key(column: Column, text: str) -> NotAKey:
    return NotAKey(f"{text[:100]!r} is no value of key column {column.name} ({column.kind})")


# ---- predicates -----------------------------------------------------------------------------------------------------

_Term = tuple[str, str, str]
"""A column's place, an operator, a literal."""
_Terms = list[list[_Term]]
"""An OR of ANDs."""


def above(key: ReadKey, bound: Key) -> str:
    """True for rows whose key comes after `bound`. Raises NotAKey."""
    return beyond(_literals(key, bound), ">", last=">")


def up_to(key: ReadKey, bound: Key) -> str:
    """True for rows whose key is `bound` or comes before it. Raises NotAKey."""
    return beyond(_literals(key, bound), "<", last="<=")


def beyond(terms: Sequence[tuple[str, str]], operator: str, *, last: str) -> str:
    """True for rows whose columns come after these values, in any dialect's words: each column's place with a literal. `last`: the operator
    of the last column."""
    return _any_of(_beyond(terms, operator, last=last))


def within(key: ReadKey, after: Key, upper: Key) -> str:
    """True for rows whose key comes after `after`, and is `upper` or comes before it. Raises NotAKey."""
    lows, highs = _literals(key, after), _literals(key, upper)
    kinds = [part.column.kind for part in key.columns]
    return _any_of(_inside(list(zip(lows, highs, kinds, strict=True))))


def one_of(key: ReadKey, keys: Sequence[Key]) -> str:
    """True for the rows with these keys; false for all when there are none. Raises NotAKey."""
    return _any_of([[(place, "=", value) for place, value in _literals(key, one)] for one in keys]) or "FALSE"


def between(key: ReadKey, *, after: Key | None, upper: Key | None, where: str | None = None) -> str:
    """The WHERE clause, from its keyword on, for keys in `(after, upper]`; empty without any bound. Raises NotAKey.

    `where` stands on a line of its own: a comment at its end takes nothing with it.
    """
    terms: list[str] = []
    if after is not None and upper is not None:
        terms = [within(key, after, upper)]
    elif after is not None:
        terms = [above(key, after)]
    elif upper is not None:
        terms = [up_to(key, upper)]
    terms += [f"{where}\n"] if where else []
    return " WHERE " + " AND ".join(f"({term})" for term in terms) if terms else ""


def order_by(key: ReadKey, *, descending: bool = False) -> str:
    """The ORDER BY clause, from its keyword on. An enum, set or bit orders by its number without a cast."""
    direction = " DESC" if descending else ""
    return " ORDER BY " + ", ".join(f"{qualified(part.column.name)}{direction}" for part in key.columns)


def _beyond(terms: Sequence[tuple[str, str]], operator: str, *, last: str) -> _Terms:
    """(a > x) OR (a = x AND b > y) …, with `last` as the operator of the last column."""
    (place, value), rest = terms[0], terms[1:]
    if not rest:
        return [[(place, last, value)]]
    return [[(place, operator, value)], *_each([(place, "=", value)], _beyond(rest, operator, last=last))]


def _inside(columns: Sequence[tuple[tuple[str, str], tuple[str, str], Kind]]) -> _Terms:
    """Each column's place with its lower literal, the same with its upper one, and its kind. The ORs exclude each other: where the server
    may take both ends of a column for one, it is compared with both."""
    ((place, low), (_, high), kind), rest = columns[0], columns[1:]
    if not rest:
        return [[(place, ">", low), (place, "<=", high)]]
    if low == high:
        return _each([(place, "=", low)], _inside(rest))
    begins, between_both, ends = [(place, "=", low)], [(place, ">", low), (place, "<", high)], [(place, "=", high)]
    same: _Terms = []
    match _rises(kind, low, high):
        case False:
            return [between_both]  # nothing: a DDL has put the labels of an enum in another order
        case None:
            same = _each([*begins, *ends], _inside(rest))
            begins, ends = [*begins, (place, "<", high)], [*ends, (place, ">", low)]
    return [
        *_each(begins, _beyond([lower for lower, _, _ in rest], ">", last=">")),
        between_both,
        *_each(ends, _beyond([upper for _, upper, _ in rest], "<", last="<=")),
        *same,
    ]


def _rises(kind: Kind, low: str, high: str) -> bool | None:
    """Whether literals that differ rise; None: the server alone can tell, or takes both for one, by a collation that knows no case or no
    blanks at the end, or where a DDL has changed how many digits there are."""
    match kind:
        case "int" | "uint" | "bit" | "year" | "enum" | "set":
            return int(low) < int(high)
        case "binary" | "date" | "datetime" | "timestamp" if len(low) == len(high):
            return low < high
    return None


def _each(common: list[_Term], terms: _Terms) -> _Terms:
    return [[*common, *term] for term in terms]


def _any_of(terms: _Terms) -> str:
    return " OR ".join(f"({' AND '.join(' '.join(term) for term in every)})" for every in terms)


def _literals(key: ReadKey, values: Key) -> list[tuple[str, str]]:
    if len(values) != len(key.columns):
        names = ", ".join(part.column.name for part in key.columns)
        raise NotAKey(f"a key of {key.table} has {len(key.columns)} columns ({names}), not {len(values)}")
    return [(comparable(part), literal(part, text)) for part, text in zip(key.columns, values, strict=True)]


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
