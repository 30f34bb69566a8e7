"""Rows as SQL text: REPLACE and DELETE of many rows, and each value as a literal of its kind, out of its canonical text.

Why REPLACE and no ON DUPLICATE KEY UPDATE: a row that holds another one's unique value at the target is one that the source has moved or
removed since, for the source never has two. REPLACE takes it away, and its own next row brings it back; an UPDATE would write the new row
into the wrong one. Rows of one commit are in one transaction, so nobody sees it gone whose own change is in the same commit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableSchema
from sidecar.shared.sql.text import quoted
from spark_merge.port.keys import key_text
from spark_merge.sinks.kit.grouped import grouped
from spark_merge.sinks.mysql.tables import TargetTable

Literal: TypeAlias = Callable[[str], str]

STATEMENT_BYTES = 1 << 20
"""Of one statement, about: enough that its own cost is small."""

ROWS_A_DELETE = 200
"""Below the number at which servers stop to look rows up one by one."""

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_NUMBERS = re.compile(rf"{_NUMBER.pattern}(?:\n{_NUMBER.pattern})*+")
_DOUBLE = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?")
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})*")


class NotCanonical(ValueError):
    """A text that is no value of its column's kind."""


@contextmanager
def _canonical(schema: TableSchema) -> Iterator[None]:
    try:
        yield
    except NotCanonical as error:
        raise SinkError(
            f"a value of {schema.name} is no text of its column's kind: {str(error)[:40]!r}",
            hint="report it; the log is not as this version reads it",
        ) from error


def literal_of(column: Column) -> Literal:
    """Numbers are bare, so that a comparison with a column is one of numbers; all else is quoted."""
    match column.kind:
        case "int" | "uint" | "decimal" | "bit":
            return _number
        case "float" | "double":
            return _double
        case "binary":
            return _binary
        case _:
            return _quoted


def _number(text: str) -> str:
    if not _NUMBER.fullmatch(text):
        raise NotCanonical(text)
    return text


def _double(text: str) -> str:
    """With an exponent it is no DECIMAL on its way to the column."""
    if not _DOUBLE.fullmatch(text):
        raise NotCanonical(text)
    return text if "e" in text else f"{text}e0"


def _binary(text: str) -> str:
    if not _HEX.fullmatch(text):
        raise NotCanonical(text)
    return f"x'{text}'"


def _quoted(text: str) -> str:
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    return "'" + (text.replace("'", "''") if "'" in text else text) + "'"


class SqlTexts:
    """One source table's rows for its target. Makes texts column by column."""

    def __init__(self, schema: TableSchema, table: TargetTable) -> None:
        self.schema, self.table = schema, table.check()
        self._literals = [literal_of(column) for column in schema.columns]
        names = {schema.columns[place].name: name for place, name in zip(table.columns, table.names, strict=True)}
        self._key = [(place, quoted(names.get(column.name, column.name))) for place, column in self._key_columns()]
        self._target = target = f"{quoted(table.name.schema)}.{quoted(table.name.table)}"
        self._replace = f"REPLACE INTO {target} ({', '.join(map(quoted, table.names))}) VALUES "
        one = self._key[0][1] if len(self._key) == 1 else None
        self._where, self._joint, self._end = (f"{one} IN (", ", ", ")") if one else ("", " OR ", "")

    def _key_columns(self) -> Iterator[tuple[int, Column]]:
        for name in self.schema.key:
            yield from ((place, column) for place, column in enumerate(self.schema.columns) if column.name == name)

    def rows(self, columns: Sequence[Sequence[str | None]]) -> list[str]:
        """`(…), …` of rows whose columns are in the schema's order. Raises SinkError for what is no value, as all here."""
        with _canonical(self.schema):
            texts = [_literals(columns[place], self._literals[place]) for place in self.table.columns]
        return [f"({','.join(row)})" for row in zip(*texts, strict=True)]

    def table_rows(self, rows: pa.Table) -> list[str]:
        """As `rows`, of a table with a column of texts for each of the schema's, without a Python object for each value."""
        names = self.schema.column_names()
        with _canonical(self.schema):
            texts = [_many_literals(rows.column(names[place]), self._literals[place]) for place in self.table.columns]
        table_rows: list[str] = pc.binary_join_element_wise("(", pc.binary_join_element_wise(*texts, ","), ")", "").to_pylist()
        return table_rows

    def keys(self, columns: Sequence[Sequence[str | None]]) -> list[str]:
        """Each row's handle key as a condition, or as the one value that it is."""
        with _canonical(self.schema):
            texts = [_literals(columns[place], self._literals[place]) for place, _ in self._key]
        if len(self._key) == 1:
            return list(texts[0])
        names = [name for _, name in self._key]
        return [
            "(" + " AND ".join(f"{name} = {text}" for name, text in zip(names, row, strict=True)) + ")" for row in zip(*texts, strict=True)
        ]

    def exact_keys(self, rows: pa.Table) -> list[str]:
        """Each row's handle key as a condition that is true for no other text of it."""
        with _canonical(self.schema):
            results = [list(_exact(self.schema.columns[place], name, rows)) for place, name in self._key]
        return ["(" + " AND ".join(terms) + ")" for terms in zip(*results, strict=True)]

    def delete_exactly(self, conditions: Sequence[str]) -> str:
        return f"DELETE FROM {self._target} WHERE {' OR '.join(conditions)}"

    def replace(self, rows: Sequence[str]) -> str:
        return self._replace + ",".join(rows)

    def delete(self, keys: Sequence[str]) -> str:
        return f"DELETE FROM {self._target} WHERE {self.condition(keys)}"

    def condition(self, keys: Sequence[str]) -> str:
        """True for the rows with these `keys`, at least one."""
        return self._where + self._joint.join(keys) + self._end


