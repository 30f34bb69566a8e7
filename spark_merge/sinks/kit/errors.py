"""What errors of a storage mean to a sink."""

from __future__ import annotations

from sidecar.shared.errors import SinkError, StorageFull
from sidecar.shared.log.storage import Folder, Full, StorageError, open_folder


def sink_folder(url: str) -> Folder:
    """An output's, or one that is read as a sink's."""
    return open_folder(url).opened_for(sink_error)


def sink_error(place: object, name: str, error: Exception) -> Exception:
    """StorageFull or SinkError; Arrow's errors are the reader's own."""
    where = f"{place}/{name}" if name else place
    if isinstance(error, Full):
        return StorageFull(
            f"no room left in {where}: {error}", hint="make room or enlarge the storage: nothing is lost, it continues automatically"
        )
    if isinstance(error, StorageError):
        return SinkError(
            f"{where} cannot be read or written: {error}",
            hint="make it exist and be reachable and writable for this process, then start again: nothing accepted is lost",
        )
    return error
