"""DDL jobs, slowly: the twin of sidecar/shared/rowcodec/ddl_job.py. A job says what its JSON says; which jobs count is told here again."""

from __future__ import annotations

from typing import Any

from sidecar.shared.schema.ddl import Action, ColumnSwitch, DdlJob, PartitionSwitch
from tests.tools.fuzz.slow_values import clean, fields, integer, loaded
from tests.tools.fuzz.verdict import Refused

Checking = tuple[Any, ...]

_OF_SCHEMAS = {1, 2, 26, 55, 77, 63}
_SWITCHES = {64: 5, 71: 5, 72: 5, 23: 1, 20: 1}
_OF_COLUMNS = {12, 6, 61}


def reported(job: object) -> Checking | None:
    """What the product has read, in the words of `job`."""
    match job:
        case DdlJob():
            names = (job.job_id, int(job.action), job.commit_ts, job.start_ts, job.query, job.schema_id, job.schema_name, job.table_id)
            return ("done", *names, [(dict(one.info), one.schema) for one in job.tables])
        case PartitionSwitch():
            gone = None if job.gone is None else sorted(map(str, job.gone))
            return ("partitions", job.job_id, job.commit_ts, job.query, job.table_id, gone, list(job.came))
        case ColumnSwitch():
            successors = [(one.column_id, dict(one.column)) for one in job.successors]
            return ("columns", job.job_id, job.commit_ts, job.query, job.table_id, successors, job.amid, sorted(job.dropped))
        case _:
            return None


def job(meta: bytes, commit_ts: int) -> Checking | None:
    """None: it counts for nothing. Raises Refused."""
    result = fields(loaded(meta), "job")
    id_, kind, state = (integer(result.get(name), name) for name in ("id", "type", "state"))
    if state not in range(11):
        raise Refused("state")
    if state == 1 and kind in _OF_COLUMNS:
        return _columns(result, commit_ts)
    if state == 1:
        return _partitions(result, commit_ts) if _SWITCHES.get(kind, -1) == result.get("schema_state", 0) else None
    binlog = result.get("binlog")
    if state != 4 or binlog is None or fields(binlog, "binlog").get("SchemaVersion", 0) == 0:
        return None
    schema_id, schema_name = integer(result.get("schema_id", 0), "schema_id"), clean(result.get("schema_name", ""), "schema_name")
    if kind in _OF_SCHEMAS:
        of_schema = fields(binlog.get("DBInfo"), "DBInfo")
        schema_id, schema_name = of_schema["id"], of_schema["db_name"]["O"]
    names = (id_, kind, commit_ts, result.get("start_ts", 0), result.get("query", ""), schema_id, schema_name, result.get("table_id", 0))
    return ("done", *names, _tables(result, binlog))


def _tables(value: dict[str, Any], binlog: dict[str, Any]) -> list[tuple[Any, Any]]:
    kind, schema_id = value["type"], value.get("schema_id", 0)
    if kind == Action.RECOVER_SCHEMA:
        info = _arguments(value, value.get("raw_args"), ["recover_info"]).get("recover_info")
        if info is None or info.get("LoadTablesOnExecute", False):
            return []
        return [(one["TableInfo"], schema_id) for one in info.get("RecoverTableInfos") or info.get("RecoverTabsInfo") or ()]
    infos = [] if binlog.get("TableInfo") is None else [binlog["TableInfo"]]
    if kind in (Action.CREATE_TABLES, Action.RENAME_TABLES):
        infos = binlog.get("MultipleTableInfos") or []
    schemas = [schema_id] * len(infos)
    if kind == Action.RENAME_TABLES:
        schemas = _renamed_into(value)
        if len(schemas) != len(infos):
            raise Refused("schemas")
    return list(zip(infos, schemas, strict=True))


def _renamed_into(value: dict[str, Any]) -> list[Any]:
    arguments = _arguments(value, value.get("raw_args"), ["old_schema_ids", "new_schema_ids"])
    if arguments.get("rename_table_infos") is not None:
        return [one["new_schema_id"] for one in arguments["rename_table_infos"]]
    if arguments.get("new_schema_ids") is not None:
        return list(arguments["new_schema_ids"])
    return [one.get("database", "") for one in (value.get("involving_schema_info") or ())[1::2]]


def _arguments(value: dict[str, Any], raw: Any, names: list[str]) -> dict[str, Any]:
    """`raw` of a part of the job; the job's own where it has none."""
    raw = value.get("raw_args") if raw is None else raw
    return dict(zip(names, raw, strict=False)) if isinstance(raw, list) else raw or {}


def _partitions(value: dict[str, Any], commit_ts: int) -> Checking:
    if value["type"] == Action.TRUNCATE_TABLE_PARTITION:
        arguments = _arguments(value, None, ["old_partition_ids", "new_partition_ids"])
        gone, came = sorted(set(map(str, arguments["old_partition_ids"]))), list(arguments["new_partition_ids"])
    elif value["type"] == Action.DROP_TABLE_PARTITION:
        gone, came = sorted({name.lower() for name in _arguments(value, None, ["part_names"])["part_names"]}), []
    else:
        arguments = _arguments(value, None, ["part_names", "part_info"])
        came = [one["id"] for one in arguments["part_info"]["definitions"]]
        names = sorted({name.lower() for name in arguments.get("part_names") or ()})
        gone = names if value["type"] == Action.REORGANIZE_PARTITION else []
    reported_gone = None if value["type"] in (Action.ALTER_TABLE_PARTITIONING, Action.REMOVE_PARTITIONING) else gone
    return ("partitions", value["id"], commit_ts, value.get("query", ""), value.get("table_id", 0), reported_gone, came)


def _columns(value: dict[str, Any], commit_ts: int) -> Checking | None:
    parts = [value]
    if value["type"] == Action.MULTI_SCHEMA_CHANGE:
        parts = (value.get("multi_schema_info") or {}).get("sub_jobs") or []
    successors, amid, dropped = [], None, set()
    for part in parts:
        state = (part["type"], part["state"], part.get("schema_state", 0))
        if state == (Action.DROP_COLUMN, 1, 2):
            named = _arguments(value, part.get("raw_args"), ["column_name"])
            name = named["column_info"]["name"] if named.get("column_info") is not None else named["column_name"]
            dropped.add(name["O"].lower())
        elif state == (Action.MODIFY_COLUMN, 4, 5) and value.get("binlog") is not None:
            amid = value["binlog"].get("TableInfo")
        elif state == (Action.MODIFY_COLUMN, 1, 5):
            successors += _successors(_arguments(value, part.get("raw_args"), _MODIFIED))
    if not successors and amid is None and not dropped:
        return None
    return ("columns", value["id"], commit_ts, value.get("query", ""), value.get("table_id", 0), successors, amid, sorted(dropped))


def _successors(arguments: dict[str, Any]) -> list[tuple[Any, Any]]:
    if arguments.get("changing_column") is None:
        return []
    return [(arguments["old_column_id"], arguments["changing_column"])]


_MODIFIED = [
    "column", "old_column_name", "position", "modify_column_type", "new_shard_bits", "changing_column", "changing_idxs",
    "redundant_idxs", "old_column_id",
]  # fmt: skip
