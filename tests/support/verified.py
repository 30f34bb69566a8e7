"""A table that changes, its log, and sinks that follow it: a sink can be compared with the source at any moment, and spoilt."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TypeVar

import pyarrow as pa

from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.keyset import Key
from sidecar.shared.model.nouns import Change, Column, CommitTs, Seq, TableSchema
from sidecar.shared.mysql.key_ranges import KeySpan
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.merge.rule import Image
from spark_merge.port.contract import Sink
from spark_merge.port.readable import ReadPart, RowForm, RowsRead
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Here
from spark_merge.verify.context import CheckContext
from spark_merge.verify.moving import LogKeys
from tests.support.table_shapes import NARROW, TABLE, TableShape

R = TypeVar("R")
Rows = dict[Image, Image]


class InOrder:
    """`TaskRunner` of this process."""

    cores = 2

    def run(self, work: Sequence[Callable[[], R]], *, rows: int) -> list[R]:
        return [one() for one in work]


@dataclass
class World:
    """`keys`: how many there may be. `snapshots`: whether the source reads as of a TSO. `busy`: while a comparison works, below so many
    transactions at a time."""

    folder: Path
    rng: Random
    keys: int = 40
    snapshots: bool = True
    shape: TableShape = NARROW
    busy: int = 3
    ts: int = 1000
    rows: Rows = field(default_factory=dict)
    states: list[tuple[int, Rows]] = field(default_factory=list)
    waiting: list[Change] = field(default_factory=list)
    changed: list[tuple[int, Image]] = field(default_factory=list)
    seq: int = 0
    upto_ts: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.job = JobSettings(open_folder(str(self.folder / "log")))
        self.log = FolderLog(self.job.log)
        self.log.recover(epoch=1)
        self.schemas = self.log.write_schemas({TABLE: self.shape.schema})
        self.deliveries: list[Delivery] = []
        for number in range(self.keys):
            if number % 4:
                self._put(self.key(number))
        self.append()

    # ---- the source --------------------------------------------------------------------------------------------------

    def key(self, number: int) -> Image:
        return (f"k{number // 2}", str(number % 2))

    def _put(self, key: Image) -> None:
        self.put(key, *self.shape.values(self.rng, self.ts + 1))

    def put(self, key: Image, *values: str | None) -> None:
        self.ts += 1
        old, new = self.rows.get(key), (*key, *values)
        self.rows[key] = new
        self.waiting.append(self.shape.change(self.ts, before=old, after=new))
        self._changed(key)

    def _changed(self, key: Image) -> None:
        self.states.append((self.ts, dict(self.rows)))
        self.changed.append((self.ts, key))

    def transact(self) -> None:
        key = self.key(self.rng.randrange(self.keys))
        if key in self.rows and self.rng.random() < 0.3:
            self.ts += 1
            self.waiting.append(self.shape.change(self.ts, before=self.rows.pop(key), after=None))
            self._changed(key)
        else:
            self._put(key)

    def at(self, ts: int | None) -> Rows:
        return self.rows if ts is None else next((rows for since, rows in reversed(self.states) if since <= ts), {})

    # ---- the log and the sinks ---------------------------------------------------------------------------------------

    def alter(self) -> None:
        """A segment with all that has committed, of a table that has a column more by then."""
        schema, column = self.shape.schema, Column(f"c{self.seq}", "int")
        self.schemas = self.log.write_schemas({TABLE: replace(schema, columns=(*schema.columns, column))})
        self.append()

    def append(self) -> None:
        """A segment with all that has committed."""
        self.ts += 1
        self._write(self.log, self.waiting)
        self._begin_next()

    def _begin_next(self) -> None:
        self.waiting, self.seq, self.upto_ts = [], self.seq + 1, self.ts

    def _write(self, log: FolderLog, changes: Sequence[Change]) -> None:
        data = log.write_data(Seq(self.seq), epoch=1, codec="canal-json", changes=changes)
        manifest = Manifest(
            Seq(self.seq), 1, CommitTs(self.upto_ts), CommitTs(self.ts), data.name, data.rows, data.bytes, {}, self.schemas, "canal-json",
            id=str(self.seq), open_from=None, table_rows=data.table_rows,
        )  # fmt: skip
        log.commit(manifest)

    def follow(self, sink: Sink) -> None:
        """The sink's worker, from here on."""
        self.deliveries.append(Delivery(sink, self.job, Here()))
        self.deliver()

    def forge(self, uri: str, wanted: Mapping[Image, Image | None]) -> None:
        """A sink's worker that writes into its output what no log has: these keys get these rows, None: they lose theirs. It dies, and
        others follow the log from then on."""
        self.append()
        self.deliver()
        for delivery in self.deliveries:
            delivery.sink.close()
        self.deliveries = []
        folder = self.folder / "forged"
        shutil.copytree(self.folder / "log", folder)
        log, changes = FolderLog(open_folder(str(folder))), list[Change]()
        log.recover(epoch=1)
        for key, row in wanted.items():
            self.ts += 1
            changes.append(self.shape.change(self.ts, before=self.rows.get(key), after=row))
        self.ts += 1
        self._write(log, changes)
        self._write(self.log, ())
        self._begin_next()
        worker = Delivery(open_sink(uri, log_id="log-1"), JobSettings(log.folder), Here())
        assert worker.deliver()
        worker.sink.close()
        self.follow(open_sink(uri, log_id="log-1"))

    def deliver(self) -> None:
        for delivery in self.deliveries:
            while delivery.deliver():
                pass

    def live(self, _: float = 0) -> None:
        """Something happens, or nothing."""
        for _ in range(self.rng.randrange(self.busy)):
            self.transact()
        if self.rng.random() < 0.6:
            self.append()
        if self.rng.random() < 0.5:
            self.deliver()

    def wait(self, _: float) -> None:
        self.append()
        self.deliver()

    def context(self, **options: object) -> CheckContext:
        """While a comparison works or waits, the world lives."""
        source = WorldSource(self)
        folder = open_folder(str(self.folder / "verify"))
        return replace(
            CheckContext(
                LogKeys(self.job, {TABLE}), folder, source, InOrder(), self.live, wait=self.wait, present_ts=lambda: CommitTs(self.ts)
            ),
            **options,  # type: ignore[arg-type]  # a test's own
        )


