"""Which finished DDL job changes rows that no feed shows, and of which tables. Pure.

    job                                            hole             tables                            rows vanish
    ALTER TABLE MODE to Import or Restore          its begin        the table                         no
    ALTER TABLE MODE back to Normal                its end          the table                         no
    CREATE TABLE, CREATE TABLES of BR              begin of restore the tables                        no
    REFRESH META of BR                             restore          the table, or the schema          no
    FLASHBACK DATABASE                             flashback        those that come back              no
    FLASHBACK CLUSTER                              flashback        each                              yes
    EXCHANGE PARTITION across the table rules      DDL              the one inside the rules          yes
    RENAME from outside the table rules            DDL              those that come inside            no

- A feed shows every other kind, or it changes no row: RECOVER TABLE, FLASHBACK TABLE, ADD PRIMARY KEY, and EXCHANGE PARTITION or RENAME
  inside the rules bring their rows' hole with their DDL (spark_merge/delivery/complete.py). A second word on these would open again what
  an operator's dump has just filled.
- A job whose tables are named is of those inside the table rules, and no hole where none is: of one outside, no log has a table.
- A begin and an end are two holes: what a dump reads in between is not yet all. The second opens the first one's again.
- A kind that is not known here makes no hole: TiDB adds kinds that leave rows alone far more often than others, and each would make a
  whole sink incomplete. It is for a note: `unknown`.
- A hole of tables that the job brings is since its `commit_ts`, which TiDB's history has a little late: then the pipeline has them. Of
  tables that are there already it is since the job began, which is never too late.

Source: pingcap/tidb pkg/meta/model/job.go, table.go (TableMode); br/pkg/gluetidb/glue.go (brComment).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sidecar.shared.model.hole import Hole, HoleCause
from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.schema.ddl import Action, DdlJob

BY_BR = "/*from(br)*/"
"""What each statement that BR gives a job begins with."""

MODE_UNKNOWN = -1
"""In place of a TableInfo's mode, where only information_schema shows the job."""
_IMPORT, _RESTORE = 1, 2
_BRINGS_TABLES = frozenset(
    {Action.CREATE_TABLE, Action.CREATE_TABLES, Action.REFRESH_META, Action.RECOVER_SCHEMA, Action.RENAME_TABLE, Action.RENAME_TABLES}
)

Inside = Callable[[TableName], bool]
"""Whether the changefeed's table rules have a table of that name."""


@dataclass(frozen=True, slots=True)
class JobHole:
    """Of the tables with these ids; without ids of `hole.tables`; with a `schema`: of all tables that this has by now."""

    hole: Hole
    table_ids: frozenset[int] = frozenset()
    schema: str = ""


def hole_of(job: DdlJob, inside: Inside) -> JobHole | None:
    """None: a feed shows all that the job does, or it does nothing to rows."""
    ids = ids_inside(job, inside) if job.tables else frozenset({job.table_id} - {0})
    schema = "" if job.tables or job.table_id else job.schema_name
    match job.action:
        case Action.ALTER_TABLE_MODE:
            return _of_mode(job, ids)
        case Action.CREATE_TABLE | Action.CREATE_TABLES if job.query.startswith(BY_BR):
            return _made(job, HoleCause.RESTORE, "BR restores it", ids=ids)
        case Action.REFRESH_META:
            return _made(job, HoleCause.RESTORE, "BR wrote it around SQL", ids=ids, schema=schema)
        case Action.RECOVER_SCHEMA:
            return _made(job, HoleCause.FLASHBACK, job.query, ids=ids, schema=schema)
        case Action.FLASHBACK_CLUSTER:
            return JobHole(_hole(job, HoleCause.FLASHBACK, job.query, tables=None, vanished=True))
        case Action.EXCHANGE_PARTITION:
            return _of_exchange(job, inside)
        case Action.RENAME_TABLE | Action.RENAME_TABLES:
            return _of_rename(job, inside)
        case _:
            return None


def ids_inside(job: DdlJob, inside: Inside) -> frozenset[int]:
    """Of the job's tables. One whose name is not known counts as inside."""
    return frozenset(int(one.info["id"]) for one, name in zip(job.tables, _names(job), strict=True) if name is None or inside(name))


def _names(job: DdlJob) -> list[TableName | None]:
    """Of `job.tables`, None: not known. A job of several schemas has one of them."""
    several = job.action in (Action.RENAME_TABLE, Action.RENAME_TABLES, Action.EXCHANGE_PARTITION)
    names = ["" if several else (one.info.get("name") or {}).get("O", "") for one in job.tables]
    return [TableName(job.schema_name, name) if name and job.schema_name else None for name in names]


def unknown(job: DdlJob) -> str:
    """What to say of a kind that this version does not know; empty for any other."""
    if job.action in set(Action):
        return ""
    return (
        f"{job.at()} is of kind {job.action}, which this ticdc-dump does not know: if it changed rows, no hole shows that; "
        "run a ticdc-dump that knows this TiDB version, or verify"
    )


def _of_mode(job: DdlJob, ids: frozenset[int]) -> JobHole | None:
    mode = job.tables[0].info.get("mode", 0) if job.tables else MODE_UNKNOWN
    if mode == _IMPORT:
        return _made(job, HoleCause.IMPORT, "IMPORT INTO began: the table's mode is Import", ids=ids)
    if mode == _RESTORE:
        return _made(job, HoleCause.RESTORE, "a restore began: the table's mode is Restore", ids=ids)
    changed = "changed" if mode == MODE_UNKNOWN else "is Normal again"
    return _made(job, HoleCause.IMPORT, f"an import or a restore: the table's mode {changed}", ids=ids)


def _of_exchange(job: DdlJob, inside: Inside) -> JobHole | None:
    """After it, the job has the partitioned table's TableInfo."""
    if len(job.involved) < 2:
        return None
    partitioned, other = job.involved[:2]
    if inside(partitioned) == inside(other):
        return None
    if inside(partitioned) and job.tables:
        return _made(job, HoleCause.DDL, job.query, ids=frozenset({int(job.tables[0].info["id"])}), vanished=True)
    table = partitioned if inside(partitioned) else other
    return JobHole(_hole(job, HoleCause.DDL, job.query, tables=(table,), vanished=True))


def _of_rename(job: DdlJob, inside: Inside) -> JobHole | None:
    """By name where the job does not have each table: information_schema shows one."""
    come_in = [not inside(before) and inside(after) for before, after in zip(job.involved[::2], job.involved[1::2], strict=False)]
    if len(come_in) == len(job.tables):
        ids = frozenset(int(one.info["id"]) for one, comes_in in zip(job.tables, come_in, strict=True) if comes_in)
        return _made(job, HoleCause.DDL, job.query, ids=ids)
    names = tuple(name for name, comes_in in zip(job.involved[1::2], come_in, strict=False) if comes_in)
    return JobHole(_hole(job, HoleCause.DDL, job.query, tables=names, vanished=False)) if names else None


def _made(job: DdlJob, cause: HoleCause, text: str, *, ids: frozenset[int], schema: str = "", vanished: bool = False) -> JobHole | None:
    """None for a job of no table."""
    return JobHole(_hole(job, cause, text, tables=(), vanished=vanished), ids, schema) if ids or schema else None


def _hole(job: DdlJob, cause: HoleCause, text: str, *, tables: tuple[TableName, ...] | None, vanished: bool) -> Hole:
    since_ts = job.commit_ts if job.action in _BRINGS_TABLES else CommitTs(job.start_ts)
    return Hole(cause, since_ts, tables, vanished, f"{text} (DDL job {job.job_id})")
