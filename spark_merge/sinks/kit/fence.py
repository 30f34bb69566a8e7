"""What every sink checks of an output before it continues: that it is this log's, that its next segment comes, that nobody else has it."""

from __future__ import annotations

from sidecar.shared.errors import OwnershipLost, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.identity import continues
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Seq

ANOTHER_FOLDER = "deliver a new log to a new folder, and dump again; or set log.uri back to the log that the output is of"
"""What an operator does who meets another log's output in a folder."""


def check_log(place: object, value: str, mine: str, *, hint: str) -> None:
    """Raises SinkError where `place` has the output of another log than `mine`; `hint`: how a place of its own is named."""
    if not continues(value, mine):
        raise SinkError(f"{place} holds the output of log {value}, this is log {mine}", hint=hint)


def check_next(place: object, after: Seq | None, first: Seq) -> None:
    """Raises SinkError for a gap or a step back."""
    if after is not None and first != after + 1:
        raise SinkError(
            f"{place} has accepted segment {after} and is given {first}",
            hint="start the merge worker again; if it repeats, report it: this is a defect of ticdc-dump",
        )


def check_exclusive(folder: Folder, probe: str) -> None:
    """Raises SinkError where commits that are created exclusively would not shut out an earlier owner."""
    exclusive = storage.keeps_exclusive(folder, probe)
    if not exclusive:
        raise SinkError(
            f"{folder} lets a file be created twice, so an earlier worker could overwrite the output",
            hint="use a storage that honours `If-None-Match: *` (S3, MinIO), or a local or network file system",
        )


def taken(place: object) -> OwnershipLost:
    return OwnershipLost(
        f"another merge worker has opened {place} after this one: this one accepts nothing any more",
        hint="nothing, if it was started in this one's place; else stop one of them: one log has one worker",
    )