@dataclass(frozen=True)
class WorldPart:
    """`TimedPart`."""

    world: World
    wanted: Callable[[Image], bool]
    form: RowForm | None
    ts: int | None = None

    def __call__(self) -> Iterator[RowsRead]:
        self.world.live()
        results = [row for row in self.world.at(self.ts).values() if self.wanted(row)]
        names = self.world.shape.schema.column_names()
        rows = pa.table({name: pa.array([row[n] for row in results], pa.string()) for n, name in enumerate(names)})
        yield RowsRead(rows if self.form is None else self.form(rows))

    def at(self, ts: CommitTs | None) -> ReadPart:
        return replace(self, ts=ts)


@dataclass
class WorldSource:
    """`ComparedSource`."""

    world: World

    def has_snapshots(self) -> bool:
        return self.world.snapshots

    def rows(self, schema: TableSchema) -> int:  # there is one
        return len(self.world.rows)

    def cut(self, schema: TableSchema, *, parts: int) -> list[KeySpan]:  # there is one
        """Three ranges."""
        keys = sorted(map(_key, self.world.rows))
        cuts = [keys[len(keys) * number // 3] for number in (1, 2)] if len(keys) > 2 else []
        return [KeySpan(*bounds) for bounds in pairwise([(), *cuts, ()])]

    def walk(self, schema: TableSchema, within: KeySpan, *, range_rows: int, ranges_max: int) -> list[KeySpan]:  # there is one
        keys = [key for key in sorted(map(_key, self.world.rows)) if _is_in(within, key)]
        cuts = keys[range_rows :: range_rows + 1]
        return [KeySpan(*bounds) for bounds in pairwise([within.after, *cuts, within.upper])][:ranges_max]

    def ranges(  # there is one
        self, schema: TableSchema, ranges: Sequence[KeySpan], *, form: RowForm | None, where: str = ""
    ) -> list[WorldPart]:
        return [WorldPart(self.world, partial(_is_of_range, one, where=where), form) for one in ranges]

    def by_keys(self, schema: TableSchema, keys: pa.Table, *, form: RowForm | None, where: str = "") -> WorldPart:  # there is one
        wanted = set(zip(*(column.to_pylist() for column in keys.columns), strict=True))
        return WorldPart(self.world, lambda row: row[:2] in wanted and _meets(where, row), form)


def _key(row: Image) -> Key:
    id, part = row[:2]
    assert id is not None
    assert part is not None
    return id, part


def _is_in(within: KeySpan, key: Key) -> bool:
    return key > within.after and (not within.upper or key <= within.upper)


def _is_of_range(within: KeySpan, row: Image, *, where: str) -> bool:
    return _is_in(within, _key(row)) and _meets(where, row)


def _meets(where: str, row: Image) -> bool:
    """`where`: empty, or `part = '…'`, or `v = '…'`."""
    return where in ("", f"part = '{row[1]}'", f"v = '{row[2]}'")
