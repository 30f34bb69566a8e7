"""The spool's part in tasks: a file of frames for each unit, which appears whole. As in the files sink a name holds writer and attempt."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq, TableName
from spark_merge.port.contract import Counts, Outcome, Owner, Portion, Rows, Task
from spark_merge.sinks.folder.layout import DeliveredFile, file_path
from spark_merge.sinks.spool.frames import FrameFile

FORMAT = "frames"
ALL = TableName("all", "rows")
"""Where the layout has a table: a file of the spool has rows of all of them, as they come after each other."""


@dataclass(frozen=True, slots=True)
class SpoolWriter:
    """Picklable. The outcome's note is the files with their bytes: `list[tuple[Seq, DeliveredFile, int]]`."""

    folder: Folder
    owner: Owner

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        attempt = secrets.token_hex(4)
        counts: Counts = {}
        files: list[tuple[Seq, DeliveredFile, int]] = []
        for (seq, part), of_unit in groupby(portions, lambda portion: (portion.unit.seq, portion.unit.part)):
            path = file_path(ALL, seq, FORMAT, part=part, owner=self.owner, attempt=attempt)
            files.append(self._write(path, seq, of_unit, counts))
        storage.make_durable(self.folder, [file.path for _, file, _ in files])
        return Outcome(task.id, counts, files)

    def _write(self, path: str, seq: Seq, portions: Iterator[Portion], counts: Counts) -> tuple[Seq, DeliveredFile, int]:
        total = Rows()
        with storage.new_file(self.folder, path, durable=False) as out:
            frames = FrameFile(out, seq)
            for portion in portions:
                rows = Rows()
                for piece in portion.pieces:
                    rows = rows.plus(Rows.of(piece))
                    frames.add(portion.schema, piece, portion.row_bytes)
                place = (seq, portion.schema.name)
                counts[place] = counts.get(place, Rows()).plus(rows)
                total = total.plus(rows)
            frames.close()
        return seq, DeliveredFile(path, ALL, total.log, total.dump, total.dropped), frames.bytes
