"""Tables of two key columns whose rows are made at random, and their changes as canal-json."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from sidecar.shared.model.nouns import Change, Column, ColumnDefinition, CommitTs, Lane, Rank, TableName, TableSchema
from spark_merge.merge.rule import Image
from spark_merge.testing.histories import COLUMNS, DEFINITION

TABLE = TableName("s", "t")
KEY = ("id", "part")


@dataclass(frozen=True)
class TableShape:
    """`values`: of a row's columns after its key, when it is written at a commit_ts."""

    schema: TableSchema
    values: Callable[[Random, int], Image]

    def change(self, ts: int, *, before: Image | None, after: Image | None) -> Change:
        """A row of the key of either, as canal-json."""
        schema, name = self.schema, self.schema.name
        assert schema.definition is not None
        types = {column.name: column.type_text for column in schema.definition.columns}
        kind = "DELETE" if after is None else "INSERT" if before is None else "UPDATE"
        event = {
            "database": name.schema, "table": name.table, "isDdl": False, "type": kind, "sql": "", "mysqlType": types,
            "data": [self._texts(before if after is None else after)],
            "old": [self._texts(before)] if kind == "UPDATE" else None,
            "_tidb": {"commitTs": ts},
        }  # fmt: skip
        rank = Rank.DELETE if after is None else Rank.PUT
        return Change(CommitTs(ts), rank, name.schema, name.table, b"", json.dumps(event).encode(), Lane("k/0"), 0)

    def _texts(self, row: Image | None) -> dict[str, str | None]:
        assert row is not None
        return {column.name: _sent(column, text) for column, text in zip(self.schema.columns, row, strict=True)}


def _sent(column: Column, text: str | None) -> str | None:
    return text if text is None or column.kind != "binary" else bytes.fromhex(text).decode("iso-8859-1")


def _short_text(rng: Random, ts: int) -> str | None:
    return rng.choice([None, "", "x", f"v{ts}"])


NARROW = TableShape(TableSchema(TABLE, COLUMNS, KEY, definition=DEFINITION), lambda rng, ts: (_short_text(rng, ts),))

_MORE = (
    (Column("n", "int"), ColumnDefinition("n", "bigint(20)")),
    (Column("amount", "decimal", length=20, scale=4), ColumnDefinition("amount", "decimal(20,4)")),
    (Column("at", "datetime", scale=6), ColumnDefinition("at", "datetime(6)")),
    (Column("bin", "binary"), ColumnDefinition("bin", "varbinary(16)")),
    (Column("j", "json"), ColumnDefinition("j", "json")),
)


def _wide_values(rng: Random, ts: int) -> Image:
    return (
        _short_text(rng, ts),
        rng.choice([None, "0", str(rng.randrange(-(1 << 63), 1 << 63))]),
        rng.choice([None, "0.0000", f"{rng.choice(['', '-'])}{rng.randrange(1, 10**16)}.{rng.randrange(10**4):04}"]),
        rng.choice([None, f"2024-02-{rng.randrange(1, 29):02} 23:59:{ts % 60:02}.{rng.randrange(10**6):06}"]),
        rng.choice([None, "", "00", rng.randbytes(rng.randrange(1, 16)).hex().upper() + "E9"]),
        rng.choice([None, f'{{"a": {ts}, "b": [{rng.randrange(100)}, "µ"]}}', f'"{ts}"']),
    )


WIDE = TableShape(
    TableSchema(
        TABLE,
        (*COLUMNS, *(column for column, _ in _MORE)),
        KEY,
        definition=replace(DEFINITION, columns=(*DEFINITION.columns, *(definition for _, definition in _MORE))),
    ),
    _wide_values,
)
