"""Reading a files sink's output back (JSON lines): what verify does, and what a consumer may copy.

Only segments with a `_segments` entry count, in order of seq; of a segment the rows of each table's file in its order,
then its DDLs. Anything that is not as it was accepted raises SinkError: a gap, a file that is gone, cut or too long.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from spark_merge.sinks.folder.layout import SEGMENT, SEGMENTS, DeliveredFile, DeliveredSegment, segment_path
from spark_merge.sinks.kit.chain import NumberedFiles

SEGMENTS_HELD_MAX = 64
"""Decoded at once: one with files of twenty tables takes 15 kB."""

_RESTORE = "restore the folder, or deliver to a new one from the log's beginning"


def read_output(folder: Folder) -> Iterator[dict[str, Any]]:
    """All delivered rows (the fields are json_lines'): by seq, then table, then output order."""
    for segment in read_segments(folder):
        for file in segment.files:
            yield from read_rows(folder, file)


def read_segments(folder: Folder) -> list[DeliveredSegment]:
    """The delivered segments in order of seq, without a gap; empty when nothing has been delivered."""
    return list(segments_of(folder, delivered_seqs(folder)))


def delivered_seqs(folder: Folder) -> list[int]:
    """Those of the delivered segments, rising by one."""
    seqs = NumberedFiles(folder, SEGMENTS, ".json").numbers()
    for before, after in pairwise(seqs):
        if after != before + 1:
            raise SinkError(f"{folder}: segment {before + 1} is missing, {after} is there", hint=_RESTORE)
    return seqs


def segments_of(folder: Folder, seqs: Sequence[int]) -> Iterator[DeliveredSegment]:
    """These, in their order, and not all of them in memory."""
    for start in range(0, len(seqs), SEGMENTS_HELD_MAX):
        paths = [segment_path(seq) for seq in seqs[start : start + SEGMENTS_HELD_MAX]]
        segments = SEGMENT.read_all(folder, paths)
        if gone := len(paths) - len(segments):
            raise SinkError(f"{folder}: {gone} segments went away while they were read", hint=_RESTORE)
        yield from segments.values()
        del segments


def read_rows(folder: Folder, file: DeliveredFile) -> list[dict[str, Any]]:
    """One file's rows in output order."""
    if not file.path.endswith(".jsonl"):
        raise SinkError(f"{folder}/{file.path} is not JSON lines", hint="read Parquet output with a Parquet reader")
    lines = storage.read_file(folder, file.path).split(b"\n")
    if lines[-1] != b"" or len(lines) - 1 != file.from_log + file.from_dump:
        raise SinkError(
            f"{folder}/{file.path} has {len(lines) - 1} whole lines, its segment says {file.from_log} + {file.from_dump}", hint=_RESTORE
        )
    try:
        return [json.loads(line) for line in lines[:-1]]
    except ValueError as error:
        raise SinkError(f"{folder}/{file.path} is not JSON lines: {error}", hint=_RESTORE) from error
