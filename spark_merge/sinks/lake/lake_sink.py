"""The sink over a lake, and what a lake gives it (`LakeTables`): of the hidden kind, but that each table's commit shows its rows. The
package has the rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName, TableSchema
from sidecar.shared.model.sink_delivery import TableFiles
from sidecar.shared.process.progress import side_by_side
from spark_merge.ddl.routes import check_apart
from spark_merge.merge.cut import spread, tables_with_rows
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Owner, Standing, Task, Unit, Writer
from spark_merge.port.maintained import FileTotals
from spark_merge.port.readable import Reading
from spark_merge.sinks.kit.position import OutputState, PositionKeeper
from spark_merge.sinks.lake.ddl import LakeAltered, LakeSettings, MergeRules, Mode, alterations

Target = TypeVar("Target")
"""What tasks write for: a table as it was at the plan."""


@dataclass(frozen=True, slots=True)
class TableShare(Generic[Target]):
    """A table's share of a batch. `schema`, `target`: what its files were written for; None without files."""

    name: TableName
    heads: Sequence[Head]
    files: Sequence[Any]
    altered: LakeAltered | None
    schema: TableSchema | None
    target: Target | None


class LakeTables(Protocol[Target]):
    """For one owner at a time. Each call raises SinkError and OwnershipLost."""

    rules: MergeRules
    rows_first: bool
    """A table gets a batch's files, and then, in another call, what the DDLs do, which may be refused; else both in one."""
    at_once_max: int
    """Tables that `bring` is called for, side by side."""
    totals: dict[TableName, FileTotals]
    """Of tables that `bring` has committed, as of CountsFiles."""

    def opened(self, state: OutputState[None]) -> None:
        """This worker is the owner. What earlier ones left and nobody can name is swept."""

    def target(self, schema: TableSchema, last: Head) -> Target:
        """What tasks write for, in a batch that ends with `last`: the table as it is, which is made where the lake needs it before."""

    def bring(self, share: TableShare[Target]) -> Target | None:
        """All commits that the table needs. Gives `target` as it is then; None without one. A repetition does the rest."""

    def recorded(
        self, heads: Sequence[Head], files: Mapping[TableName, Sequence[Any]], altered: Mapping[TableName, LakeAltered]
    ) -> AbstractContextManager[Any]:
        """What the record of all tables gets with the position, which is accepted within the block."""

    def close(self) -> None:
        """`Sink.close`."""


class LakeSink(Generic[Target]):
    finds_keys = False

    def __init__(
        self,
        settings: LakeSettings,
        position: PositionKeeper[None, Any],
        tables: LakeTables[Target],
        units: Callable[[Sequence[Head]], list[Unit]],
        writer: Callable[[Mapping[TableName, Target], Owner], Writer],
        reader: Callable[[Accepted | None], Callable[..., Reading]],
    ) -> None:
        """`units`: by constants of the output's. `writer`: its outcome's note are files, each with its `table`. `reader`: the
        `Readable.reading` at a position."""
        self.gather_s = settings.commit_s
        self._settings, self._position, self._tables = settings, position, tables
        self._units, self._writer, self._reader = units, writer, reader
        self._targets: dict[TableName, tuple[TableSchema, Target]] = {}

    def look(self) -> Accepted | None:
        return self._position.look()

    def open(self, *, epoch: int | None) -> Standing:
        self._targets.clear()
        state = self._position.open(epoch)
        self._tables.opened(state)
        return Standing(state.owner, state.accepted)

    def check_places(self, names: Collection[TableName], before: Collection[TableName]) -> None:
        """`KeepsTables.check_places`."""
        check_apart(names, before, lambda target: [self._settings.compared(target)], routes=self._settings.routes)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        targets = {schema.name: self._target(schema, heads[-1]) for schema in tables_with_rows(heads)}
        groups = spread(self._units(heads), heads, cores=cores)
        tasks = tuple(Task(str(number), group) for number, group in enumerate(groups))
        return Batch(tuple(heads), (tasks,), self._writer(targets, self._position.state.owner))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        """The order carries weight."""
        heads, first, last = batch.heads, batch.heads[0], batch.heads[-1]
        self._position.check_next(first.seq)
        self._position.check()
        files = defaultdict[TableName, list[Any]](list)
        for file in chain.from_iterable(outcome.note for outcome in outcomes):
            files[file.table].append(file)
        if self._tables.rows_first:
            self._bring(heads, files, {})
        altered = alterations(last, self._settings, self._tables.rules)
        self._bring(heads, {} if self._tables.rows_first else files, altered)
        with self._tables.recorded(heads, files, altered) as payload:
            self._position.accept(Accepted.of(last.manifest), first=first.seq, payload=payload)
        if last.ddls or last.next_schemas is not last.schemas:
            stay = {name for name, (schema, _) in self._targets.items() if last.next_schemas.get(name) == schema}
            self._targets = {name: self._targets[name] for name in stay - altered.keys()}
            for gone in self._tables.totals.keys() - last.next_schemas.keys():
                del self._tables.totals[gone]

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:
        """`Readable.reading`."""
        return self._reader(self.look())(schema, parts=parts, keys=keys)

    def small_files(self) -> list[TableFiles]:
        """`CountsFiles.small_files`."""
        return [TableFiles(*name, one.files, one.extra()) for name, one in sorted(dict(self._tables.totals).items())]

    def close(self) -> None:
        self._tables.close()

    def _target(self, schema: TableSchema, last: Head) -> Target:
        known = self._targets.get(schema.name)
        if known is None or known[0] != schema:
            if self._settings.mode == "merge":
                self._tables.rules.check_key(schema)
            known = self._targets[schema.name] = schema, self._tables.target(schema, last)
        return known[1]

    def _bring(self, heads: Sequence[Head], files: Mapping[TableName, Sequence[Any]], altered: Mapping[TableName, LakeAltered]) -> None:
        shares = []
        for name in sorted(files.keys() | altered.keys()):
            schema, target = self._targets[name] if name in files else (None, None)
            shares.append(TableShare(name, heads, files.get(name, ()), altered.get(name), schema, target))
        with side_by_side(self._tables.at_once_max) as pool:
            targets = pool.map if self._tables.at_once_max > 1 else map
            for share, target in zip(shares, targets(self._tables.bring, shares), strict=True):
                if share.schema is not None and target is not None:
                    self._targets[share.name] = share.schema, target


def lake_misfits(
    schemas: Iterable[TableSchema], rules: MergeRules, mode: Mode, check: Callable[[TableSchema], object]
) -> Iterator[tuple[str, str]]:
    """`SinkKind.misfits`. `check` raises SinkError for a table that the lake cannot have."""
    for schema in schemas:
        try:
            check(schema)
            if mode == "merge":
                rules.check_key(schema)
        except SinkError as error:
            yield error.message, error.hint
