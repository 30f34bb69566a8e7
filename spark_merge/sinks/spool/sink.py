"""The sink of subscribers: an output folder of frames, which the control service streams, and which is kept within bounds.

It is of the hidden kind, as the files sink is, with the same folder, position and fence (sinks/folder). Rows of all tables come in
one order, so a segment is cut as for a sink that commits as it goes (`cut.stages`), and its files are read in the order of their parts:
the cut is a function of the log, and tasks run side by side.

    kept.json → (as files) → what is not kept any more is removed
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq
from spark_merge.merge.cut import spread, stages
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Standing, Task
from spark_merge.sinks.folder.layout import DeliveredFile, FolderIdentity
from spark_merge.sinks.folder.output import OutputFolder, position_of, segment_of
from spark_merge.sinks.spool.keeping import Bounds, Keeping
from spark_merge.sinks.spool.writer import FORMAT, SpoolWriter

CHUNK_PARTS = 16
"""As the files sink's: a large dump keeps that many cores busy. A folder keeps what it began with."""


class SpoolSink:
    """`log_id` names the log for ever."""

    def __init__(self, folder: Folder, *, log_id: str, bounds: Bounds) -> None:
        self.folder = folder
        self._output = OutputFolder(folder, FolderIdentity(log_id, FORMAT, CHUNK_PARTS, 0))
        self._position = position_of(self._output)
        self._keeping = Keeping(folder, bounds)

    def look(self) -> Accepted | None:
        return self._position.look()

    def open(self, *, epoch: int | None) -> Standing:
        standing = self._output.swept(self._position.open(epoch))
        self._keeping.open(None if standing.accepted is None else standing.accepted.seq)
        return standing

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        empty = {head.seq for head in heads if head.table_rows == {}}
        staged = [task for stage in stages(heads, chunk_parts=self._output.identity.chunk_parts) for task in stage]
        units = [unit for task in staged for unit in task.units if not (unit.live and unit.seq in empty)]
        groups = spread(units, heads, cores=cores)
        tasks = tuple(Task(str(number), group, "segment") for number, group in enumerate(groups))
        return Batch(tuple(heads), (tasks,), SpoolWriter(self.folder, self._position.state.owner))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        files: defaultdict[Seq, list[DeliveredFile]] = defaultdict(list)
        sizes: defaultdict[Seq, int] = defaultdict(int)
        for outcome in outcomes:
            for seq, file, size in outcome.note:
                files[seq].append(file)
                sizes[seq] += size
        now_ms, so_far = int(time.time() * 1000), self._keeping.bytes_so_far
        segments = []
        for head in batch.heads:
            so_far += sizes[head.seq]
            segments.append(replace(segment_of(head, files[head.seq]), bytes_so_far=so_far, accepted_ms=now_ms))
        self._keeping.begin(batch.heads[0].seq)
        self._output.write_ddls(batch.heads)
        self._position.accept(Accepted.of(batch.heads[-1].manifest), first=batch.heads[0].seq, payload=segments)
        self._keeping.bytes_so_far = so_far
        if self._keeping.is_due(now_ms):
            self._keeping.look(segments[-1], now_ms)

    def close(self) -> None:
        """Nothing is held."""
