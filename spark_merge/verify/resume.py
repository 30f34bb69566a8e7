"""What a comparison of a table has done, so that the next worker does not read these ranges of the source again.

    {path}/progress.json    where it is: position, ranges, files of digests       {path}/moving.arrow    the keys that are moving by then

- The keys are written first. With more of them than the position needs, a comparison is right, too.
- It counts only with all of its files. What it does not name is read again, and files of the same name are replaced.
- The segments after `seq` are still to be followed: they are kept by the report's `needs_from`.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec
import polars
import pyarrow as pa

from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.log.verification import TableReport
from sidecar.shared.model.nouns import TableSchema
from spark_merge.verify.moving import Moving

_KEYS = pa.schema([("key", pa.string())])


class CheckProgress(msgspec.Struct):
    """`schema`: the table's, as `schema_text`. The sink's rows are of segment `accepted` or later, which ends at `low_ts`. The log is
    followed to `seq`, which ends at `upto_ts`, and must be followed to `high_ts`. `rows`: of the table, about. `ranges`: of the source,
    after and upper key; `done` of them are read. `sink_files`, `source_files`: of digests, by bucket;
    `digests`: what made them, `digested`: how many there are of both sides. `look`, `look_ms`, `pending`: as of TableReport; another worker
    looks again from the first one on, at buckets of these digests."""

    schema: str
    accepted: int
    low_ts: int
    rows: int
    by_keys: bool
    buckets: int
    ranges: list[tuple[tuple[str, ...], tuple[str, ...]]]
    report: TableReport
    sink_files: list[str] = []
    source_files: list[str] = []
    done: int = 0
    high_ts: int = 0
    seq: int = 0
    upto_ts: int = 0
    digests: str = ""
    digested: int = 0
    look: int = 0
    look_ms: int = 0
    pending: int = 0


DIGESTS = f"polars {polars.__version__}"
"""Digests of rows are equal within one version (digest.py)."""


def schema_text(schema: TableSchema) -> str:
    return repr(schema.undefined())


def save(folder: Folder, path: str, progress: CheckProgress, moving: Moving, *, fresh: Collection[str]) -> None:
    """`fresh`: files of digests that are not durable yet. Raises as the storage."""
    assert moving.seq is not None
    progress.seq, progress.upto_ts, progress.digests = moving.seq, moving.upto_ts, DIGESTS
    keys = pa.table([moving.keys], schema=_KEYS)
    storage.make_durable(folder, sorted(fresh))
    with storage.new_file(folder, _keys_name(path), durable=True) as out, pa.ipc.new_file(out, _KEYS) as writer:
        writer.write_table(keys)
    storage.write_atomically(folder, _name(path), msgspec.json.encode(progress))


def note_look(folder: Folder, path: str, report: TableReport) -> None:
    """Of a comparison that is saved: its next look begins. Raises as the storage."""
    progress = msgspec.json.decode(storage.read_file(folder, _name(path)), type=CheckProgress)
    progress.look, progress.look_ms, progress.pending = report.look, report.look_ms, report.pending
    storage.write_atomically(folder, _name(path), msgspec.json.encode(progress))


def load(folder: Folder, path: str) -> tuple[CheckProgress, pa.Array] | None:
    """With the moving keys. None: there is nothing to continue with. Raises as the storage."""
    there = {name for name in storage.list_names(folder, deep=True, beginning=f"{path}/") if name.startswith(f"{path}/")}
    if not {_name(path), _keys_name(path)} <= there:
        return None
    try:
        progress = msgspec.json.decode(storage.read_file(folder, _name(path)), type=CheckProgress)
    except (ValueError, RecursionError):
        return None  # it is written again
    if progress.digests != DIGESTS or not {*progress.sink_files, *progress.source_files} <= there:
        return None
    with storage.open_to_read(folder, _keys_name(path)) as file, pa.ipc.open_file(file) as reader:
        return progress, reader.read_all()["key"].combine_chunks()


def saved_in(folder: Folder, path: str) -> set[str]:
    """Of the folders below `path` those from which a comparison may continue. Raises as the storage."""
    names = storage.list_names(folder, deep=True, beginning=f"{path}/")
    return {match[1] for name in names if (match := re.fullmatch(rf"{re.escape(path)}/([^/]+)/progress\.json", name))}


def forget(folder: Folder, path: str) -> None:
    """Nothing is continued with. Raises as the storage."""
    storage.remove(folder, [_name(path)])


def _name(path: str) -> str:
    return f"{path}/progress.json"


def _keys_name(path: str) -> str:
    return f"{path}/moving.arrow"
