"""One OR of ANDs for both bounds is the comparison of rows, whatever the key and however much of it both bounds share."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidecar.shared.model.keyset import Key, KeyColumn, ReadKey, between
from sidecar.shared.model.nouns import Column, Kind, TableName
from tests.lanes import examples

_KINDS: dict[Kind, tuple[str, list[str]]] = {
    "int": ("INTEGER", ["-1", "0", "7"]),
    "text": ("TEXT COLLATE NOCASE", ["a", "A", "b", ""]),
    "enum": ("INTEGER", ["x", "y", "z"]),
    "date": ("TEXT", ["2020-01-01", "2020-01-02", "2021-01-01"]),
}
"""SQLite's type, and values, of which some are one key."""

_HEX = re.compile(r"_utf8mb4 (x'[0-9a-f]*')")
_kinds = st.lists(st.sampled_from(sorted(_KINDS)), min_size=1, max_size=3)


def read_key(kinds: Sequence[Kind]) -> ReadKey:
    columns = [Column(f"k{at}", kind, elements=("x", "y", "z") if kind == "enum" else ()) for at, kind in enumerate(kinds)]
    return ReadKey(TableName("s", "orders"), tuple(KeyColumn(column) for column in columns))


def stored(kind: Kind, text: str) -> int | str:
    return "xyz".index(text) + 1 if kind == "enum" else int(text) if kind == "int" else text


def selected(database: sqlite3.Connection, where: str, values: Sequence[object] = ()) -> list[int]:
    return [row for (row,) in database.execute(f"SELECT rowid FROM orders AS t{where} ORDER BY rowid", values)]


@st.composite
def bounds(draw: st.DrawFn) -> tuple[list[Kind], Key, Key]:
    """The upper one shares any number of leading values with the lower one."""
    kinds = draw(_kinds)
    low, high = (tuple(draw(st.sampled_from(_KINDS[kind][1])) for kind in kinds) for _ in range(2))
    shared = draw(st.integers(0, len(kinds)))
    return kinds, low, low[:shared] + high[shared:]


@pytest.mark.parametrize("given_bounds", ["after", "upper", "both"])
@settings(max_examples=examples(200), deadline=None)
@given(bounds())
@example((["text", "int"], ("a", "0"), ("A", "7")))
@example((["text", "text", "int"], ("a", "B", "0"), ("A", "b", "7")))
def test_a_range_is_what_comparing_rows_says(given_bounds: str, found: tuple[list[Kind], Key, Key]) -> None:
    kinds, low, high = found
    names, places = ", ".join(f"t.k{at}" for at in range(len(kinds))), ", ".join("?" * len(kinds))
    after, upper = (low if given_bounds != "upper" else None), (high if given_bounds != "after" else None)
    with sqlite3.connect(":memory:") as database:
        database.execute(f"CREATE TABLE orders ({', '.join(f'k{at} {_KINDS[kind][0]}' for at, kind in enumerate(kinds))})")
        every = product(*([stored(kind, text) for text in _KINDS[kind][1]] for kind in kinds))
        database.executemany(f"INSERT INTO orders VALUES ({places})", every)
        slow, values = [], []
        for bound, sign in ((after, ">"), (upper, "<=")):
            if bound is not None:
                slow.append(f"({names}) {sign} ({places})")
                values += [stored(kind, text) for kind, text in zip(kinds, bound, strict=True)]
        fast = _HEX.sub(r"CAST(\1 AS TEXT)", between(read_key(kinds), after=after, upper=upper))
        assert selected(database, fast) == selected(database, " WHERE " + " AND ".join(slow), values)
    database.close()
