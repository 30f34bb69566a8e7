"""The row events of a recording of TiDB-Binlog, merged and folded, with the versions that its tables had."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sidecar.shared.codecs.binlog import BinlogCodec
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Message, PreviousLayout, TableName, TableSchema
from sidecar.shared.rowcodec.binlog_fold import folded
from sidecar.shared.rowcodec.kv_layout import kv_table_of, layout_of
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from tests.support.recordings import recording, whole_set
from ticdc_dump.binlog.binlog_pb2 import Binlog

COMPACT = ("binlog", "binlog-ddl2", "binlog-faults", "binlog-dups")
"""A bare clone has copies of these."""
WHOLE = (*COMPACT, "binlog-ddl", "binlog-stuck", "binlog-ignore", "binlog-totidb") if whole_set() else COMPACT

Row = tuple[str | None, ...]


def unmarked() -> KvTable:
    """For codecs of which no mark is requested."""
    raise AssertionError("no mark was expected")


def frames(path: Path) -> Iterator[bytes]:
    """Payloads as a pump answered them."""
    data, at = gzip.decompress(path.read_bytes()), 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


@dataclass(frozen=True)
class _Version:
    """Holds from DDL `commit_ts` on, for rows of `schema_version` and above."""

    commit_ts: int
    schema_version: int
    schema: str
    info: dict[str, Any]


@dataclass(frozen=True)
class BinlogRecording:
    """`changes`: of user tables and the watermark table from `start_ts` to `end_ts`, folded, in order."""

    folder: Path
    start_ts: int
    end_ts: int
    truths: tuple[int, ...]
    changes: tuple[Change, ...]
    versions: dict[str, list[_Version]]
    schemas: dict[str, list[TableSchema]]

    def schema(self, table_id: str, commit_ts: int) -> TableSchema | None:
        """As the log has it for a segment with this commit_ts."""
        known = sum(version.commit_ts < commit_ts for version in self.versions.get(table_id, ()))
        return self.schemas[table_id][known - 1] if known else None

    def tables_at(self, ts: int) -> Iterator[tuple[str, TableSchema, int, list[Row]]]:
        """Table id, schema, when it was last changed, and the true rows: of every table with a key that is there at `ts`."""
        by_name: dict[TableName, tuple[int, str, TableSchema]] = {}
        for table_id, versions in self.versions.items():
            schema, since = (
                self.schema(table_id, ts + 1),
                max([version.commit_ts for version in versions if version.commit_ts <= ts] or [0]),
            )
            if schema is not None:
                by_name[schema.name] = max(by_name.get(schema.name, (-1, "", schema)), (since, table_id, schema), key=lambda one: one[0])
        for name, (since, table_id, schema) in by_name.items():
            path = self.folder / "truth" / str(ts) / f"{name}.parquet"
            if path.is_file() and schema.key:
                yield table_id, schema, since, _truth(path, schema.column_names())


def _schema(known: list[_Version]) -> TableSchema:
    layouts = [layout_of(1, version.info, new_collation=True) for version in known]
    previous = PreviousLayout(known[-1].schema_version, layouts[-2]) if len(known) > 1 else None
    return replace(kv_table(known[-1].info, schema=known[-1].schema).schema, layout=layouts[-1], former=previous)


def _truth(path: Path, columns: tuple[str, ...]) -> list[Row]:
    table = pq.read_table(path)
    return list(zip(*(table[name].to_pylist() for name in columns), strict=True))


@cache
def binlog_recording(name: str) -> BinlogRecording:
    folder = recording(name)
    reported = json.loads((folder / "recording.json").read_bytes())
    start_ts, end_ts = int(reported["start_ts"]), int(reported["end_ts"])
    codec = BinlogCodec(unmarked)
    by_ts: dict[int, list[Change]] = {}
    ddls: dict[int, int] = {}
    for path in sorted((folder / "pumps").glob("*.bin.gz")):
        for payload in frames(path):
            result = Binlog.FromString(payload)
            if result.ddl_job_id:
                ddls[result.ddl_job_id] = max(result.commit_ts, ddls.get(result.ddl_job_id, 0))  # DROP COLUMN has two
            elif start_ts < result.commit_ts <= end_ts:
                envelopes = codec.envelopes(Message(Lane(path.name), result.commit_ts, None, payload))
                by_ts[result.commit_ts] = [one for one in envelopes if isinstance(one, Change)]
    versions = _versions(folder, start_ts, ddls)
    changes = [change for ts in sorted(by_ts) for change in sorted(by_ts[ts], key=lambda change: change.rank)]
    schemas = {table_id: [_schema(known[: count + 1]) for count in range(len(known))] for table_id, known in versions.items()}
    net = folded(changes, {table_id: kv_table_of(results[0]) for table_id, results in schemas.items()}.get)
    return BinlogRecording(folder, start_ts, end_ts, tuple(map(int, reported["truth"])), tuple(net), versions, schemas)


def _versions(folder: Path, start_ts: int, ddls: dict[int, int]) -> dict[str, list[_Version]]:
    """By table id: as at the start, then after each job that is done."""
    versions: dict[str, list[_Version]] = {}
    for path in sorted((folder / "schema" / str(start_ts)).glob("*.*.json")):
        info = json.loads(path.read_bytes())
        versions[str(info["id"])] = [_Version(0, 0, path.name.split(".")[0], info)]
    jobs = [json.loads(json.loads(line)["job_meta"]) for line in (folder / "schema" / "ddl_history.jsonl").read_text().splitlines()]
    for job in sorted(jobs, key=lambda job: int(job["binlog"]["SchemaVersion"])):
        reported, commit_ts = job["binlog"], CommitTs(ddls.get(job["id"], 0))
        if commit_ts <= start_ts or job["state"] not in (5, 6):
            continue
        for info in [reported["TableInfo"], *(reported["MultipleTableInfos"] or [])]:
            if info is not None and not info["view"] and not info["sequence"]:
                versions.setdefault(str(info["id"]), []).append(_Version(commit_ts, reported["SchemaVersion"], job["schema_name"], info))
    return versions
