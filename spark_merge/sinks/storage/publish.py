"""How what a commit accepts appears to readers. The order carries weight; a death between any two repeats harmlessly:

    schema files that rows need → the rows' files, in order of their numbers → indexes → the DDLs' schema files → metadata → staged files go

- A file comes whole, under a name that nobody else has, and never changes: it is another name of what a task staged (S3: a copy).
- An index names only what is there, and the checkpoint comes when all up to it is there: a reader that goes by either sees no beginning
  of a batch. One that goes by the files alone (TiCDC's classic consumer) finds their numbers without a gap.
- Schema files and the rows' files may be written by a former worker that wakes up: they are what they are. Before what is overwritten,
  indexes and checkpoint, it looks whether it is the last one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from sidecar.errors import SinkError
from sidecar.log import storage
from sidecar.log.storage import Folder
from spark_merge.sinks.files.layout import storage_errors
from spark_merge.sinks.storage.commits import Commit, Commits
from spark_merge.sinks.storage.layout import CHECKPOINT, index_of


def publish(folder: Folder, commits: Commits, commit: Commit) -> None:
    """May be done again, and by several at once. Raises OwnershipLost where there is a later commit."""
    with storage_errors(folder):
        _create(folder, commit.named.before)
        _copy(folder, commit)
        commits.check_last(commit.number)
        storage.write_all(folder, dict(index_of(path) for _, path in commit.named.files))
        _create(folder, commit.named.after)
        commits.check_last(commit.number)
        if commit.accepted is not None:
            storage.write_atomically(
                folder, CHECKPOINT, json.dumps({"checkpoint-ts": commit.accepted.upto_ts}, separators=(",", ":")).encode()
            )
        storage.remove(folder, [staged for staged, _ in commit.named.files])


def _copy(folder: Folder, commit: Commit) -> None:
    """Where a staged file is gone, all had appeared: readers may have removed what they have read."""
    try:
        storage.copy_files(folder, commit.named.files)
        return
    except storage.Absent:
        if commit.accepted is not None and _checkpoint(folder) >= int(commit.accepted.upto_ts or 0):
            return
    left = [(staged, path) for staged, path in commit.named.files if not storage.exists(folder, path)]
    try:
        storage.copy_files(folder, left)
    except storage.Absent as error:
        raise SinkError(
            f"{folder}: of a batch that is accepted neither {left[0][0]} nor {left[0][1]} is there",
            hint="restore the folder, or deliver to a new one, and dump again",
        ) from error


def _checkpoint(folder: Folder) -> int:
    found = storage.read_files(folder, [CHECKPOINT]).get(CHECKPOINT)
    return 0 if found is None else int(json.loads(found)["checkpoint-ts"])


def _create(folder: Folder, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        if not storage.create_exclusively(folder, path, text.encode()):
            raise SinkError(f"{folder}/{path} is there, and is not what is to be written", hint="deliver to a new folder, and dump again")
