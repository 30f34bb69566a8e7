"""An output folder: what is in it, under which names.

    _log.json                     whose output this is, in which format, and the constants of its units; before all else
    {table folder}/{seq:020d}.{writer}.jsonl          all rows of one segment and table, in output order
    {table folder}/{seq:020d}[-{part}].{writer}.parquet   live rows of one segment and table; part 1, 2 … `chunk_parts` share the
                                                          segment's chunks, those after them its further live rows
    _ddl/{seq:020d}.json          the segment's DDLs, if it has any: they come after all its rows
    _commits/{number:020d}.json   created exclusively, one after another: an owner opened the output, or accepted segments. The last one is
                                  THE POSITION; all but the last few are removed
    _segments/{seq:020d}.json     what is accepted, a file a segment, in order of seq: what readers go by; made of the commit
    _certificates/{dump_id}.json  of a dump that has a certificate in the log: its sum, and those of the `_segments` of the dump
    _head.json                    that there are commits: where it is and none of them, they are lost
    _exclusive.probe              that this storage lets a file be created once only was tried with it

Readers go by `_segments` and the files named there, never by a listing of tables: a file that no segment names does not
count. Every ts is a decimal string. A `{writer}` is `{owner's epoch}-{incarnation}-{attempt}`: no two tries share a name.

A table folder is `{schema}.{table}`. Of both names ASCII letters, digits, `-` and `_` stay and every other byte of the
UTF-8 text is `%XX`, a leading `_` of the schema too: names with an underscore in front are the layout's own, and Spark
and Hive pass over them. So one dot parts the two, and each name is the percent-decoding of its half. Where that is
longer than file systems take, the folder is its beginning, `~` and a hash; the true names are always in `_segments`.

Version 1 (up to 0.1.0) had no commits and no writers in names. It is continued: its `_segments` say how far it is, its files are nobody's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import quote

from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import CommitTs, OperationId, Seq, TableName
from sidecar.shared.model.progress import DumpState, SegmentDump
from spark_merge.merge.cut import LIVE_PART_ROWS
from spark_merge.port.contract import Owner
from spark_merge.sinks.kit.records import JsonRecord

FileFormat = Literal["jsonl", "parquet"]
FILE_FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)

SEGMENT_VERSION = 1
"""Of `_segments` and `_ddl`."""
FORMAT_VERSION = 2
"""Of the folder: `_log.json`, `_commits`, `_head.json`."""
IDENTITY = "_log.json"
HEAD = "_head.json"
PROBE = "_exclusive.probe"
COMMITS = "_commits"
SEGMENTS = "_segments"
DDLS = "_ddl"
CERTIFICATES = "_certificates"

FOLDER_NAME_BYTES_MAX = 200
"""File systems take 255 in one name, the object stores 1024 in the whole path."""

CHUNK_PARTS: dict[FileFormat, int] = {"jsonl": 0, "parquet": 16}
LIVE_PARTS: dict[FileFormat, int] = {"jsonl": 0, "parquet": LIVE_PART_ROWS}
"""A JSON lines file is in output order, so it has all of a segment and table; Parquet's rows carry their order, so tasks may share the
chunks, and a large segment's live rows. 16: a large dump keeps that many cores busy. A folder keeps what it began with."""

_COUNTS = ("from_log", "from_dump", "dropped")
_HEAD_BYTES, _HASH_DIGITS = 150, 32
_WRITER = re.compile(r"\.(\d+)-(\d+)-[0-9a-f]+\.(?:jsonl|parquet|frames)")


@dataclass(frozen=True, slots=True)
class DeliveredFile:
    """One file of a segment and table; `path` is relative to the output. Its rows are `from_log + from_dump`; `dropped`
    are rows of chunks whose key was touched in the window. `sha256`: of its bytes, in hex; empty in outputs of 0.4 and before."""

    path: str
    table: TableName
    from_log: int
    from_dump: int
    dropped: int
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class DeliveredSegment:
    """`ddl` is the path of the segment's DDLs, None if it has none. `manifest`: `Manifest.id` of the log's segment; empty in what
    0.2.0 and before wrote. `bytes_so_far`: of the files of all segments up to and with this one, and `accepted_ms` the wall clock: for an
    output that is kept within bounds, else 0. `dump`: the states of the dumps, None before the log's first one. `ddl_sha256`: of the file
    `ddl`; empty without one, and in outputs of 0.4 and before."""

    seq: Seq
    upto_ts: CommitTs
    files: tuple[DeliveredFile, ...]
    ddl: str | None
    manifest: str = ""
    bytes_so_far: int = 0
    accepted_ms: int = 0
    dump: SegmentDump | None = None
    ddl_sha256: str = ""


