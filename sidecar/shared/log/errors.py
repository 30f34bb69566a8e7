"""What a storage's errors mean to those who need the log: the one mapping for writing it, reading it and reporting about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from sidecar.shared.errors import LogBroken, LogUnreachable, StorageFull
from sidecar.shared.log import storage


@contextmanager
def storage_errors(place: object) -> Iterator[None]:
    """Raises StorageFull, LogUnreachable (a retry helps for both) or LogBroken for a StorageError; Parquet's errors are LogBroken."""
    try:
        yield
    except storage.Full as error:
        raise StorageFull(
            f"no room left in {place}: {error}",
            hint="make room or enlarge the storage: nothing is lost, it continues automatically",
            place=str(place),
        ) from error
    except storage.Unreachable as error:
        raise LogUnreachable(
            f"{place} cannot be reached: {error}",
            hint="make the storage answer this process (network, credentials, clock, rate limits): nothing is lost, it continues "
            "automatically",
        ) from error
    except storage.Exhausted as error:
        raise LogUnreachable(
            f"{place} cannot be read or written now: {error}",
            hint="see what has many files or connections open, or so much memory, or raise the limit (systemd: LimitNOFILE, MemoryMax): "
            "nothing is lost, it continues automatically",
        ) from error
    except (storage.StorageError, pa.ArrowException) as error:
        raise LogBroken(
            f"{place} cannot be read or written: {error}",
            hint="make it exist and be reachable and writable for this process, then start again: nothing acknowledged is lost",
        ) from error
