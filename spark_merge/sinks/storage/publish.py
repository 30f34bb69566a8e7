"""How what a commit accepts appears to readers. The order carries weight; a death between any two repeats harmlessly:

    schema files that rows need → the rows' files, in order of their numbers → indexes → the DDLs' schema files → metadata → staged files go

- A file comes whole, under a name that nobody else has, and never changes: it is another name of what a task staged (S3: a copy).
- An index names only what is there, and the checkpoint comes when all up to it is there: a reader that goes by either sees no beginning
  of a batch. One that goes by the files alone (TiCDC's classic consumer) finds their numbers without a gap.
- Schema files and the rows' files may be written by an earlier worker that wakes up: they are what they are. Before what is overwritten,
  indexes and checkpoint, it looks whether it is the last one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from spark_merge.port.contract import Accepted
from spark_merge.sinks.storage.layout import CHECKPOINT, index_of
from spark_merge.sinks.storage.names import Named


def publish(folder: Folder, named: Named, accepted: Accepted | None, check_last: Callable[[], None]) -> None:
    """What a commit says; `check_last` raises OwnershipLost where there is a later one. May be done again, and by several at once."""
    _create(folder, named.before)
    _copy(folder, named, accepted)
    check_last()
    storage.write_all(folder, dict(index_of(path) for _, path in named.files))
    _create(folder, named.after)
    check_last()
    if accepted is not None:
        storage.write_atomically(folder, CHECKPOINT, json.dumps({"checkpoint-ts": accepted.upto_ts}, separators=(",", ":")).encode())
    storage.remove(folder, [staged for staged, _ in named.files])


def _copy(folder: Folder, named: Named, accepted: Accepted | None) -> None:
    """Where a staged file is gone, all had appeared: readers may have removed what they have read."""
    if _copied(folder, named.files) or (accepted is not None and _checkpoint(folder) >= int(accepted.upto_ts or 0)):
        return
    left = [(staged, path) for staged, path in named.files if not storage.exists(folder, path)]
    if not _copied(folder, left):
        raise SinkError(
            f"{folder}: of a batch that is accepted neither {left[0][0]} nor {left[0][1]} is there",
            hint="restore the folder, or deliver to a new one, and dump again",
        )


def _copied(folder: Folder, names: Sequence[tuple[str, str]]) -> bool:
    """False where one of the first names is gone."""
    try:
        storage.copy_files(folder, names)
    except SinkError as error:
        if isinstance(error.__cause__, storage.Absent):
            return False
        raise
    return True


def _checkpoint(folder: Folder) -> int:
    data = storage.read_files(folder, [CHECKPOINT]).get(CHECKPOINT)
    return 0 if data is None else int(json.loads(data)["checkpoint-ts"])


def _create(folder: Folder, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        if not storage.create_exclusively(folder, path, text.encode()):
            raise SinkError(f"{folder}/{path} is there, and is not what is to be written", hint="deliver to a new folder, and dump again")
