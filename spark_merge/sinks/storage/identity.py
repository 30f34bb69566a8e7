"""Whose output a folder in TiCDC's storage layout is, and how it is written: `_ticdc_dump/log`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from sidecar.errors import SinkError
from sidecar.log import storage
from sidecar.log.storage import Folder
from spark_merge.sinks.errors import storage_errors
from spark_merge.sinks.storage.layout import IDENTITY, OURS
from spark_merge.sinks.storage.options import StorageOptions

VERSIONS = (1, 2)
"""Of the folder. Version 1, which had one head and kept all commits, is continued and becomes the last one."""


@dataclass(frozen=True, slots=True)
class StorageIdentity:
    log_id: str
    options: StorageOptions
    version: int = VERSIONS[-1]

    def to_json(self) -> bytes:
        return json.dumps({"version": self.version, "log_id": self.log_id, "options": dict(self.options.told)}).encode()


def read_identity(folder: Folder, options: StorageOptions) -> StorageIdentity | None:
    """None where the folder is new. Raises SinkError for a folder of somebody else, or one that is written in another
    way than `options`."""
    with storage_errors(folder):
        data = storage.read_files(folder, [IDENTITY]).get(IDENTITY)
        if data is None:
            _check_empty(folder)
            return None
    try:
        found = json.loads(data)
        log_id, written, version = str(found["log_id"]), dict(found["options"]), int(found["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise SinkError(f"{folder}/{IDENTITY} is not readable: {error!r}", hint="restore it, or deliver to a new folder") from error
    if version not in VERSIONS:
        raise SinkError(f"{folder} has format version {version}", hint="run the version that wrote it, or deliver to a new folder")
    if differing := sorted({name for name, _ in written.items() ^ options.told.items()}):
        raise SinkError(
            f"{folder} was begun with other values of {', '.join(differing)}",
            hint="give the same ones, or deliver to a new folder: its readers go by them",
        )
    return StorageIdentity(log_id, options, version)


def claim_identity(folder: Folder, known: StorageIdentity | None, mine: StorageIdentity) -> StorageIdentity | None:
    """The folder says that it is `mine`; None where it was new and another worker was first."""
    with storage_errors(folder):
        if known is None and not storage.create_exclusively(folder, IDENTITY, mine.to_json()):
            return None
        if known is not None and known != mine:
            storage.write_atomically(folder, IDENTITY, mine.to_json())
    return mine


def _check_empty(folder: Folder) -> None:
    """Names that TiCDC itself gave could be ours to give."""
    there: Iterable[str] = storage.list_names(folder, deep=False)
    try:
        there = [*there, *storage.list_folders(folder)]
    except storage.Absent:
        return
    if others := [name for name in there if name != OURS and not storage.is_temporary(name)]:
        raise SinkError(
            f"{folder} holds {others[0]}, and no output of ours", hint="deliver to a new folder: what TiCDC wrote cannot be continued"
        )
