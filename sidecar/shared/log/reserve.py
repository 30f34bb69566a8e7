"""Room of the log's volume that is kept for the day on which it is full: a file beside the log that is given up then.

    full ─► the term ends, its writers are closed ─► given up ─► the worker reports, retention removes ─► taken ─► the log is written on

- Two writers use the room that is given up: the merge worker for its report, and retention for its note. Without it the sinks could accept
  everything, and nobody could record that.
- The owner takes it before it writes anything else, so that no segment and no chunk uses it up.
- It is of volumes only: S3 has no such bound.
"""

from __future__ import annotations

import os

from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder

RESERVE_NAME = "reserve"
RESERVE_BYTES = 1 << 20
"""A report of a hundred sinks has some 500 kB."""


def take(folder: Folder) -> None:
    """Have it; nothing where it is there. Raises StorageFull."""
    if folder.protocol == "file" and not storage.exists(folder, RESERVE_NAME):
        storage.write_atomically(folder, RESERVE_NAME, os.urandom(RESERVE_BYTES))  # zeros take no room where files are compressed


def give_up(folder: Folder) -> None:
    storage.remove(folder, [RESERVE_NAME])
