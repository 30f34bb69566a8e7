"""A table of a Delta or Iceberg output, given rows and schema changes by hand, a segment after another; values that few types hold."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, ColumnDefinition, CommitTs, TableDefinition, TableName, TableSchema
from spark_merge.port.contract import Sink
from spark_merge.sinks.delta.columns import Mode
from spark_merge.sinks.registry import open_sink
from tests.support.deliveries import ORDERS, Segments, change, chunk, write_chunk
from tests.support.lake import uri_of
from tests.support.lake_read_back import PARTS, Texts, read_back

SinkName = Literal["delta", "iceberg"]
KEY = Column("id", "int", nullable=False)

HARD: list[tuple[Column, list[str | None]]] = [
    (Column("i", "int"), ["-9223372036854775808", "9223372036854775807", None]),
    (Column("u", "uint"), ["18446744073709551615", "0", None]),
    (Column("b", "bit", length=64), ["18446744073709551615", "1", None]),
    (Column("f", "float"), ["3.4028234663852886e+38", "0.10000000149011612", None]),
    (Column("g", "double"), ["1.7976931348623157e+308", "5e-324", None]),
    (Column("d", "decimal", length=38, scale=30), ["-12345678.000000000000000000000000000001", "0." + "0" * 30, None]),
    (Column("e", "decimal", length=65, scale=30), [f"{'9' * 35}.{'9' * 30}", "-0." + "0" * 29 + "1", None]),
    (Column("day", "date"), ["0001-01-01", "0000-00-00", "2020-02-30", "9999-12-31", None]),
    (Column("at", "datetime", scale=6), ["9999-12-31 23:59:59.999999", "0000-00-00 00:00:00.000000", "2020-00-10 01:02:03.000004", None]),
    (Column("ts", "timestamp", scale=3), ["2038-01-19 03:14:07.120", "0000-00-00 00:00:00.000", None]),
    (Column("t", "time", scale=6), ["-838:59:59.000000", "838:59:59.999999", None]),
    (Column("y", "year"), ["0000", "2155", None]),
    (Column("x", "binary"), ["00FF", "", None]),
    (Column("s", "text"), ["", "漢\x00'\"`", None]),
    (Column("en", "enum", elements=("a", "b")), ["a", None]),
    (Column("se", "set", elements=("a", "b")), ["a,b", "", None]),
    (Column("j", "json"), ['{"a": [1, null]}', None]),
    (Column("v", "vector"), ["[1,2.5]", None]),
]


@dataclass
class Story:
    """A sink, and a table as it is at each segment."""

    folder: Path
    mode: Mode
    sink_name: SinkName = "delta"
    parameters: str = ""
    schemas: Mapping[TableName, TableSchema] = field(default_factory=dict)
    seq: int = 0

    def deliver(
        self,
        *changes: tuple[Texts | None, Texts | None],
        ddl: str = "",
        after: TableSchema | None = None,
        chunk_rows: Sequence[Texts] = (),
    ) -> None:
        """Rows (before, after) of a segment and of a chunk, ended by a DDL after which the table is `after`."""
        self.seq += 1
        rows = [
            change(self.seq, 100 * self.seq + number - 99, before=before, after=now, ordinal=number, table=self.schema.name)
            for number, (before, now) in enumerate(changes)
        ]
        rows += [chunk(self.seq, 100 * self.seq, path, table=self.schema.name) for path in self._chunks(chunk_rows)]
        ddls = {self.seq: (DdlRecord(CommitTs(100 * self.seq), *self.schema.name, ddl),)} if ddl else {}
        segments = Segments([self.seq], rows, ddls)
        sink, log = self.sink(), open_folder(str(self.folder / "log"))
        sink.open(epoch=None)
        then = {after.name: after} if after else self.schemas
        batch = sink.plan([replace(head, next_schemas=then) for head in segments.heads(self.schemas)], cores=2)
        assert batch is not None
        writer = pickle.loads(pickle.dumps(batch.writer))
        outcomes = [writer(task, segments.portions(task, self.schemas, log)) for task in batch.stages[0]]
        sink.accept(batch, outcomes)
        self.schemas = then

    def _chunks(self, rows: Sequence[Texts]) -> Iterator[str]:
        if rows:
            write_chunk(open_folder(str(self.folder / "log")), path := f"chunks/{self.seq}.parquet", rows, self.schema)
            yield path

    @property
    def schema(self) -> TableSchema:
        (only,) = self.schemas.values()
        return only

    def sink(self) -> Sink:
        return open_sink(self.uri, log_id="log-1")

    @property
    def uri(self) -> str:
        if self.sink_name == "iceberg":
            return uri_of(self.folder / "lake", mode=self.mode) + self.parameters
        return f"delta://{self.folder}/out?mode={self.mode}{self.parameters}"

    def rows(self, *, parts: int = PARTS) -> list[Texts]:
        return sorted(read_back(self.uri, self.schema, log_id="log-1", parts=parts), key=repr)


def table(*columns: Column, name: TableName = ORDERS, defined: Mapping[str, str] | None = None) -> TableSchema:
    definitions = tuple(ColumnDefinition(one.name, "", one.nullable, default=(defined or {}).get(one.name)) for one in (KEY, *columns))
    return TableSchema(name, (KEY, *columns), ("id",), definition=TableDefinition(definitions))