def _literals(texts: Sequence[str | None], literal: Literal) -> Sequence[str]:
    """Many at once where all of them are plain, which most are."""
    joined = None if None in texts else "\n".join(texts)  # type: ignore[arg-type]  # looked at just before
    if joined is not None and literal is _number and _NUMBERS.fullmatch(joined):
        return texts  # type: ignore[return-value]
    if joined is not None and literal is _quoted and "'" not in joined and "\\" not in joined:
        return [f"'{text}'" for text in texts]
    return ["NULL" if text is None else literal(text) for text in texts]


def _exact(column: Column, name: str, rows: pa.Table) -> Iterator[str]:
    """For each row that the column has the row's value; the first comparison lets the server use its index."""
    texts = rows.column(column.name).to_pylist()
    for text, literal in zip(texts, _literals(texts, literal_of(column)), strict=True):
        same = f"{name} = {literal}"
        yield f"{same} AND HEX(CONVERT({name} USING utf8mb4)) = '{text.encode().hex().upper()}'" if column.kind == "text" else same


def _many_literals(texts: pa.ChunkedArray, literal: Literal) -> pa.ChunkedArray:
    """`literal` of each; NULL for null. Raises NotCanonical."""
    plain = _PLAIN.get(literal)
    if plain is not None:
        fits = pc.match_substring_regex(texts, f"^(?:{plain.pattern})$")
        if not pc.all(fits, min_count=0).as_py():
            raise NotCanonical(texts.filter(pc.invert(fits))[0].as_py())
    if literal is _double:
        texts = pc.if_else(pc.match_substring(texts, "e"), texts, pc.binary_join_element_wise(texts, "e0", ""))
    elif literal is _binary:
        texts = pc.binary_join_element_wise("x'", texts, "'", "")
    elif literal is _quoted:
        for sign in ("\\", "'"):
            if pc.any(pc.match_substring(texts, sign)).as_py():
                texts = pc.replace_substring(texts, sign, 2 * sign)
        texts = pc.binary_join_element_wise("'", texts, "'", "")
    return pc.fill_null(texts, "NULL")


_PLAIN: Mapping[Literal, re.Pattern[str]] = {_number: _NUMBER, _double: _DOUBLE, _binary: _HEX}


class SqlWrite(NamedTuple):
    """What becomes of one row. `number` counts the rows of its task; `key` identifies it in its table; `values` None: it is deleted."""

    number: int
    texts: SqlTexts
    key: str
    where: str
    values: str | None

    @property
    def bytes(self) -> int:
        """About."""
        return len(self.where) + len(self.values or "")


class Puts(NamedTuple):
    """Rows of a chunk, which all have different keys; their numbers follow on each other from `number` on. `deletes`: keys whose rows are
    removed, where the target has exactly that text: its collation may take another key for it, whose row is there at the source."""

    number: int
    texts: SqlTexts
    rows: pa.Table
    deletes: bool = False

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def statements(self, *, known: int, batched: bool) -> Iterator[str]:
        """Of the rows that are not behind a slot which stands at `known`."""
        rows = self.rows.slice(max(known - self.number, 0))
        if self.deletes:
            for part in _parts(self.texts.exact_keys(rows), ROWS_A_DELETE if batched else 1):
                yield self.texts.delete_exactly(part)
            return
        values = self.texts.table_rows(rows)
        for part in _parts(values, max(len(values), 1) if batched else 1):
            yield self.texts.replace(part)

    def writes(self) -> list[SqlWrite]:
        """Each row alone."""
        schema = self.texts.schema
        columns = [self.rows.column(name).to_pylist() for name in schema.column_names()]
        keys = key_text([self.rows.column(name) for name in schema.key]).to_pylist()
        values = [None] * len(keys) if self.deletes else self.texts.rows(columns)
        made = zip(keys, self.texts.keys(columns), values, strict=True)
        return [SqlWrite(self.number + place, self.texts, *row) for place, row in enumerate(made)]


def due(blocks: Sequence[Sequence[SqlWrite] | Puts], *, known: int, batched: bool) -> Iterator[str]:
    """What a transaction of these carries out: all that is not behind the slot."""
    writes: list[SqlWrite] = []
    for block in blocks:
        if isinstance(block, Puts):
            yield from block.statements(known=known, batched=batched)
        else:
            writes += [write for write in block if write.number >= known]
    yield from statements(writes, batched=batched)


def statements(writes: Sequence[SqlWrite], *, batched: bool) -> Iterator[str]:
    """The last of each row, a table after the other, its deletes first: what changes meanwhile nobody sees. Puts are in the order of the
    rows' last changes, which decides where a unique value is the one's and then the other's."""
    last: dict[tuple[int, str], SqlWrite] = {}
    for write in writes:
        last.pop((id(write.texts), write.key), None)
        last[id(write.texts), write.key] = write
    tables = {id(write.texts): write.texts for write in last.values()}
    for number, texts in tables.items():
        mine = [write for (table, _), write in last.items() if table == number]
        for part in _parts([write.where for write in mine if write.values is None], ROWS_A_DELETE if batched else 1):
            yield texts.delete(part)
        for part in _parts([write.values for write in mine if write.values is not None], len(mine) if batched else 1):
            yield texts.replace(part)


def _parts(texts: Sequence[str], rows_max: int) -> Iterator[list[str]]:
    return grouped(texts, rows_max=rows_max, bytes_max=STATEMENT_BYTES)
