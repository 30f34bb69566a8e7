"""JSON lines (codecs/encode/json_lines.py) back to columns: what the files and the http: sinks write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import msgspec

from sidecar.core.model import Column, TableName
from sidecar.errors import SinkError
from sidecar.process.progress import progressed
from spark_merge.codecs.encode.json_columns import json_columns
from spark_merge.ddl.eras import Era, era_of
from spark_merge.port.readable import RowsRead, Versions
from spark_merge.sinks.row_versions import ranks, rows_read

BLOCK_BYTES = 8 << 20
"""Of lines that are read at a time; a longer one is read alone."""


def line_blocks(file: IO[bytes], end: bytes = b"\n") -> Iterator[bytes]:
    """Whole lines. Raises SinkError for a last one without its end."""
    left = b""
    while data := file.read(BLOCK_BYTES):
        progressed()
        data = left + data
        cut = data.rfind(end) + len(end)
        if cut < len(end):
            left = data
            continue
        left = data[cut:]
        yield data[:cut]
    if left:
        raise SinkError("the last line has no end", hint="restore the file, or deliver to a new output and dump again")


def split_by_era(lines: bytes, found: Sequence[Era]) -> Iterator[tuple[bytes, Era]]:
    """`lines`: of one name, in order of commit_ts. Those of no era are left out."""
    if not lines:
        return
    first, last = (_era_of(line, found) for line in (lines[: lines.index(b"\n")], lines[lines.rfind(b"\n", 0, -1) + 1 :]))
    if first is last:
        if first is not None:
            yield lines, first
        return
    middle = lines.find(b"\n", len(lines) // 2) + 1
    if middle in (0, len(lines)):
        middle = lines.rfind(b"\n", 0, -1) + 1
    yield from split_by_era(lines[:middle], found)
    yield from split_by_era(lines[middle:], found)


class _Place(msgspec.Struct):
    schema: str
    table: str
    commit_ts: str


def _era_of(line: bytes, found: Sequence[Era]) -> Era | None:
    try:
        place = msgspec.json.decode(line, type=_Place)
        return era_of(found, TableName(place.schema, place.table), int(place.commit_ts))
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as error:
        raise SinkError(f"a line is no row: {error}", hint=_RESTORE) from error


def json_rows(lines: bytes, era: Era, *, types: Mapping[str, Column] | None = None) -> RowsRead | None:
    """`lines`: all of `era`. None: there are none. Raises SinkError for what are no such lines."""
    if not lines:
        return None
    names = [one.name for one in era.columns if one.name is not None]
    era.check()
    try:
        _check_columns(lines, era)
        found = json_columns(lines, names)
    except ValueError as error:  # msgspec's are
        raise SinkError(f"lines of {era.name} are no rows: {error}", hint=_RESTORE) from error
    versions = Versions(found.commit_ts, ranks(found.deleted, found.from_dump), found.deleted)
    return rows_read(era, found.images, versions, types=types)


_RESTORE = "restore the output, or deliver to a new one and dump again"


class _Row(msgspec.Struct):
    op: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def _check_columns(lines: bytes, era: Era) -> None:
    """Of the first line: where it has not these columns, polars would read NULL."""
    row = msgspec.json.decode(lines[: lines.index(b"\n")], type=_Row)
    there = (row.before if row.op == "delete" else row.after) or {}
    if missing := [one for one in era.columns if one.name is not None and one.name not in there]:
        raise era.without(missing[0])