@dataclass(frozen=True, slots=True)
class FolderIdentity:
    """The constants of its units (spark_merge/merge/cut.py::units): `chunk_parts`, `live_part_rows`."""

    log_id: str
    file_format: str
    chunk_parts: int
    live_part_rows: int
    version: int = FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class FolderCommit:
    """`by`: as of `CommittedOutput.next`. `accepted`: the last segment that is accepted from here on. `segments`: those that this one
    accepts; none: `owner` opened. `first`: the first segment that the output ever accepted, None before it; and where 0.4 or before began
    the output, for it did not say."""

    number: int
    owner: Owner
    by: str
    accepted: Seq | None
    segments: tuple[DeliveredSegment, ...] = ()
    first: Seq | None = None


def table_folder(table: TableName) -> str:
    schema = _quoted(table.schema)
    name = f"{'%5F' + schema[1:] if schema.startswith('_') else schema}.{_quoted(table.table)}"
    if len(name) <= FOLDER_NAME_BYTES_MAX:
        return name
    return f"{name[:_HEAD_BYTES]}~{hashlib.sha256(name.encode()).hexdigest()[:_HASH_DIGITS]}"


def file_path(table: TableName, seq: int, file_format: str, *, part: int, owner: Owner, attempt: str) -> str:
    """`attempt`: lower-case hex, another one whenever a task runs."""
    place = f"{seq:020d}{f'-{part}' if part else ''}"
    return f"{table_folder(table)}/{place}.{owner.epoch}-{owner.incarnation}-{attempt}.{file_format}"


def segment_path(seq: int) -> str:
    return f"{SEGMENTS}/{seq:020d}.json"


def ddl_path(seq: int) -> str:
    return f"{DDLS}/{seq:020d}.json"


def certificate_path(dump_id: OperationId) -> str:
    return f"{CERTIFICATES}/{dump_id}.json"


def owner_of(name: str) -> Owner:
    """Who wrote, or is writing, the file of a table folder; nobody, (-1, 0), for one of version 1."""
    match = _WRITER.search(name)
    return Owner(int(match[1]), int(match[2])) if match else Owner(-1, 0)


def part_of(name: str) -> int:
    part = name.rpartition("/")[2].partition(".")[0].partition("-")[2]
    return int(part) if part else 0


def seq_of(name: str) -> Seq | None:
    """The segment that a file name (without folder) is of; None for a name that is not the layout's."""
    stem, _, _ = name.partition(".")[0].partition("-")
    return Seq(int(stem)) if len(stem) == 20 and stem.isascii() and stem.isdigit() else None


def _segment_to_plain(segment: DeliveredSegment) -> dict[str, Any]:
    kept: dict[str, Any] = {"bytes_so_far": segment.bytes_so_far, "accepted_ms": segment.accepted_ms} if segment.accepted_ms else {}
    kept |= {} if segment.dump is None else {"dump": segment.dump.to_json()}
    kept |= {"ddl_sha256": segment.ddl_sha256} if segment.ddl_sha256 else {}
    return kept | {
        "version": SEGMENT_VERSION,
        "seq": segment.seq,
        "upto_ts": str(segment.upto_ts),
        "manifest": segment.manifest,
        "files": list(map(_file_to_plain, segment.files)),
        "ddl": segment.ddl,
        "counts": {name: sum(getattr(file, name) for file in segment.files) for name in _COUNTS},
    }


def _file_to_plain(file: DeliveredFile) -> dict[str, Any]:
    plain = {"path": file.path, "schema": file.table.schema, "table": file.table.table} | {name: getattr(file, name) for name in _COUNTS}
    return plain | ({"sha256": file.sha256} if file.sha256 else {})


