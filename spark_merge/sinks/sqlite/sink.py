"""The driver, the tasks' part, and the URI: `sqlite:///var/lib/orders.db`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema, lowered
from spark_merge.codecs.encode.block import blocks
from spark_merge.ddl.routes import check_apart
from spark_merge.port.contract import Accepted, Batch, Counts, Head, Outcome, Owner, Portion, Standing, Task, Unit, counted, has_rows
from spark_merge.port.kinds import SinkKind, SinkUri
from spark_merge.port.readable import Reading
from spark_merge.sinks.kit.options import commit_tss, names_of, read
from spark_merge.sinks.kit.position import PositionKeeper, check_owner
from spark_merge.sinks.sqlite.database import reader, transaction
from spark_merge.sinks.sqlite.position import SqlitePositions, note_written, stored_in, written_in
from spark_merge.sinks.sqlite.reading import reading
from spark_merge.sinks.sqlite.tables import apply, differs, make, misfits, statements


@dataclass(frozen=True, slots=True)
class SqliteSettings:
    path: str
    ddl_done: frozenset[CommitTs] = commit_tss("ddl-done", "DDLs that you carried out by hand.")


class SqliteSink:
    finds_keys = True

    def __init__(self, settings: SqliteSettings, *, log_id: str) -> None:
        self._settings = settings
        self._positions = SqlitePositions(settings.path)
        remedy = "give each log a file of its own, and dump again; or set log.uri back to the log that the output is of"
        self._position = PositionKeeper(self._positions, log_id=log_id, remedy=remedy)

    def look(self) -> Accepted | None:
        return self._position.look()

    def open(self, *, epoch: int | None) -> Standing:
        state = self._position.open(epoch)
        return Standing(state.owner, state.accepted, self._positions.written())

    def check_places(self, names: Collection[TableName], before: Collection[TableName]) -> None:
        """`KeepsTables.check_places`. SQLite has one text for a table's schema and name, and compares it without case."""
        check_apart(names, before, lambda name: [lowered(str(name))])

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:  # noqa: ARG002 - one transaction at a time can write
        units = tuple(Unit(head.seq, live=True, chunks=tuple(head.due_chunks())) for head in heads)
        task = Task(f"{heads[0].seq}-{heads[-1].seq}", units, "segment")
        return Batch(
            tuple(heads), ((task,),), SqliteWriter(self._settings.path, self._position.state.owner, Accepted.of(heads[-1].manifest))
        )

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:  # noqa: ARG002 - the rows are there
        last = batch.heads[-1]
        self._position.accept(Accepted.of(last.manifest), first=batch.heads[0].seq, payload=statements(last, self._settings.ddl_done))

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:  # noqa: ARG002 - one file, one part
        return reading(self._settings.path, schema, self.look(), keys=keys)

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class SqliteWriter:
    """Of one batch, the last segment of which is `last`. Picklable."""

    path: str
    owner: Owner
    last: Accepted

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        counts: Counts = {}
        with transaction(self.path) as connection:
            stored = stored_in(connection)
            check_owner(self.path, stored, self.owner)
            assert stored is not None, "it has an owner"
            accepted, written = stored.state.accepted, written_in(connection)
            if (written is not None and written.seq == self.last.seq) or (accepted is not None and accepted.seq >= self.last.seq):
                return Outcome(task.id, {})
            for portion in portions:
                schema, delivers = portion.schema, has_rows(portion.schema)
                if delivers:
                    make(connection, schema)
                for piece in counted(portion, counts):
                    for block in blocks(schema, portion.unit.seq, piece) if delivers else ():
                        apply(connection, block)
            note_written(connection, self.last)
        return Outcome(task.id, counts)


def _open(uri: SinkUri) -> SqliteSink:
    if uri.parts.netloc or not uri.parts.path.strip("/"):
        raise SinkError("a sqlite: sink names a file, and no host", hint="write sqlite:///folder/file.db")
    return SqliteSink(read(SqliteSettings, uri.parameters, path=uri.parts.path), log_id=uri.log_id)


def _misfits(uri: SinkUri, schemas: Sequence[TableSchema]) -> Iterator[tuple[str, str]]:
    unfit = list(misfits(schemas))
    yield from unfit
    with reader(uri.parts.path) as connection:
        if connection is not None and not unfit:
            yield from (problem for schema in schemas if has_rows(schema) for problem in differs(connection, schema))


def _target(_: SinkUri) -> Callable[[TableName], str]:
    """SQLite compares names of tables without regard to case, and a name here is `schema.table`: `a.b`.`c` and `a`.`b.c` are one."""
    return lambda name: lowered(str(name))


SQLITE = SinkKind(_open, names_of(SqliteSettings), misfits=_misfits, target=_target)
