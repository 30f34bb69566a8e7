"""The files sink: an output folder on a local disk or S3, as JSON lines or Parquet. `layout` says what is in it.

It is of the hidden kind: files count when a commit names them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq, TableSchema
from spark_merge.merge.cut import spread, units
from spark_merge.port.contract import Accepted, Batch, Head, Outcome, Standing, Task
from spark_merge.port.readable import Reading
from spark_merge.sinks.files.reading import read_back
from spark_merge.sinks.files.writer import FileWriter
from spark_merge.sinks.folder.certificates import OutputCertificates
from spark_merge.sinks.folder.layout import CHUNK_PARTS, LIVE_PARTS, DeliveredFile, FileFormat, FolderIdentity
from spark_merge.sinks.folder.output import OutputFolder, position_of, segment_of


class FileSink:
    """`log_id` names the log for ever: a folder with another log's output is refused."""

    finds_keys = False

    def __init__(self, folder: Folder, *, log_id: str, file_format: FileFormat) -> None:
        self.folder = folder
        self.file_format: FileFormat = file_format
        self._certificates: OutputCertificates | None = None
        self._output = OutputFolder(folder, FolderIdentity(log_id, file_format, CHUNK_PARTS[file_format], LIVE_PARTS[file_format]))
        self._position = position_of(self._output)

    def look(self) -> Accepted | None:
        return self._position.look()

    def open(self, *, epoch: int | None) -> Standing:
        return self._output.swept(self._position.open(epoch))

    def plan(self, heads: Sequence[Head], *, cores: int) -> Batch:
        identity = self._output.identity
        batch_units = units(heads, chunk_parts=identity.chunk_parts, live_part_rows=identity.live_part_rows)
        groups = spread(batch_units, heads, cores=cores)
        tasks = tuple(Task(str(number), group) for number, group in enumerate(groups))
        return Batch(tuple(heads), (tasks,), FileWriter(self.folder, self.file_format, self._position.state.owner))

    def accept(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        files: dict[Seq, list[DeliveredFile]] = {head.seq: [] for head in batch.heads}
        for outcome in outcomes:
            for seq, file in outcome.note:
                files[seq].append(file)
        self._output.write_ddls(batch.heads)
        segments = [segment_of(head, files[head.seq]) for head in batch.heads]
        self._position.accept(Accepted.of(batch.heads[-1].manifest), first=batch.heads[0].seq, payload=segments)

    def certify(self, log: Folder, name: str, accepted: Seq) -> None:
        if self._certificates is None:
            self._certificates = OutputCertificates(self.folder, log, name=name, log_id=self._output.identity.log_id)
        self._certificates.write(accepted)

    def reading(self, schema: TableSchema, *, parts: int, keys: pa.Table | None = None) -> Reading:  # noqa: ARG002 - files have no index
        self.look()
        return read_back(self.folder, schema, parts=parts)

    def close(self) -> None:
        """Nothing is held."""
