"""Reading a files sink's rows back (port/readable.py): JSON lines and Parquet files, by the accepted segments and the files that
they name.

- The position is that of the last commit; of what came after it no file is read. So the rows are exactly those of the position.
- Rows from before a schema change are mapped by the DDLs in the output (ddl/eras.py). A Parquet file has its columns' types besides.
- An output whose first segments were removed by somebody else is not read: its rows would be fewer, and nothing would say so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq, TableSchema
from spark_merge.ddl.eras import Era, era_of, eras
from spark_merge.port.readable import Reading, RowsRead
from spark_merge.sinks.files.reader import delivered_seqs, segments_of
from spark_merge.sinks.folder.layout import DDLS, DDLS_OF_SEGMENT, DeliveredFile, FileFormat, FolderCommit, SegmentDdls
from spark_merge.sinks.folder.output import accepted_by, last_commit
from spark_merge.sinks.formats.file_formats import FORMATS
from spark_merge.sinks.kit.chain import NumberedFiles
from spark_merge.sinks.kit.row_versions import dealt

_RESTORE = "restore the folder, or deliver to a new one and dump again"
_SHORTENED = "deliver to a new folder and dump again: an output that others shorten cannot be compared"


def read_back(folder: Folder, schema: TableSchema, *, parts: int) -> Reading:
    """Raises SinkError. Of other tables' files nothing is kept: an output has as many as all its tables and segments."""
    last = last_commit(folder)
    accepted = accepted_by(folder, last)
    if accepted is None:
        return Reading(None, True, ())
    fresh = {segment.seq: segment for segment in (() if last is None else last.segments)}
    seqs = _seqs(folder, accepted.seq, fresh)
    _check_begins(folder, Seq(seqs[0]), last)
    ddls = _ddls(folder, range(seqs[0], accepted.seq + 1))
    table_eras = eras(schema, [ddl for one in ddls.values() for ddl in one.ddls])
    files = []
    for segment in chain(segments_of(folder, [seq for seq in seqs if seq not in fresh]), fresh.values()):
        if segment.ddl is not None and segment.ddl not in ddls:
            raise _gone(folder, segment.ddl)
        for file in segment.files:
            if file.from_log + file.from_dump and (era := era_of(table_eras, file.table, segment.upto_ts)) is not None:
                files.append((file, era))
    for _, era in files:
        era.check()
    groups = dealt(files, lambda one: one[0].from_log + one[0].from_dump, parts)
    return Reading(accepted, True, tuple(FilesPart(folder, group) for group in groups))


def _seqs(folder: Folder, accepted: Seq, fresh: Collection[Seq]) -> list[int]:
    """Those up to the position. `fresh`: what the last commit accepted may be yet to be repeated for readers."""
    seqs = sorted({seq for seq in delivered_seqs(folder) if seq <= accepted} | {*fresh})
    for before, after in pairwise([*seqs, accepted + 1]):
        if after != before + 1:
            raise SinkError(f"{folder}: segment {before + 1} is missing, {accepted} is accepted", hint=_RESTORE)
    if not seqs:
        raise SinkError(f"{folder}: no segment is there, {accepted} is accepted", hint=_RESTORE)
    return seqs


def _check_begins(folder: Folder, first: Seq, last: FolderCommit | None) -> None:
    """Raises SinkError unless that is where the output began."""
    if last is not None and last.first is not None and first > last.first:
        raise SinkError(
            f"{folder}: segments {last.first} to {first - 1} were removed by somebody, with the rows that they brought", hint=_SHORTENED
        )
    if (last is None or last.first is None) and first:
        raise SinkError(
            f"{folder} begins with segment {first}, and ticdc-dump 0.4 or before, which began it, did not record whether it had"
            " earlier ones",
            hint=_SHORTENED,
        )


def _ddls(folder: Folder, seqs: range) -> dict[str, SegmentDdls]:
    """Those of accepted segments, by path: they were durable before these were accepted, and a segment has the file of its own number."""
    files = NumberedFiles(folder, DDLS, ".json")
    return DDLS_OF_SEGMENT.read_all(folder, [files.path(seq) for seq in files.numbers() if seq in seqs])


def _gone(folder: Folder, path: str) -> SinkError:
    return SinkError(f"{folder}/{path} is gone, and its segment is accepted", hint=_RESTORE)


def _format_of(file: DeliveredFile) -> FileFormat:
    return "jsonl" if file.path.endswith(".jsonl") else "parquet"


@dataclass(frozen=True, slots=True)
class FilesPart:
    """Some files of one table, each of an era."""

    folder: Folder
    files: tuple[tuple[DeliveredFile, Era], ...]

    def __call__(self) -> Iterator[RowsRead]:
        for file, era in self.files:
            place = f"{self.folder}/{file.path}"
            try:
                yield from self._rows(file, era)
            except SinkError as error:
                raise SinkError(f"{place}: {error.message}", hint=error.hint) from error

    def _rows(self, file: DeliveredFile, era: Era) -> Iterator[RowsRead]:
        try:
            with storage.open_to_read(self.folder, file.path) as data:
                yield from FORMATS[_format_of(file)].rows(data, era)
        except SinkError as error:
            if isinstance(error.__cause__, storage.Absent):
                raise _gone(self.folder, file.path) from error
            raise