def _segment_of(value: Any) -> DeliveredSegment:
    if value["version"] != SEGMENT_VERSION:  # of one in a commit, whose own version says nothing of it
        raise ValueError(f"a segment of version {value['version']}")
    files = tuple(
        DeliveredFile(
            f["path"], TableName(f["schema"], f["table"]), **{name: int(f[name]) for name in _COUNTS}, sha256=str(f.get("sha256", ""))
        )
        for f in value["files"]
    )
    return DeliveredSegment(
        seq=Seq(int(value["seq"])),
        upto_ts=CommitTs(int(value["upto_ts"])),
        files=files,
        ddl=value["ddl"],
        manifest=str(value.get("manifest", "")),
        bytes_so_far=int(value.get("bytes_so_far", 0)),
        accepted_ms=int(value.get("accepted_ms", 0)),
        dump=_dump_of(value["dump"]) if "dump" in value else None,
        ddl_sha256=str(value.get("ddl_sha256", "")),
    )


def _dump_of(value: Any) -> SegmentDump:
    complete, others = tuple(TableName(*table) for table in value["complete"]), tuple(map(_dump_of, value.get("others", ())))
    return SegmentDump(value["dump_id"], DumpState(value["state"]), complete, others)


def _commit_to_plain(commit: FolderCommit) -> dict[str, Any]:
    return {
        "version": FORMAT_VERSION,
        "number": commit.number,
        "owner": list(commit.owner),
        "by": commit.by,
        "accepted": commit.accepted,
        "first": commit.first,
        "segments": list(map(_segment_to_plain, commit.segments)),
    }


def _commit_of(value: Any) -> FolderCommit:
    owner = Owner(*map(int, value["owner"]))
    accepted, first = (None if seq is None else Seq(int(seq)) for seq in (value["accepted"], value.get("first")))
    return FolderCommit(int(value["number"]), owner, str(value["by"]), accepted, tuple(map(_segment_of, value["segments"])), first)


class SegmentDdls(NamedTuple):
    seq: int
    ddls: Sequence[DdlRecord]


def _ddls_to_plain(of: SegmentDdls) -> dict[str, Any]:
    records = [{"commit_ts": str(d.commit_ts), "schema": d.schema, "table": d.table, "query": d.query} for d in of.ddls]
    return {"version": SEGMENT_VERSION, "seq": of.seq, "ddls": records}


def _ddls_of(value: Any) -> SegmentDdls:
    return SegmentDdls(value["seq"], [DdlRecord(CommitTs(int(d["commit_ts"])), d["schema"], d["table"], d["query"]) for d in value["ddls"]])


def _identity_to_plain(identity: FolderIdentity) -> dict[str, Any]:
    return {
        "version": identity.version,
        "log_id": identity.log_id,
        "format": identity.file_format,
        "chunk_parts": identity.chunk_parts,
        "live_part_rows": identity.live_part_rows,
    }


def _identity_of(value: Any) -> FolderIdentity:
    chunk_parts, live_part_rows = (int(value.get(name, 0)) for name in ("chunk_parts", "live_part_rows"))
    return FolderIdentity(str(value["log_id"]), str(value["format"]), chunk_parts, live_part_rows, int(value["version"]))


_HINT = "restore it, or deliver to a new folder from the log's beginning"

SEGMENT = JsonRecord(_segment_to_plain, _segment_of, (SEGMENT_VERSION,), _HINT)
DDLS_OF_SEGMENT = JsonRecord(_ddls_to_plain, _ddls_of, (SEGMENT_VERSION,), _HINT)
COMMIT = JsonRecord(_commit_to_plain, _commit_of, (FORMAT_VERSION,), _HINT)
LOG = JsonRecord(_identity_to_plain, _identity_of, (1, FORMAT_VERSION), _HINT)
HEAD_NUMBER: JsonRecord[int] = JsonRecord(
    lambda number: {"version": FORMAT_VERSION, "number": number}, lambda value: int(value["number"]), (FORMAT_VERSION,)
)


def _quoted(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E").replace("~", "%7E")
