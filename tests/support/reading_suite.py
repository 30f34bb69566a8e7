"""What every sink whose rows can be read back keeps to (spark_merge/port/readable.py): a subclass gives an `output` of its own.

class TestReading(ReadingSuite):
    @pytest.fixture
    def output(self, …) -> ReadingOutput: …
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest

from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.port.readable import newest
from spark_merge.sinks.registry import open_sink
from tests.support.deliveries import Row, Segments, change, chunk, deliver, write_chunk
from tests.support.read_back import reading_of, texts_of
from tests.support.recorded_target import Texts

LOG = "log-1"

Values = Mapping[Column, Sequence[str | None]]


@dataclass(frozen=True)
class ReadingOutput:
    """`schema`: where tables may be. `values`: of each column of every kind, as many as of the others. `cuts`: whether a table is read in
    parts; `smallest`: a module's name of the constant that says how many rows a part has at least. `make`: the table is there, with the
    columns of a schema; None: the sink makes it."""

    uri: str
    schema: str
    values: Values
    smallest: str = ""
    make: Callable[[TableSchema], object] = lambda _: None

    def table(self, *columns: Column, key: Sequence[str], name: str = "t") -> TableSchema:
        made = TableSchema(TableName(self.schema, name), columns, tuple(key))
        self.make(made)
        return made

    def read(self, schema: TableSchema, *, parts: int = 1, keys: Sequence[Sequence[str]] | None = None) -> list[Texts]:
        return sorted(texts_of(reading_of(self.uri, schema, log_id=LOG, parts=parts, keys=keys), schema), key=repr)


class ReadingSuite:
    def test_every_value_is_read_back_as_the_source_has_it(self, output: ReadingOutput, tmp_path: Path) -> None:
        """As a dump and as changes bring them."""
        ident = Column("id", "int", nullable=False)
        schema = output.table(ident, *output.values, key=["id"])
        columns = list(output.values.values())
        rows = [(str(number), *row) for number, row in enumerate(itertools.zip_longest(*columns, fillvalue=None))]
        rows = [tuple(_filled(column, text) for column, text in zip(schema.columns, row, strict=True)) for row in rows]
        half = len(rows) // 2
        changes = [change(1, 50 + at, after=row, table=schema.name, ordinal=at) for at, row in enumerate(rows[:half])]
        bring(output, tmp_path, schema, 1, changes)
        bring(output, tmp_path, schema, 2, [dumped(tmp_path, schema, 2, rows[half:])])
        reading = reading_of(output.uri, schema, log_id=LOG, parts=1)
        assert reading.accepted is not None
        assert (reading.accepted.seq, reading.exact) == (2, False)
        assert sorted(texts_of(reading, schema), key=repr) == sorted(rows, key=repr)

    @pytest.mark.parametrize("key", ["b", "a", "a b"])
    def test_several_parts_have_each_row_once(
        self, output: ReadingOutput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
    ) -> None:
        if output.smallest:
            monkeypatch.setattr(output.smallest, 10)
        columns = (Column("v", "text"), Column("a", "text", nullable=False), Column("b", "int", nullable=False))
        schema = output.table(*columns, key=key.split())
        rows = [(f"v{at}", f"{at % 7 if key == 'a b' else at}'\\µ", str(at * at - 5)) for at in range(500)]
        bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, rows)])
        assert output.read(schema) == output.read(schema, parts=4) == output.read(schema, parts=1000) == sorted(rows, key=repr)
        parts = reading_of(output.uri, schema, log_id=LOG, parts=4).parts
        results = [sum(piece.rows.num_rows for piece in part()) for part in parts]
        assert len(results) == (4 if output.smallest else 1)
        assert all(results)

    def test_rows_are_looked_up_by_key(self, output: ReadingOutput, tmp_path: Path) -> None:
        columns = (
            Column("v", "text"), Column("t", "text", nullable=False), Column("bin", "binary", nullable=False),
            Column("dec", "decimal", nullable=False, length=20, scale=3), Column("day", "date", nullable=False),
            Column("i", "int", nullable=False),
        )  # fmt: skip
        schema = output.table(*columns, key=["i", "t", "bin", "dec", "day"])
        texts = ["", "it's", 'a "b" \\', "µ😀", "%_\0z", "\t"]
        rows = [(f"v{at}", text, f"{at:02X}27", f"-{at}.500", f"2024-02-{at + 1:02}", str(at - 3)) for at, text in enumerate(texts * 4)]
        bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, rows)])
        keys = [(row[5], *row[1:5]) for row in rows[::2]] + [("99", "no", "FF", "0.000", "2024-01-01")]
        results = output.read(schema, keys=keys)
        assert set(results) == set(rows[::2]), "and of those that are not there, nothing"
        assert len(results) == len(rows[::2])
        assert output.read(schema, keys=keys[-1:]) == []
        assert output.read(schema, keys=[]) == []

    def test_a_table_that_nothing_was_delivered_to_has_no_rows(self, output: ReadingOutput) -> None:
        schema = TableSchema(TableName(output.schema, "never"), (Column("id", "int", nullable=False),), ("id",))
        reading = reading_of(output.uri, schema, log_id=LOG, parts=2)
        assert reading.accepted is None
        assert newest(reading, schema).num_rows == 0

    def test_rows_are_of_the_position_or_later_while_the_sink_delivers(self, output: ReadingOutput, tmp_path: Path) -> None:
        schema = output.table(Column("id", "int", nullable=False), Column("seq", "int"), key=["id"])
        ids = [str(at) for at in range(100)]
        bring(output, tmp_path, schema, 1, [dumped(tmp_path, schema, 1, [(one, "1") for one in ids])])

        def worker() -> None:
            sink = open_sink(output.uri, log_id=LOG)
            sink.open(epoch=None)
            for seq in range(2, 12):
                rows = [change(seq, 100 * seq - 50, before=(one, str(seq - 1)), after=(one, str(seq)), table=schema.name) for one in ids]
                deliver(sink, Segments([seq], rows, rows_max=100), log=open_folder(str(tmp_path)), schemas={schema.name: schema})
            sink.close()

        live = Thread(target=worker)
        live.start()
        looks = 0
        try:
            while live.is_alive() or looks == 0:
                reading = reading_of(output.uri, schema, log_id=LOG, parts=2)
                assert reading.accepted is not None
                texts = texts_of(reading, schema)
                assert sorted(str(one) for one, _ in texts) == sorted(ids)
                assert all(int(seq or 0) >= reading.accepted.seq for _, seq in texts)
                looks += 1
        finally:
            live.join()
        assert sorted(output.read(schema)) == sorted((one, "11") for one in ids)


def _filled(column: Column, text: str | None) -> str | None:
    """What has no more values is NULL; a key and a strict column have another one."""
    return "0" if text is None and not column.nullable else text


def dumped(folder: Path, schema: TableSchema, seq: int, rows: Sequence[Texts]) -> Row:
    path = f"chunk-{schema.name.table}-{seq}"
    write_chunk(open_folder(str(folder)), path, rows, schema)
    return chunk(seq, 100 * seq, path, table=schema.name)


def bring(output: ReadingOutput, folder: Path, schema: TableSchema, seq: int, rows: Sequence[Row]) -> None:
    sink = open_sink(output.uri, log_id=LOG)
    sink.open(epoch=None)
    try:
        deliver(sink, Segments([seq], rows), log=open_folder(str(folder)), schemas={schema.name: schema})
    finally:
        sink.close()
