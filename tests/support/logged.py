"""A log in memory as a folder's, segment by segment, for sinks whose tasks read folders."""

from __future__ import annotations

from dataclasses import replace

from sidecar.adapters.memory.log import MemoryLog
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq


def copied(log: MemoryLog, folder: Folder) -> list[Manifest]:
    """The manifests as they are in the folder."""
    to = FolderLog(folder)
    to.recover(epoch=1)
    manifests: list[Manifest] = []
    while (manifest := log.manifest(Seq(len(manifests)))) is not None:
        data = to.write_data(manifest.seq, epoch=manifest.epoch, codec=manifest.codec, changes=log.read_data(manifest))
        before, after = (name and to.write_schemas(log.read_schemas(name)) for name in (manifest.schemas, manifest.next_schemas))
        for window in manifest.windows:
            for chunk in window.chunks:
                write_chunk(folder, chunk.path, log.read_chunk(chunk.path))
        copy = replace(manifest, data=data.name, rows=data.rows, bytes=data.bytes, schemas=before or "", next_schemas=after)
        manifests.append(copy)
        to.commit(manifests[-1])
    return manifests
