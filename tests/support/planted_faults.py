"""Faults at random in what an output has of a table: what a comparison has to name each key as."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from spark_merge.merge.rule import Image
from tests.support.verified import World

Named = tuple[str, frozenset[str]]
"""A difference's kind and columns."""


@dataclass
class Faults:
    """`rows`: what the output has of these keys then; None: nothing. `named`: what a comparison calls them. `kinds`: how many of each kind
    of fault there are. `any_text`: the output's column of JSON takes any text."""

    world: World
    rng: Random
    any_text: bool
    rows: dict[Image, Image | None] = field(default_factory=dict)
    named: dict[Image, Named] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)

    def plant(self, count: int) -> None:
        """Of all kinds about as many; as many keys, or fewer if the table has no more that fit."""
        makers: Mapping[str, Callable[[Image], bool]] = {
            "missing": self._missing,
            "cell": self._cell,
            "null": self._null,
            "case": self._case,
            "digit": self._digit,
            "stale": self._stale,
            **({"no json": self._no_json} if self.any_text else {}),
        }
        for key in self.rng.sample(sorted(self.world.rows), len(self.world.rows)):
            kind = self.rng.choice(list(makers))
            if len(self.named) < count and makers[kind](key):
                self.kinds[kind] = self.kinds.get(kind, 0) + 1
        absent = [key for number in range(self.world.keys) if (key := self.world.key(number)) not in self.world.rows]
        for key in [*self.rng.sample(absent, min(len(absent), count // 10)), *((f"z{at}", "0") for at in range(1 + count // 20))]:
            self._becomes(key, (*key, *self.world.shape.values(self.rng, self.world.ts)), "extra")
            self.kinds["extra"] = self.kinds.get("extra", 0) + 1

    def _becomes(self, key: Image, row: Image | None, kind: str, columns: frozenset[str] = frozenset()) -> bool:
        self.rows[key], self.named[key] = row, (kind, columns)
        return True

    def _changes(self, key: Image, row: Image) -> bool:
        names = self.world.shape.schema.column_names()
        columns = frozenset(name for name, one, other in zip(names, row, self.world.rows[key], strict=True) if one != other)
        return bool(columns) and self._becomes(key, row, "different", columns)

    def _with(self, key: Image, column: str, text: str | None) -> bool:
        at = self.world.shape.schema.column_names().index(column)
        row = self.world.rows[key]
        return self._changes(key, (*row[:at], text, *row[at + 1 :]))

    # ---- each returns whether the row has got the fault --------------------------------------------------------------

    def _missing(self, key: Image) -> bool:
        return self._becomes(key, None, "missing")

    def _cell(self, key: Image) -> bool:
        """One of another row that might be there."""
        columns = self.world.shape.schema.column_names()[2:]
        column = self.rng.choice(columns)
        return self._with(key, column, self.world.shape.values(self.rng, self.world.ts)[columns.index(column)])

    def _null(self, key: Image) -> bool:
        """NULL for an empty value, or the other way round."""
        others: dict[str | None, str | None] = {None: "", "": None}
        results = [(column, others[text]) for column in ("v", "bin") if (text := self._cell_of(key, column)) in others]
        return bool(results) and self._with(key, *self.rng.choice(results))

    def _case(self, key: Image) -> bool:
        """The row stands under its key in capitals."""
        id, part = key
        assert id is not None
        capital = (id.upper(), part)
        self._becomes(capital, (*capital, *self.world.rows[key][2:]), "extra")
        return self._becomes(key, None, "missing")

    def _digit(self, key: Image) -> bool:
        text = self._cell_of(key, "amount")
        if text is None:
            return False
        return self._with(key, "amount", text[:-1] + self.rng.choice([one for one in "123456789" if one != text[-1]]))

    def _no_json(self, key: Image) -> bool:
        return self._with(key, "j", self.rng.choice(['{"a": 1', "NaN,", "x", "", "[" * 2000]))

    def _stale(self, key: Image) -> bool:
        """As it was before its last change, if that was not the first."""
        before = next((row for row in self._earlier(key) if row != self.world.rows[key]), None)
        return before is not None and self._changes(key, before)

    def _earlier(self, key: Image) -> Iterator[Image]:
        return (rows[key] for _, rows in reversed(self.world.states) if key in rows)

    def _cell_of(self, key: Image, column: str) -> str | None:
        return self.world.rows[key][self.world.shape.schema.column_names().index(column)]
