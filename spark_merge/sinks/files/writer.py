"""The files sink's part in tasks: portions to files of one segment and table, which appear whole.

A file's name holds its segment, table and part, its writer and the attempt: a task that runs twice, or outlives its driver, replaces
nothing that a reader goes by. A table whose rows all fell in windows still gets its (empty) file: a file for every table with deliveries is
the whole rule.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from sidecar.shared.log import storage
from sidecar.shared.log.hashed import HashedFile
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq
from spark_merge.codecs.encode.block import counted_blocks
from spark_merge.port.contract import Counts, Outcome, Owner, Portion, Rows, Task
from spark_merge.sinks.folder.layout import DeliveredFile, FileFormat, file_path
from spark_merge.sinks.formats.file_formats import FORMATS


@dataclass(frozen=True, slots=True)
class FileWriter:
    """Picklable. The outcome's note is the files by segment: `list[tuple[Seq, DeliveredFile]]`."""

    folder: Folder
    file_format: FileFormat
    owner: Owner

    def __call__(self, task: Task, portions: Iterator[Portion]) -> Outcome:
        attempt = secrets.token_hex(4)
        counts: Counts = {}
        files: list[tuple[Seq, DeliveredFile]] = []
        with storage.new_files(self.folder) as new_file:
            for portion in portions:
                unit, table = portion.unit, portion.schema.name
                path = file_path(table, unit.seq, self.file_format, part=unit.part, owner=self.owner, attempt=attempt)
                mine: Counts = {}
                with new_file(path) as opened:
                    out = HashedFile(opened)
                    with FORMATS[self.file_format].writing(out, portion.schema) as write:
                        for block in counted_blocks(portion, mine):
                            if block.rows:
                                write(block)
                rows = mine[unit.seq, table]
                counts[unit.seq, table] = counts.get((unit.seq, table), Rows()).plus(rows)
                files.append((unit.seq, DeliveredFile(path, table, rows.log, rows.dump, rows.dropped, out.sha256())))
        return Outcome(task.id, counts, files)
