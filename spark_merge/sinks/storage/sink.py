"""The storage sink's driver.

    _ticdc_dump/log → what the last commit accepted appears → a commit that opens → sweep → staged files (in tasks) → a commit that
    accepts → what it accepts appears

- One folder is the output of one log, written in one way: anything else in it is refused, never mixed.
- A table's rows of a batch are in as many files as tasks wrote some of them, in the order of the log: units are segments, and tasks take
  segments in a row.
- The date of a folder is that on which a batch is accepted, in the output's time zone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import pyarrow as pa

from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import TableSchema
from sidecar.shared.partition.ids import is_partitioned
from spark_merge.codecs.encode.split import RAW_KEY_VALUES
from spark_merge.merge.cut import spread, units
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Owner, Standing, Task
from spark_merge.port.readable import Reading
from spark_merge.sinks.kit.chain import CommitChain
from spark_merge.sinks.kit.fence import ANOTHER_FOLDER
from spark_merge.sinks.kit.position import PositionKeeper
from spark_merge.sinks.storage.commits import StorageOutput
from spark_merge.sinks.storage.layout import STAGED, staged_by
from spark_merge.sinks.storage.names import Staged, StorageNames, named
from spark_merge.sinks.storage.options import StorageOptions
from spark_merge.sinks.storage.reading import StoredOutput, read_back
from spark_merge.sinks.storage.writer import StorageWriter


class StorageSink:
    """`log_id` names the log for ever. `now`: the wall clock in the output's zone. It gathers (contract.Gathers), for files that are not
    small without need."""

    finds_keys = False

    def __init__(self, folder: Folder, options: StorageOptions, *, log_id: str, now: Callable[[], datetime] | None = None) -> None:
        self._folder, self._options = folder, options
        self.gather_s = options.flush_s
        self._now = now or (lambda: datetime.now(options.csv.zone))
        self._position = PositionKeeper(CommitChain(StorageOutput(folder, options)), log_id=log_id, remedy=ANOTHER_FOLDER)

    def look(self) -> Accepted | None:
        return self._position.look()

    def open(self, *, epoch: int | None) -> Standing:
        state = self._position.open(epoch)
        self._sweep(state.owner)
        return Standing(state.owner, state.accepted)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        codec = heads[0].manifest.codec
        raw = self._options.partitions and codec == RAW_KEY_VALUES and any(map(is_partitioned, heads[0].schemas.values()))
        groups = spread(units(heads, chunk_parts=0), heads, cores=cores)
        tasks = tuple(Task(str(number), group, raw=raw) for number, group in enumerate(groups))
        return Batch(tuple(heads), (tasks,), StorageWriter(self._folder, self._options, self._position.state.owner, codec))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        first, last = batch.heads[0], batch.heads[-1]
        self._position.check_next(first.seq)
        in_order = sorted(outcomes, key=lambda outcome: int(outcome.task))
        staged: list[Staged] = [one for outcome in in_order for one in outcome.note]
        names = self._position.state.detail or StorageNames()
        appearing = named(names, batch.heads, staged, self._options, date=self._date())
        detail = names.after(appearing.change)
        self._position.accept(Accepted.of(last.manifest), first=first.seq, detail=detail, payload=appearing)

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:  # noqa: ARG002 - files have no index
        state = self._position.stored()
        if state is None or state.accepted is None:
            return Reading(None, True, ())
        return read_back(StoredOutput(self._folder, self._options, state.detail or StorageNames()), state.accepted, schema, parts=parts)

    def close(self) -> None:
        """Nothing is held."""

    def _date(self) -> str:
        return self._now().strftime(self._options.date) if self._options.date else ""

    def _sweep(self, owner: Owner) -> None:
        """What earlier owners staged: they can accept no more. What a late task of theirs writes after that the next one sweeps."""
        staged = storage.list_names(self._folder, under=STAGED, deep=False)
        storage.remove(self._folder, [f"{STAGED}/{name}" for name in staged if staged_by(name) < owner])
