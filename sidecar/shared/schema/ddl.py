"""The nouns of DDL: TiDB's actions, what each does to the schemas, a finished job, and what it changed.

`effect_of(action)` says what a finished job changes in the schemas, whatever TiCDC's filter makes of it (that is
`ticdc/ddl_rules.py`). An action without a known effect stops the feed (P6), and so do those whose changes no feed carries.
Source: pingcap/tidb pkg/meta/model/job.go, pkg/ddl.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, NamedTuple

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.model.nouns import CommitTs, TableName


class Action(IntEnum):
    """`type` of a job (TiDB's ActionType). 46, 48 and 66 are not in use."""

    CREATE_SCHEMA = 1
    DROP_SCHEMA = 2
    CREATE_TABLE = 3
    DROP_TABLE = 4
    ADD_COLUMN = 5
    DROP_COLUMN = 6
    ADD_INDEX = 7
    DROP_INDEX = 8
    ADD_FOREIGN_KEY = 9
    DROP_FOREIGN_KEY = 10
    TRUNCATE_TABLE = 11
    MODIFY_COLUMN = 12
    REBASE_AUTO_ID = 13
    RENAME_TABLE = 14
    SET_DEFAULT_VALUE = 15
    SHARD_ROW_ID = 16
    MODIFY_TABLE_COMMENT = 17
    RENAME_INDEX = 18
    ADD_TABLE_PARTITION = 19
    DROP_TABLE_PARTITION = 20
    CREATE_VIEW = 21
    MODIFY_TABLE_CHARSET = 22
    TRUNCATE_TABLE_PARTITION = 23
    DROP_VIEW = 24
    RECOVER_TABLE = 25
    MODIFY_SCHEMA_CHARSET = 26
    LOCK_TABLE = 27
    UNLOCK_TABLE = 28
    REPAIR_TABLE = 29
    SET_TIFLASH_REPLICA = 30
    UPDATE_TIFLASH_REPLICA = 31
    ADD_PRIMARY_KEY = 32
    DROP_PRIMARY_KEY = 33
    CREATE_SEQUENCE = 34
    ALTER_SEQUENCE = 35
    DROP_SEQUENCE = 36
    ADD_COLUMNS = 37
    DROP_COLUMNS = 38
    MODIFY_AUTO_ID_CACHE = 39
    REBASE_AUTO_RANDOM = 40
    ALTER_INDEX_VISIBILITY = 41
    EXCHANGE_PARTITION = 42
    ADD_CHECK_CONSTRAINT = 43
    DROP_CHECK_CONSTRAINT = 44
    ALTER_CHECK_CONSTRAINT = 45
    RENAME_TABLES = 47
    ALTER_TABLE_ATTRIBUTES = 49
    ALTER_PARTITION_ATTRIBUTES = 50
    CREATE_PLACEMENT_POLICY = 51
    ALTER_PLACEMENT_POLICY = 52
    DROP_PLACEMENT_POLICY = 53
    ALTER_PARTITION_PLACEMENT = 54
    MODIFY_SCHEMA_PLACEMENT = 55
    ALTER_TABLE_PLACEMENT = 56
    CACHE_TABLE = 57
    ALTER_STATS_OPTIONS = 58
    NOCACHE_TABLE = 59
    CREATE_TABLES = 60
    MULTI_SCHEMA_CHANGE = 61
    FLASHBACK_CLUSTER = 62
    RECOVER_SCHEMA = 63
    REORGANIZE_PARTITION = 64
    ALTER_TTL = 65
    REMOVE_TTL = 67
    CREATE_RESOURCE_GROUP = 68
    ALTER_RESOURCE_GROUP = 69
    DROP_RESOURCE_GROUP = 70
    ALTER_TABLE_PARTITIONING = 71
    REMOVE_PARTITIONING = 72
    ADD_COLUMNAR_INDEX = 73
    MODIFY_ENGINE_ATTRIBUTE = 74
    ALTER_TABLE_MODE = 75
    REFRESH_META = 76
    MODIFY_SCHEMA_READ_ONLY = 77
    ALTER_TABLE_AFFINITY = 78
    ADD_FULLTEXT_INDEX = 230
    CREATE_HYBRID_INDEX = 231


class Effect(Enum):
    """What a finished job changes in the schemas."""

    CREATE_SCHEMA = "create schema"
    DROP_SCHEMA = "drop schema"
    ALTER_SCHEMA = "alter schema"
    RECOVER_SCHEMA = "recover schema"
    CREATE = "create"
    """Tables, views or sequences appear; a view may take the place of another."""
    DROP = "drop"
    ALTER = "alter"
    """The same table id, another TableInfo: columns, indexes, partitions."""
    REPLACE = "replace"
    """The table's rows are under other ids from here on: truncate, other partitioning."""
    RENAME = "rename"
    EXCHANGE = "exchange"
    """A table and a partition of another one swap their ids."""
    SWITCH = "switch"
    """Not a finished job, but a step of one, from which on the table's rows are under other physical ids (`PartitionSwitch`), or
    written in another way (`ColumnSwitch`)."""
    NONE = "none"
    """No TableInfo changes that a row depends on."""


_ALTER = frozenset({5, 6, 7, 8, 9, 10, 12, 13, 15, 16, 17, 18, 19, 20, 22, 23, 29, 30, 31, 32, 33, 35, 37, 38, 39, 40, 41, 43, 44, 45})
_ALTER |= {49, 50, 54, 56, 57, 59, 61, 64, 65, 67, 73, 74, 75, 78, 230, 231}

_EFFECTS = {Action(number): Effect.ALTER for number in _ALTER} | {
    Action.CREATE_SCHEMA: Effect.CREATE_SCHEMA,
    Action.DROP_SCHEMA: Effect.DROP_SCHEMA,
    Action.MODIFY_SCHEMA_CHARSET: Effect.ALTER_SCHEMA,
    Action.MODIFY_SCHEMA_PLACEMENT: Effect.ALTER_SCHEMA,
    Action.MODIFY_SCHEMA_READ_ONLY: Effect.ALTER_SCHEMA,
    Action.RECOVER_SCHEMA: Effect.RECOVER_SCHEMA,
    Action.CREATE_TABLE: Effect.CREATE,
    Action.CREATE_TABLES: Effect.CREATE,
    Action.CREATE_VIEW: Effect.CREATE,
    Action.CREATE_SEQUENCE: Effect.CREATE,
    Action.RECOVER_TABLE: Effect.CREATE,
    Action.DROP_TABLE: Effect.DROP,
    Action.DROP_VIEW: Effect.DROP,
    Action.DROP_SEQUENCE: Effect.DROP,
    Action.TRUNCATE_TABLE: Effect.REPLACE,
    Action.ALTER_TABLE_PARTITIONING: Effect.REPLACE,
    Action.REMOVE_PARTITIONING: Effect.REPLACE,
    Action.RENAME_TABLE: Effect.RENAME,
    Action.RENAME_TABLES: Effect.RENAME,
    Action.EXCHANGE_PARTITION: Effect.EXCHANGE,
    Action.LOCK_TABLE: Effect.NONE,
    Action.UNLOCK_TABLE: Effect.NONE,
    Action.CREATE_PLACEMENT_POLICY: Effect.NONE,
    Action.ALTER_PLACEMENT_POLICY: Effect.NONE,
    Action.DROP_PLACEMENT_POLICY: Effect.NONE,
    Action.ALTER_STATS_OPTIONS: Effect.NONE,
    Action.CREATE_RESOURCE_GROUP: Effect.NONE,
    Action.ALTER_RESOURCE_GROUP: Effect.NONE,
    Action.DROP_RESOURCE_GROUP: Effect.NONE,
}

_STOPS = {
    Action.FLASHBACK_CLUSTER: "FLASHBACK CLUSTER puts every table back to an earlier moment; the feed does not carry that as changes",
    Action.REFRESH_META: "a restore (BR) wrote tables and rows around SQL; neither the jobs nor the feed carry them",
}


def effect_of(action: int, *, job: str) -> tuple[Action, Effect]:
    """Raises UnsupportedDdl for an action that cannot be followed or is unknown; `job` names the job in its text."""
    known = next((one for one in Action if one == action), None)
    if known is None:
        raise UnsupportedDdl(
            f"{job} has action {action}, which is unknown",
            hint="run a ticdc-dump that knows this TiDB version, or start again after this DDL",
        )
    if known in _STOPS:
        raise UnsupportedDdl(f"{job}: {_STOPS[known]}", hint="start a new feed from a position after this DDL, and dump its tables again")
    return known, _EFFECTS[known]


TableInfo = Mapping[str, Any]
"""TiDB's TableInfo, parsed (pingcap/tidb pkg/meta/model/table.go)."""


class JobTable(NamedTuple):
    """A table as a job leaves it. `schema` is its id, or its name in small letters where the job has no id for it."""

    info: TableInfo
    schema: int | str


@dataclass(frozen=True, slots=True)
class DdlJob:
    """A finished job; `commit_ts` is that of the transaction that finished it. `table_id` is the table before, except that for
    an exchange it is the table without partitions and `tables` holds the partitioned one. `schema_version`: TiDB's, from this job on; no
    order of jobs (schema/history.py). `finished_ts`: no transaction uses what was before any more; 0: not known. `involved`: the tables
    that the job locks, in small letters; of a rename old and new name of each in turn, of an exchange the partitioned one first. Empty:
    TiDB does not say it."""

    job_id: int
    action: int
    commit_ts: CommitTs
    start_ts: int
    query: str
    schema_id: int
    schema_name: str
    table_id: int
    tables: tuple[JobTable, ...] = ()
    schema_version: int = 0
    finished_ts: int = 0
    involved: tuple[TableName, ...] = field(default=(), compare=False)

    def at(self) -> str:
        return f"DDL job {self.job_id} at {self.commit_ts} ({self.query[:200]})"


@dataclass(frozen=True, slots=True)
class PartitionSwitch:
    """A step of a partition DDL that runs: rows with commit_ts above this one are those under the physical ids `came`.

    `gone`: which of the table's ids they replace, by id or by partition's name (DROP, REORGANIZE); None: all of them. Reorganising jobs
    (64, 71, 72) copy to `came` and write to both until here, and from here on to `came` only; TRUNCATE PARTITION writes to `came`
    from here on. DROP PARTITION has no `came`: from here on SQL hides the rows, and their keys can be in other partitions. TiCDC goes by
    the finished job alone, and loses what is written in between (measured: 50 to 900 ms).
    """

    job_id: int
    action: Action
    commit_ts: CommitTs
    start_ts: int
    query: str
    schema_name: str
    table_id: int
    gone: frozenset[int | str] | None
    came: tuple[int, ...]
    definitions: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)
    """Of REORGANIZE, where the job has them: TableInfo's of `came`."""

    def at(self) -> str:
        return f"step of DDL job {self.job_id} at {self.commit_ts} ({self.query[:200]})"


