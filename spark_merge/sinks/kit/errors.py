"""What errors of a storage mean to a sink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sidecar.shared.errors import SinkError, StorageFull
from sidecar.shared.log import storage


@contextmanager
def storage_errors(place: object) -> Iterator[None]:
    try:
        yield
    except storage.Full as error:
        raise StorageFull(
            f"no room left in {place}: {error}", hint="make room or enlarge the storage: nothing is lost, it continues automatically"
        ) from error
    except storage.StorageError as error:
        raise SinkError(
            f"{place} cannot be read or written: {error}",
            hint="make it exist and be reachable and writable for this process, then start again: nothing accepted is lost",
        ) from error
