"""Reading a files sink's output back (JSON lines): what verify does, and what a consumer may copy.

Only segments with a `_segments` entry count, in order of seq; of a segment the rows of each table's file in its order,
then its DDLs. Anything that is not as it was accepted raises SinkError: a gap, a file that is gone, cut or too long.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from sidecar.errors import SinkError
from sidecar.log import storage
from sidecar.log.storage import Folder
from spark_merge.sinks.chain import NumberedFiles
from spark_merge.sinks.errors import storage_errors
from spark_merge.sinks.folder.layout import SEGMENT, SEGMENTS, DeliveredFile, DeliveredSegment, segment_path

_RESTORE = "restore the folder, or deliver to a new one from the log's beginning"


def read_output(folder: Folder) -> Iterator[dict[str, Any]]:
    """All delivered rows (the fields are json_lines'): by seq, then table, then output order."""
    for segment in read_segments(folder):
        for file in segment.files:
            yield from read_rows(folder, file)


def read_segments(folder: Folder) -> list[DeliveredSegment]:
    """The delivered segments in order of seq, without a gap; empty when nothing has been delivered."""
    seqs = NumberedFiles(folder, SEGMENTS, ".json").numbers()
    for before, after in pairwise(seqs):
        if after != before + 1:
            raise SinkError(f"{folder}: segment {before + 1} is missing, {after} is there", hint=_RESTORE)
    segments = SEGMENT.read_all(folder, map(segment_path, seqs))
    if len(segments) != len(seqs):
        raise SinkError(f"{folder}: {len(seqs) - len(segments)} segments went away while they were read", hint=_RESTORE)
    return list(segments.values())


def read_rows(folder: Folder, file: DeliveredFile) -> list[dict[str, Any]]:
    """One file's rows in output order."""
    if not file.path.endswith(".jsonl"):
        raise SinkError(f"{folder}/{file.path} is not JSON lines", hint="read Parquet output with a Parquet reader")
    with storage_errors(f"{folder}/{file.path}"):
        lines = storage.read_file(folder, file.path).split(b"\n")
    if lines[-1] != b"" or len(lines) - 1 != file.from_log + file.from_dump:
        raise SinkError(
            f"{folder}/{file.path} has {len(lines) - 1} whole lines, its segment says {file.from_log} + {file.from_dump}", hint=_RESTORE
        )
    try:
        return [json.loads(line) for line in lines[:-1]]
    except ValueError as error:
        raise SinkError(f"{folder}/{file.path} is not JSON lines: {error}", hint=_RESTORE) from error
