"""What certificates read of the log: manifests in a row, the schemas that they name, holes that are open in sinks, and one dump's progress.

What is wrong with the progress of one dump is raised for that dump alone: a manifest, and the file that it names, has those of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from sidecar.run.collecting import ReadSegment
from sidecar.shared.errors import LogBroken, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.hashed import sha256_of
from sidecar.shared.log.layout import logged_dumps, logged_schemas, missing_files, with_logged_tables
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.manifests import decoded, kept, manifest_files
from sidecar.shared.log.sink_tables import read_sink_tables
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.hole import OpenHole
from sidecar.shared.model.nouns import OperationId, TableName, TableSchema
from sidecar.shared.model.progress import Progress
from sidecar.shared.model.sink_delivery import SinkDelivery


class FollowedLog:
    """For one thread. Raises LogBroken, and as the log's storage."""

    def __init__(self, log: Folder) -> None:
        self._log = log
        self._schemas: tuple[str, Mapping[TableName, TableSchema]] = ("", {})

    def read(self, seqs: range) -> Iterator[ReadSegment]:
        """Those in a row that are there. One is decoded at a time: each has the progress of all dumps."""
        for seq, data in manifest_files(self._log, seqs):
            if data is None:
                return
            yield ReadSegment(decoded(self._log, seq, data), sha256_of(data))

    def accepted(self, sink: SinkDelivery) -> dict[str, Any]:
        """For a certificate. `upto_ts` where the log has the segment still."""
        segments = [] if sink.accepted is None else [*self.read(range(sink.accepted, sink.accepted + 1))]
        return {"sink": sink.sink, "seq": sink.accepted, "upto_ts": str(segments[0].manifest.upto_ts) if segments else None}

    def open_holes(self, sinks: Iterable[SinkDelivery]) -> list[Mapping[TableName, OpenHole]]:
        """By table, of each of these that has a file."""
        try:
            return [tables.holes for tables in read_sink_tables(self._log, [sink.sink for sink in sinks]).values()]
        except SinkError as error:
            raise LogBroken(error.message, hint=error.hint) from error

    def there(self) -> range:
        """The segments of the log."""
        return kept(self._log)

    def schemas_of(self, manifest: Manifest) -> Mapping[TableName, TableSchema]:
        name = manifest.schemas
        if self._schemas[0] != name:
            data = storage.read_if_there(self._log, name)
            if data is None:
                raise missing_files(self._log, [name])
            self._schemas = name, logged_schemas(self._log, name, data)
        return self._schemas[1]

    def dump_of(self, manifest: Manifest, dump_id: OperationId) -> Progress | None:
        """Of the dump after the segment; None: the segment does not know it."""
        mine = [one for one in manifest.dumps if one.get("dump_id") == dump_id]
        if not mine:
            return None
        alone = replace(manifest, progress=mine[0], more_dumps=())
        [progress] = logged_dumps(with_logged_tables(self._log, alone, partial(storage.read_if_there, self._log)).dumps)
        return progress
