"""Slices of a source's table, one behind the other, have each row once, whatever its keys are and whatever else is written."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import pytest

from sidecar.shared.model.keyset import Key
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from sidecar.shared.mysql.key_ranges import KeySpan
from sidecar.shared.process.kept_secrets import keep as keep_password
from spark_merge.sinks.mysql.server import SqlServer
from spark_merge.verify.source import SqlSource
from tests.lanes import LANE
from tests.support.services.mariadb import MariaDb

pytestmark = pytest.mark.xdist_group("sql-target")

numbers = itertools.count()
WORLDS = 20 if LANE.whole else 4


@dataclass(frozen=True)
class KeyKind:
    """`types`: of the key's columns. `key`: one at random, as SQL's literals."""

    columns: tuple[Column, ...]
    types: tuple[str, ...]

    def key(self, rng: Random) -> tuple[str, ...]:
        return tuple(_literal(column, rng) for column in self.columns)


def _literal(column: Column, rng: Random) -> str:
    """Keys are in clusters far from each other."""
    match column.kind:
        case "int":
            return str(rng.choice([-(1 << 62), -3, 0, 1 << 40]) + rng.randrange(40))
        case "decimal":
            return f"{rng.randrange(-30, 30)}.{rng.randrange(4)}0"
        case "enum":
            return f"'{rng.choice(column.elements)}'"
        case _:
            return f"'{''.join(rng.choice('aAbB ') for _ in range(rng.randrange(4)))}x{rng.randrange(40)}'"


KINDS = {
    "one number": KeyKind((Column("id", "int", nullable=False),), ("BIGINT",)),
    "text without case, number": KeyKind(
        (Column("a", "text", nullable=False), Column("b", "int", nullable=False)), ("VARCHAR(20) COLLATE utf8mb4_general_ci", "BIGINT")
    ),
    "latin text": KeyKind((Column("a", "text", nullable=False),), ("VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci",)),
    "enum, decimal": KeyKind(
        (Column("e", "enum", nullable=False, elements=("z", "a", "m")), Column("d", "decimal", nullable=False, length=10, scale=2)),
        ("ENUM('z', 'a', 'm')", "DECIMAL(10, 2)"),
    ),
}


@dataclass
class SlicedTable:
    db: MariaDb
    kind: KeyKind
    schema: TableSchema

    def fill(self, rng: Random, rows: int) -> None:
        values = [f"({', '.join(self.kind.key(rng))})" for _ in range(rows)]
        if values:
            self.db.execute(f"INSERT IGNORE INTO {self.schema.name} VALUES {', '.join(values)}")

    def live(self, rng: Random) -> None:
        """Some rows come and others go."""
        self.fill(rng, rng.randrange(1, 30))
        self.db.execute(f"DELETE FROM {self.schema.name} ORDER BY RAND({rng.randrange(1000)}) LIMIT {rng.randrange(20)}")

    def keys(self) -> list[Key]:
        parts = self.source().ranges(self.schema, [KeySpan()], form=None)
        return rows_of(parts)

    def source(self) -> SqlSource:
        keep_password(SqlServer.SECRET_KIND, f"{self.db.user}@{self.db.host}:{self.db.port}", self.db.password)
        return SqlSource(SqlServer(((self.db.host, self.db.port),), user=self.db.user))


def rows_of(parts: Sequence[object]) -> list[Key]:
    return [tuple(row.values()) for part in parts for read in part() for row in read.rows.to_pylist()]  # type: ignore[operator]  # a part


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, mariadb: MariaDb) -> Iterator[SlicedTable]:
    kind, name = KINDS[request.param], f"sliced{next(numbers)}"
    names = [column.name for column in kind.columns]
    columns = ", ".join(f"{one} {text} NOT NULL" for one, text in zip(names, kind.types, strict=True))
    mariadb.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t ({columns}, PRIMARY KEY ({', '.join(names)}))")
    yield SlicedTable(mariadb, kind, TableSchema(TableName(name, "t"), kind.columns, tuple(names)))
    mariadb.execute(f"DROP DATABASE {name}")


def test_slices_have_each_row_once_beside_writes(table: SlicedTable) -> None:
    source = table.source()
    for seed in range(WORLDS):
        rng = Random(seed)
        table.db.execute(f"TRUNCATE {table.schema.name}")
        table.fill(rng, (300, 0, 1, 300)[seed % 4])
        there, read, after, slices = set(table.keys()), list[Key](), Key(), 0
        while slices == 0 or after:
            step, count = rng.randrange(1, 40), rng.randrange(1, 4)
            ranges = source.walk(table.schema, KeySpan(after), range_rows=step, ranges_max=count)
            rows = rows_of(source.ranges(table.schema, ranges, form=None))
            assert len(ranges) <= count
            assert len(rows) <= (step + 1) * count or not ranges[-1].upper
            read += rows
            after, slices = ranges[-1].upper, slices + 1
            table.live(rng)
            there &= set(table.keys())  # what was there all the time
        assert len(set(read)) == len(read), f"seed {seed}: none twice"
        assert there <= set(read), f"seed {seed}: none is passed over"


def test_a_slice_within_bounds_has_their_rows(table: SlicedTable) -> None:
    table.fill(Random(1), 300)
    source, keys = table.source(), table.keys()
    bounds = source.walk(table.schema, KeySpan(), range_rows=70, ranges_max=100)
    spans = [source.walk(table.schema, one, range_rows=9, ranges_max=1000) for one in bounds]
    assert [(ranges[0].after, ranges[-1].upper) for ranges in spans] == bounds
    assert sorted(rows_of(source.ranges(table.schema, [one for each in spans for one in each], form=None))) == sorted(keys)


def test_bounds_that_a_key_cannot_have_any_more_bound_nothing(table: SlicedTable) -> None:
    table.fill(Random(2), 50)
    ranges = table.source().walk(table.schema, KeySpan(("a", "b", "c"), ("d",)), range_rows=10, ranges_max=100)
    assert (ranges[0].after, ranges[-1].upper) == ((), ())
    assert sorted(rows_of(table.source().ranges(table.schema, ranges, form=None))) == sorted(table.keys())
