"""A sink's folder by its URI: a bare path, `file:///dir`, or `s3://bucket/dir` with the storage's own parameters (shared/log/storage)."""

from __future__ import annotations

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.log.storage.folder import place_problem
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.kit.errors import sink_folder


def folder_of(uri: SinkUri) -> Folder:
    """The folder, whose place nobody has checked."""
    return sink_folder(uri.text)


def checked_folder(uri: SinkUri) -> Folder:
    """Raises SinkError for a URI that names no folder."""
    if problem := place_problem(uri.parts):
        raise SinkError(f"a {uri.parts.scheme or 'file'}: sink {problem[0]}", hint=problem[1])
    return folder_of(uri)


def has_files_of_others(folder: Folder, identity: str, *, probe: str) -> bool:
    """Whether there are files in it, and no output of ours, which has the file `identity`. A worker that begins at this moment writes that
    file before all others but `probe`, so it is looked for last. Raises SinkError."""
    there = any(name != probe and not storage.is_temporary(name) for name in storage.list_names(folder, deep=True))
    return there and not storage.exists(folder, identity)