class Successor(NamedTuple):
    """`column`: TableInfo's column that takes the place of the one with id `column_id`, under another id."""

    column_id: int
    column: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ColumnSwitch:
    """A step of MODIFY COLUMN with reorganisation, or of DROP COLUMN, that runs: rows with commit_ts above this one may lack the
    column, and hold its successor alone.

    Sessions see the successor from here on. They write both for one step more, then the successor alone; only after that is the job
    done. TiCDC goes by the finished job alone, and puts a default where the column is absent (pingcap/ticdc#5548). `amid`: where a
    part of a multi-schema change is done before the rest, the table as it is until the end; columns that it lacks were replaced
    by those of their names, but for those that DROP COLUMN takes, `drops` in number.

    `dropped`: a step of DROP COLUMN, by name in small letters: no row with a higher commit_ts has a true value for these columns.
    """

    job_id: int
    action: Action
    commit_ts: CommitTs
    start_ts: int
    query: str
    schema_name: str
    table_id: int
    successors: tuple[Successor, ...]
    amid: TableInfo | None = None
    drops: int = 0
    dropped: frozenset[str] = frozenset()

    def at(self) -> str:
        return f"step of DDL job {self.job_id} at {self.commit_ts} ({self.query[:200]})"


Step = PartitionSwitch | ColumnSwitch
"""What counts of a job that runs."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """One table before and after a DDL; None: it was not there, or is not there any more.

    Ids are logical table ids. `physical_*` are the ids in row keys: the partitions' if it has any, none for views and sequences.
    """

    name_before: TableName | None
    name_after: TableName | None
    id_before: int | None
    id_after: int | None
    physical_before: tuple[int, ...] = ()
    physical_after: tuple[int, ...] = ()

    @property
    def appeared(self) -> frozenset[int]:
        """Physical ids that carry this table's rows only from here on."""
        return frozenset(self.physical_after) - frozenset(self.physical_before)

    @property
    def vanished(self) -> frozenset[int]:
        return frozenset(self.physical_before) - frozenset(self.physical_after)


@dataclass(frozen=True, slots=True)
class DdlEvent:
    """What a finished job did: everything with `commit_ts` of a row <= this one's belongs to the schemas before it.

    `schema` is the job's. `tables` are those that it changed, in no order that matters; a schema's drop names all of its.
    """

    commit_ts: CommitTs
    start_ts: int
    job_id: int
    action: Action
    effect: Effect
    query: str
    schema: str
    tables: tuple[TableChange, ...]


@dataclass(frozen=True, slots=True)
class FinishedDdl:
    """A job that is over, as TiDB's own tables of jobs tell it. `tables`: as the job names them, in any case; empty for one of a schema.
    `kind`: in TiDB's words. `commit_ts` None: it may not be read."""

    number: int
    commit_ts: CommitTs | None
    schema: str
    tables: tuple[TableName, ...]
    kind: str
    query: str
