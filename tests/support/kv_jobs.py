"""Rows of mysql.tidb_ddl_job and whole TableInfos, made from jobs by hand: what a cluster would have written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sidecar.replay.kv_rows import DDL_JOB_TABLE_INFO, row_key, row_value
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import DDL_JOB_TABLE_ID, KvEntry
from sidecar.shared.rowcodec.kv_layout import KvSnapshot
from sidecar.shared.rowcodec.kv_table import kv_table
from sidecar.shared.schema.ddl import Action, DdlJob, PartitionSwitch
from sidecar.shared.schema.version import SchemaSnapshot
from tests.support.kv_encoder import column

_SCHEMA_ACTIONS = (Action.CREATE_SCHEMA, Action.DROP_SCHEMA, Action.RECOVER_SCHEMA)
_MULTIPLE = (Action.CREATE_TABLES, Action.RENAME_TABLES)
_JOB_TABLE = kv_table(DDL_JOB_TABLE_INFO, schema="mysql")


def whole(info: Mapping[str, Any]) -> dict[str, Any]:
    """The TableInfo of a table of integers whose primary key is its first column, from one with the names of columns alone; `type_code` of
    a column is another type's."""
    if info["view"] is not None or info["sequence"] is not None:
        return dict(info)
    columns = [column(number + 1, one["name"], "bigint", primary=number == 0) for number, one in enumerate(info["cols"])]
    for made, one in zip(columns, info["cols"], strict=True):
        made["type"]["Tp"] = one.get("type_code", made["type"]["Tp"])
    return {**info, "cols": columns, "pk_is_handle": True, "is_common_handle": False, "index_info": None}


def snapshot(ts: int, schemas: list[SchemaSnapshot]) -> KvSnapshot:
    made = [one._replace(tables=[whole(info) for info in one.tables]) for one in schemas]
    return KvSnapshot(CommitTs(ts), made, DDL_JOB_TABLE_INFO, new_collation=True)


def job_entry(job: DdlJob | PartitionSwitch) -> KvEntry:
    """The write of the job table that makes the job count."""
    return KvEntry(
        job.commit_ts,
        job.start_ts,
        row_key(DDL_JOB_TABLE_ID, job.job_id),
        row_value(_JOB_TABLE, {"job_meta": json.dumps(_done(job) if isinstance(job, DdlJob) else _step(job))}),
        b"",
    )


def _name(name: str) -> dict[str, str]:
    return {"O": name, "L": name.lower()}


def _head(job: DdlJob | PartitionSwitch) -> dict[str, Any]:
    return {
        "id": job.job_id, "type": int(job.action), "table_id": job.table_id, "schema_name": job.schema_name, "start_ts": job.start_ts,
        "query": job.query,
    }  # fmt: skip


def _done(job: DdlJob) -> dict[str, Any]:
    binlog: dict[str, Any] = {"SchemaVersion": 7}
    more: dict[str, Any] = {}
    infos = [whole(one.info) for one in job.tables]
    if job.action in _SCHEMA_ACTIONS:
        binlog["DBInfo"] = {"id": job.schema_id, "db_name": _name(job.schema_name)}
    if job.action == Action.RECOVER_SCHEMA:
        more["raw_args"] = {"recover_info": {"RecoverTableInfos": [{"TableInfo": info} for info in infos]}}
    elif job.action in _MULTIPLE:
        binlog["MultipleTableInfos"] = infos
    elif infos:
        binlog["TableInfo"] = infos[0]
    if job.action == Action.RENAME_TABLES:
        more["raw_args"] = {"rename_table_infos": [{"new_schema_id": one.schema} for one in job.tables]}
    return _head(job) | {"state": 4, "schema_id": job.schema_id, "binlog": binlog} | more


def _step(step: PartitionSwitch) -> dict[str, Any]:
    if step.action == Action.TRUNCATE_TABLE_PARTITION:
        gone = [one for one in step.gone or () if isinstance(one, int)]
        args: dict[str, Any] = {"old_partition_ids": gone, "new_partition_ids": list(step.came)}
        return _head(step) | {"state": 1, "schema_state": 1, "raw_args": args}
    names = [one for one in step.gone or () if isinstance(one, str)]
    if step.action == Action.DROP_TABLE_PARTITION:
        return _head(step) | {"state": 1, "schema_state": 1, "raw_args": {"part_names": names}}
    args = {"part_names": names, "part_info": {"definitions": [{"id": one} for one in step.came]}}
    return _head(step) | {"state": 1, "schema_state": 5, "raw_args": args}
