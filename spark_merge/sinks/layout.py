"""An output folder: what is in it, under which names, and what its storage's errors mean.

    _log.json                            whose output this is and in which format; before all else
    {table folder}/{seq:020d}.jsonl      all rows of one segment and table, in output order
    {table folder}/{seq:020d}.parquet    the same; -1.parquet, -2.parquet … beside it share the segment's chunks
    _ddl/{seq:020d}.json                 the segment's DDLs, if it has any: they come after all its rows
    _segments/{seq:020d}.json            last, in order of seq: what makes the segment delivered, and which files it has

Readers go by `_segments` and the files named there, never by a listing of tables: a file that no segment names does not
count. Every ts is a decimal string.

A table folder is `{schema}.{table}`. Of both names ASCII letters, digits, `-` and `_` stay and every other byte of the
UTF-8 text is `%XX`, a leading `_` of the schema too: names with an underscore in front are the layout's own, and Spark
and Hive pass over them. So one dot parts the two, and each name is the percent-decoding of its half. Where that is
longer than file systems take, the folder is its beginning, `~` and a hash; the true names are always in `_segments`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import quote

from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]  # botocore ships no types

from sidecar import storage
from sidecar.core.model import CommitTs, Seq, TableName
from sidecar.errors import SinkError, StorageFull
from spark_merge.contract import DeliveredFile

FileFormat = Literal["jsonl", "parquet"]
FILE_FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)

FORMAT_VERSION = 1
IDENTITY = "_log.json"
SEGMENTS = "_segments"
DDLS = "_ddl"

FOLDER_NAME_BYTES_MAX = 200
"""File systems take 255 in one name, the object stores 1024 in the whole path."""

_HEAD_BYTES, _HASH_DIGITS = 150, 32


@dataclass(frozen=True, slots=True)
class DeliveredSegment:
    """`ddl` is the path of the segment's DDLs, None if it has none."""

    seq: Seq
    upto_ts: CommitTs
    files: tuple[DeliveredFile, ...]
    ddl: str | None


def table_folder(table: TableName) -> str:
    schema = _quoted(table.schema)
    name = f"{'%5F' + schema[1:] if schema.startswith('_') else schema}.{_quoted(table.table)}"
    if len(name) <= FOLDER_NAME_BYTES_MAX:
        return name
    return f"{name[:_HEAD_BYTES]}~{hashlib.sha256(name.encode()).hexdigest()[:_HASH_DIGITS]}"


def file_path(table: TableName, seq: int, file_format: FileFormat, *, part: int = 0) -> str:
    return f"{table_folder(table)}/{seq:020d}{f'-{part}' if part else ''}.{file_format}"


def segment_path(seq: int) -> str:
    return f"{SEGMENTS}/{seq:020d}.json"


def ddl_path(seq: int) -> str:
    return f"{DDLS}/{seq:020d}.json"


def seq_of(name: str) -> Seq | None:
    """The segment that a file name (without folder) is of; None for a name that is not the layout's."""
    stem, _, _ = name.partition(".")[0].partition("-")
    return Seq(int(stem)) if len(stem) == 20 and stem.isascii() and stem.isdigit() else None


def segment_to_json(segment: DeliveredSegment) -> bytes:
    return _json(
        {
            "version": FORMAT_VERSION,
            "seq": segment.seq,
            "upto_ts": str(segment.upto_ts),
            "files": [
                {
                    "path": file.path,
                    "schema": file.table.schema,
                    "table": file.table.table,
                    "from_log": file.from_log,
                    "from_dump": file.from_dump,
                    "dropped": file.dropped,
                }
                for file in segment.files
            ],
            "ddl": segment.ddl,
            "counts": {
                "from_log": sum(file.from_log for file in segment.files),
                "from_dump": sum(file.from_dump for file in segment.files),
                "dropped": sum(file.dropped for file in segment.files),
            },
        }
    )


def segment_from_json(data: bytes, *, name: str) -> DeliveredSegment:
    """The inverse. Raises SinkError naming the file for broken JSON, a missing field or a newer format version."""
    try:
        found = json.loads(data)
        _check_version(found["version"], name)
        return DeliveredSegment(
            seq=Seq(int(found["seq"])),
            upto_ts=CommitTs(int(found["upto_ts"])),
            files=tuple(
                DeliveredFile(f["path"], TableName(f["schema"], f["table"]), int(f["from_log"]), int(f["from_dump"]), int(f["dropped"]))
                for f in found["files"]
            ),
            ddl=found["ddl"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(name, error) from error


def ddls_to_json(seq: int, ddls: tuple[tuple[int, str, str, str], ...]) -> bytes:
    """`ddls` as in SegmentHead."""
    records = [{"commit_ts": str(ts), "schema": schema, "table": table, "query": query} for ts, schema, table, query in ddls]
    return _json({"version": FORMAT_VERSION, "seq": seq, "ddls": records})


def identity_to_json(log_id: str, file_format: FileFormat) -> bytes:
    return _json({"version": FORMAT_VERSION, "log_id": log_id, "format": file_format})


def identity_from_json(data: bytes, *, name: str) -> tuple[str, str]:
    """(log id, format). Raises SinkError naming the file."""
    try:
        found = json.loads(data)
        _check_version(found["version"], name)
        return str(found["log_id"]), str(found["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(name, error) from error


@contextmanager
def storage_errors(place: object) -> Iterator[None]:
    """Translate the storage's errors, by errno and error code."""
    try:
        yield
    except (OSError, BotoCoreError) as error:
        if storage.is_full(error):
            raise StorageFull(
                f"no room left in {place}: {error}", hint="make room or enlarge the storage: nothing is lost, it goes on by itself"
            ) from error
        raise SinkError(
            f"{place} cannot be read or written: {error!r}",
            hint="make it exist and be reachable and writable for this process, then start again: nothing accepted is lost",
        ) from error


def _quoted(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E").replace("~", "%7E")


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _check_version(version: object, name: str) -> None:
    if version != FORMAT_VERSION:
        raise SinkError(
            f"{name} has format version {version}, this ticdc-dump knows {FORMAT_VERSION}",
            hint="run the version that wrote it, or deliver to a new folder",
        )


def _unreadable(name: str, error: Exception) -> SinkError:
    return SinkError(f"{name} is not readable: {error!r}", hint="restore it, or deliver to a new folder from the log's beginning")
