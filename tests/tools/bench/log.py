"""Writing a segment log as the pipeline does, without a feed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.chunk import ClosedWindow
from sidecar.shared.model.nouns import Change, CommitTs, Segment, Seq, TableName, TableSchema


class LogWriter:
    """Steps 2 and 3 of the pipeline's order of durability. `seq` comes next; `rows` were written, `upto_ts` is the last segment's."""

    def __init__(self, folder: Path, *, codec: str, schemas: Mapping[TableName, TableSchema]) -> None:
        self.folder: Folder = open_folder(str(folder))
        self.seq = Seq(0)
        self.rows = 0
        self.upto_ts = 0
        self._codec = codec
        self._log = FolderLog(self.folder)
        self._log.recover(epoch=1)
        self._schemas = self._log.write_schemas(schemas)

    def write(self, segment: Segment, windows: tuple[ClosedWindow, ...] = ()) -> None:
        data = self._log.write_data(self.seq, epoch=1, codec=self._codec, changes=segment.changes)
        self._log.commit(
            Manifest(
                seq=self.seq,
                epoch=1,
                after_ts=segment.after_ts,
                upto_ts=segment.upto_ts,
                data=data.name,
                rows=data.rows,
                bytes=data.bytes,
                positions=segment.positions,
                schemas=self._schemas,
                codec=self._codec,
                windows=windows,
                table_rows=data.table_rows,
            )
        )
        self.seq = Seq(self.seq + 1)
        self.rows += data.rows
        self.upto_ts = segment.upto_ts


def segment(after_ts: int, upto_ts: int, changes: Iterable[Change]) -> Segment:
    return Segment(CommitTs(after_ts), CommitTs(upto_ts), changes, (), {})
