"""The storage sink's driver. Of the hidden kind: what tasks stage is seen by nobody before a commit names it (commits.py, publish.py).

    _ticdc_dump/log → what the last commit accepted appears → a commit that opens → sweep → staged files (in tasks) → a commit that
    accepts → what it accepts appears

- One folder is the output of one log, written in one way: anything else in it is refused, never mixed.
- A table's rows of a batch are in as many files as tasks wrote some of them, in the order of the log: units are segments, and tasks take
  segments in a row.
- The date of a folder is that on which a batch is accepted, in the output's time zone; it is in the commit, so it is decided once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sidecar.errors import OwnershipLost, SinkError
from sidecar.log import storage
from sidecar.log.storage import Folder
from sidecar.partition.ids import is_partitioned
from spark_merge.contract import Accepted, Batch, Head, Outcome, Standing, Task
from spark_merge.cut import spread, units
from spark_merge.sinks.fence import check_exclusive, check_log, check_next
from spark_merge.sinks.files.layout import storage_errors
from spark_merge.sinks.kafka.rows import RAW_KEY_VALUES
from spark_merge.sinks.storage.commits import HEAD_EVERY, Commits, Position
from spark_merge.sinks.storage.layout import IDENTITY, OURS, PROBE, STAGED, staged_by
from spark_merge.sinks.storage.names import Staged, named
from spark_merge.sinks.storage.options import Options
from spark_merge.sinks.storage.publish import publish
from spark_merge.sinks.storage.writer import StorageWriter

VERSIONS = (1, 2)
"""Of the folder. Version 1, which had one head and kept all commits, is gone on with and becomes the last one."""


class StorageSink:
    """`log_id` names the log for ever. `now`: the wall clock in the output's zone. It gathers (contract.Gathers), for files that are not
    small without need."""

    def __init__(self, folder: Folder, options: Options, *, log_id: str, now: Callable[[], datetime] | None = None) -> None:
        self._folder, self._options, self._log_id = folder, options, log_id
        self.gather_s = options.flush_s
        self._now = now or (lambda: datetime.now(options.csv.zone))
        self._commits = Commits(folder)
        self._position: Position | None = None

    def look(self) -> Accepted | None:
        self._check_identity()
        found = self._commits.find()
        return None if found is None else found.last.accepted

    def open(self, *, epoch: int | None) -> Standing:
        identity = _identity(self._log_id, self._options)
        if self._check_identity() != identity:
            with storage_errors(self._folder):
                storage.write_atomically(self._folder, IDENTITY, json.dumps(identity).encode())
        check_exclusive(self._folder, PROBE)
        opened: Position | None = None
        while opened is None:
            before = self._commits.find()
            try:
                if before is not None:
                    publish(self._folder, self._commits, before.last)
            except OwnershipLost:
                continue  # there is a later commit by now
            opened = self._commits.opened(before, epoch)
        self._position = opened
        self._sweep(opened)
        return Standing(opened.last.owner, opened.last.accepted)

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        codec = heads[0].manifest.codec
        raw = self._options.partitions and codec == RAW_KEY_VALUES and any(map(is_partitioned, heads[0].schemas.values()))
        groups = spread(units(heads, chunk_parts=0), heads, cores=cores)
        tasks = tuple(Task(str(number), group, raw=raw) for number, group in enumerate(groups))
        return Batch(tuple(heads), (tasks,), StorageWriter(self._folder, self._options, self._opened().last.owner, codec))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        before = self._opened()
        after = before.last.accepted and before.last.accepted.seq
        for head in batch.heads:
            check_next(self._folder, after, head.seq)
            after = head.seq
        in_order = sorted(outcomes, key=lambda outcome: int(outcome.task))
        staged: list[Staged] = [one for outcome in in_order for one in outcome.note]
        found = named(before.names, batch.heads, staged, self._options, date=self._date())
        self._position = self._commits.accept(before, Accepted.of(batch.heads[-1].manifest), found)
        publish(self._folder, self._commits, self._position.last)
        if self._position.last.number % HEAD_EVERY == 0:
            self._commits.write_head(self._position)

    def close(self) -> None:
        """Nothing is held."""

    def _opened(self) -> Position:
        assert self._position is not None, "a sink is opened first"
        return self._position

    def _date(self) -> str:
        return self._now().strftime(self._options.date) if self._options.date else ""

    def _sweep(self, opened: Position) -> None:
        """What former owners staged: they can accept no more. What a late task of theirs writes after that the next one sweeps."""
        with storage_errors(self._folder):
            staged = storage.list_names(replace(self._folder, root=self._folder.path(STAGED)), deep=False)
            storage.remove(self._folder, [f"{STAGED}/{name}" for name in staged if staged_by(name) < opened.last.owner])

    def _check_identity(self) -> Mapping[str, object] | None:
        """What the folder says that it is; None where it is new. Raises SinkError for another's, or another way of writing."""
        with storage_errors(self._folder):
            data = storage.read_files(self._folder, [IDENTITY]).get(IDENTITY)
            if data is None:
                _check_empty(self._folder)
                return None
        try:
            found = json.loads(data)
            log_id, told, version = str(found["log_id"]), dict(found["options"]), int(found["version"])
        except (ValueError, KeyError, TypeError) as error:
            raise SinkError(
                f"{self._folder}/{IDENTITY} is not readable: {error!r}", hint="restore it, or deliver to a new folder"
            ) from error
        if version not in VERSIONS:
            raise SinkError(
                f"{self._folder} has format version {version}", hint="run the version that wrote it, or deliver to a new folder"
            )
        hint = "deliver a new log to a new folder, and dump again; or set log.uri back to the log that the output is of"
        check_log(self._folder, log_id, self._log_id, hint=hint)
        if differing := sorted(name for name, _ in told.items() ^ self._options.told.items()):
            raise SinkError(
                f"{self._folder} was begun with other values of {', '.join(dict.fromkeys(differing))}",
                hint="give the same ones, or deliver to a new folder: its readers go by them",
            )
        return dict(found)


def _check_empty(folder: Folder) -> None:
    """Names that TiCDC itself gave could be ours to give."""
    there: Iterable[str] = storage.list_names(folder, deep=False)
    try:
        there = [*there, *storage.list_folders(folder)]
    except storage.Absent:
        return
    if others := [name for name in there if name != OURS and not storage.is_temporary(name)]:
        raise SinkError(
            f"{folder} holds {others[0]}, and no output of ours", hint="deliver to a new folder: what TiCDC wrote cannot be gone on with"
        )


def _identity(log_id: str, options: Options) -> dict[str, object]:
    return {"version": VERSIONS[-1], "log_id": log_id, "options": dict(options.told)}
