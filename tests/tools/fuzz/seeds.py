"""Messages of real clusters to damage."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

import pyarrow.parquet as pq

from sidecar.shared.model.nouns import MARK_TABLE, Column, TableName, TableSchema
from sidecar.shared.rowcodec.kv_layout import layout_of
from sidecar.shared.rowcodec.table_info import table_schema
from tests.support.binlog_recordings import binlog_recording, frames
from tests.support.kv_ddl import job_metas, job_rows
from tests.support.kv_recordings import Entry, kv_recording
from tests.support.recordings import recording
from tests.unit.decode.log import recorded_schemas
from ticdc_dump.binlog.binlog_pb2 import Binlog, DeleteRow, Insert, PrewriteValue, TableMutation, Update

RECORDINGS = ("demo", "rowformats")
FILES = {"simple": (("shop", "rowformats"), "simple-json"), "simple/avro": (("shop",), "simple-avro")}
"""Recordings and the name there of a feed that not all have."""
BINLOG_RECORDINGS = ("binlog", "binlog-ddl2")
SEEDS_MAX = 4000
ROWS_MAX = 4
"""Of a transaction in a table."""

_REAL = Path(__file__).parents[2] / "data" / "real-cluster" / "open-protocol.json"
_ID, _V = Column("id", "int", nullable=False), Column("v", "text")
_REAL_SCHEMAS = (
    TableSchema(TableName("ex_p", "pt0"), (_ID, _V, Column("b", "text", length=20)), ("id",)),
    TableSchema(TableName("ex_p", "pt"), (_ID, _V, Column("b", "binary")), ("id",)),
    TableSchema(TableName("ex_p0", "pt"), (_ID, _V, Column("b", "binary")), ("id",)),
    TableSchema(TableName("ex_tz", "ts"), (_ID, Column("t", "timestamp")), ("id",)),
    TableSchema(TableName("ex_tz", "other"), (_ID, Column("v", "int")), ("id",)),
)


@dataclass(frozen=True, slots=True)
class Seeds:
    """Key and value of recorded messages, and the schemas of their tables."""

    messages: list[tuple[bytes | None, bytes | None]]
    schemas: Mapping[TableName, TableSchema]


@cache
def seeds(feed: str) -> Seeds:
    """Of a protocol's feed."""
    recordings, file = FILES.get(feed, (RECORDINGS, feed))
    messages: list[tuple[bytes | None, bytes | None]] = []
    schemas: dict[TableName, TableSchema] = {}
    for name in recordings:
        folder = recording(name)
        table = pq.read_table(folder / "kafka" / f"{file}.parquet", columns=["key", "value"])
        results = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        messages += Random(0).sample(results, k=min(SEEDS_MAX, len(results)))
        schemas |= recorded_schemas(folder)
    if feed == "open-protocol":
        schemas |= {schema.name: schema for schema in _REAL_SCHEMAS}
        real = [one for group in json.loads(_REAL.read_bytes()).values() if isinstance(group, list) for one in group]
        messages += 20 * [(b64decode(one["key_b64"]), b64decode(one["value_b64"])) for one in real]
    return Seeds(messages, schemas)


@cache
def entries() -> tuple[list[Entry], ...]:
    """Key-values by table, those of the watermark table first."""
    by_table: dict[int, list[Entry]] = {}
    for name in RECORDINGS:
        for entry in kv_recording(name).entries:
            by_table.setdefault(entry.table.id, []).append(entry)
    return tuple(sorted(by_table.values(), key=lambda rows: rows[0].table.schema.name != MARK_TABLE))


@cache
def layouts() -> Mapping[int, TableSchema]:
    """The schemas of the tables of `entries`, by id, as a log of key-values has them."""
    schemas: dict[int, TableSchema] = {}
    for name in RECORDINGS:
        folder = recording(name) / "schema"
        for path in sorted(folder.glob(f"{kv_recording(name).recording.start_ts}/*.*.json")):
            info = json.loads(path.read_bytes())
            schema = table_schema(info, schema=path.name.split(".")[0])
            schemas[schema.table_id] = replace(schema, layout=layout_of(1, info, new_collation=True))
    return schemas


@cache
def mutations() -> tuple[tuple[tuple[TableSchema, ...], list[TableMutation]], ...]:
    """By table of TiDB-Binlog: its versions, and what transactions did to it, a few rows each. The watermark table is the first one."""
    result: dict[tuple[str, str], list[TableMutation]] = {}
    for name in BINLOG_RECORDINGS:
        for path in sorted((recording(name) / "pumps").glob("*.bin.gz")):
            for payload in frames(path):
                for mutation in PrewriteValue.FromString(Binlog.FromString(payload).prewrite_value).mutations:
                    result.setdefault((name, str(mutation.table_id)), []).append(_few(mutation))
    versions = {(name, table): tuple(some) for name in BINLOG_RECORDINGS for table, some in binlog_recording(name).schemas.items()}
    tables = [(versions[table], some) for table, some in result.items() if table in versions]
    return tuple(sorted(tables, key=lambda one: one[0][-1].name != MARK_TABLE))


def _few(mutation: TableMutation) -> TableMutation:
    """Its first rows."""
    made, at = TableMutation(table_id=mutation.table_id), Counter[int]()
    lists = {Insert: "inserted_rows", Update: "updated_rows", DeleteRow: "deleted_rows"}
    for kind in mutation.sequence[:ROWS_MAX]:
        getattr(made, lists[kind]).append(getattr(mutation, lists[kind])[at[kind]])
        made.sequence.append(kind)
        at[kind] += 1
    return made


@cache
def jobs() -> tuple[tuple[int, bytes], ...]:
    """commit_ts and JSON of the DDL jobs that a cluster wrote, steps and ends."""
    return tuple((raw.commit_ts, meta) for raw in job_rows("ddl") for meta in job_metas(raw.value))
