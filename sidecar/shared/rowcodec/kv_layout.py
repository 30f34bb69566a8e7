"""What decoding of raw key-values and following their schemas needs, in `TableSchema.layout`: so the log's schemas file is enough for both.

    layout      base85 of zlib of JSON {"schema_id", "new_collation", "info": TableInfo, or null for a schema's own entry}

- A schemas file of a key-value log holds the whole cluster, not what is replicated alone: a job may rename any table, and the schema
  history has to know it. Tables that are not replicated, views and sequences have an entry without columns and key.
- Each schema (database) has an entry of its own, `TableName(schema, "")`: it may have no tables, and a job names it by its id.
- The table of the DDL jobs has one as well: the jobs are rows of it.
- `snapshot_of` is the inverse of the entries; `kv_table_of` needs one table's entry alone, as an executor of Spark has it.
"""

from __future__ import annotations

import json
import zlib
from base64 import b85decode, b85encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from sidecar.shared.schema.ddl import TableInfo
from sidecar.shared.schema.version import SchemaSnapshot, read_version

DDL_JOB_TABLE = TableName("mysql", "tidb_ddl_job")

_TABLES_MAX = 4096
"""Versions of tables whose decoders are kept in a process."""

_HINT = "this log was not written from key-values by this version: give the changefeed a new log, and dump again"


@dataclass(frozen=True, slots=True)
class KvSnapshot:
    """Every schema of the cluster at `ts`, the system's too, these perhaps without their tables: no DDL with commit_ts <= `ts` is missing
    and none above is in. `ddl_job`: the TableInfo of mysql.tidb_ddl_job. `new_collation`: TiDB's new_collations_enabled_on_first_bootstrap.

    `version`: of TiDB, as `tidb_version()` or `version()` returns it; empty: it was checked before. `fast_create_table`:
    tidb_enable_fast_create_table.
    """

    ts: CommitTs
    schemas: Iterable[SchemaSnapshot]
    ddl_job: TableInfo
    new_collation: bool
    version: str = ""
    fast_create_table: bool = False


class _Layout(NamedTuple):
    schema_id: int
    new_collation: bool
    info: dict[str, Any] | None


def layout_of(schema_id: int, info: TableInfo | None, *, new_collation: bool) -> str:
    """`info` None: the entry of the schema itself. Equal for equal TableInfos."""
    text = json.dumps({"schema_id": schema_id, "new_collation": new_collation, "info": info}, separators=(",", ":"), ensure_ascii=False)
    return b85encode(zlib.compress(text.encode(), 6)).decode()


def schema_entry(name: str, schema_id: int, *, new_collation: bool) -> TableSchema:
    """A schema's own entry."""
    return TableSchema(TableName(name, ""), (), (), layout=layout_of(schema_id, None, new_collation=new_collation))


def ddl_job_entry(info: TableInfo, schema_id: int, *, new_collation: bool) -> TableSchema:
    return TableSchema(DDL_JOB_TABLE, (), (), table_id=info["id"], layout=layout_of(schema_id, info, new_collation=new_collation))


def kv_table_of(schema: TableSchema) -> KvTable:
    """What decodes the table's rows. Raises FeedUnsuitable for a table without layout, or of a type that is unknown."""
    return _kv_table(schema.layout, schema.name)


@lru_cache(maxsize=_TABLES_MAX)
def _kv_table(layout: str, name: TableName) -> KvTable:
    written_layout = _read(layout, name)
    if written_layout.info is None:
        raise _unreadable(name, "it is a schema's")
    return kv_table(written_layout.info, schema=name.schema, new_collation=written_layout.new_collation)


def schema_under(schema: TableSchema, layout: str) -> TableSchema:
    """The table as it was under another layout. Raises as `kv_table_of`."""
    info = _read(layout, schema.name).info
    if info is None:
        raise _unreadable(schema.name, "it is a schema's")
    before = read_version(info, lambda _info, _schema: None, schema_id=0, schema=schema.name.schema, since_ts=CommitTs(0))
    described = _kv_table(layout, schema.name).schema
    return replace(described, name=schema.name, table_id=before.table_id, physical_ids=before.physical_ids, layout=layout)


def before_virtual(schema: TableSchema) -> frozenset[str]:
    """The columns that stand before the first virtual generated one: all of them, where there is none. Raises as `kv_table_of`."""
    info = _read(schema.layout, schema.name).info or {}
    virtual = [bool(item.get("generated_expr_string")) and not item.get("generated_stored") for item in info.get("cols", [])]
    end = virtual.index(True) if True in virtual else len(virtual)
    return frozenset(item["name"]["O"] for item in info.get("cols", [])[:end])


def snapshot_of(tables: Mapping[TableName, TableSchema], *, ts: CommitTs) -> KvSnapshot:
    """What `tables`, a log's schemas that hold at `ts`, were made of. Raises FeedUnsuitable if they were not made from key-values."""
    ids: dict[str, int] = {}
    infos: dict[str, list[TableInfo]] = {}
    job_table: TableInfo | None = None
    new_collation = False
    for name, table in tables.items():
        layout = _read(table.layout, name)
        new_collation = layout.new_collation
        if not name.table:
            ids[name.schema] = layout.schema_id
        elif layout.info is None:
            raise _unreadable(name, "it has no table info")
        elif name == DDL_JOB_TABLE:
            job_table = layout.info
        else:
            infos.setdefault(name.schema, []).append(layout.info)
    if job_table is None:
        raise _unreadable(DDL_JOB_TABLE, "the schemas file does not hold it")
    if homeless := infos.keys() - ids.keys():
        raise _unreadable(TableName(min(homeless), ""), "the schemas file does not hold it")
    schemas = [SchemaSnapshot(schema_id, name, infos.get(name, ())) for name, schema_id in ids.items()]
    return KvSnapshot(ts, schemas, job_table, new_collation)


def _read(layout: str, name: TableName) -> _Layout:
    try:
        content = json.loads(zlib.decompress(b85decode(layout)))
        return _Layout(content["schema_id"], content["new_collation"], content["info"])
    except (ValueError, zlib.error, KeyError, TypeError) as error:
        raise _unreadable(name, repr(error)) from error


def _unreadable(name: TableName, why: str) -> FeedUnsuitable:
    return FeedUnsuitable(f"the layout of {name} in the log's schemas is not one of key-values: {why}", hint=_HINT)
