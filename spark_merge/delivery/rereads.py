"""DDLs that a sink may carry out although its target makes other values of the rows that are there than TiDB: a dump brings them.

An operator starts that dump by one command (`dumpstart --for-ddl`), which the sink's error names. Its record in the log is the only word of
it: there is nothing else that a death could leave behind.

    the sink stops at the DDL ─► the dump is in a manifest ─► the sink carries the DDL out ─► the dump's chunks come, in later segments

- The dump has no chunk from before the log had the DDL, so each of its SELECTs sees what TiDB made of the values.
- It is in manifests until each of its sinks has passed the DDL (core/dumps.py), whatever else is dumped meanwhile.
- It is of all rows of the table, for this sink. One that has failed or was stopped gives no leave: it may bring no row.
- Whose rows the dump reads goes by the table's id: a table that has come to the name since then gives no leave for the one that had it.
- Until it is complete in the sink, the table's values there are those that the target made. So the sink's record does not have the table as
  complete (sink_record.py), from before the DDL is carried out: whatever becomes of the dump then, the table is seen to lack something.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from sidecar.shared.log.layout import logged_dumps
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.manifests import last_manifest
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema
from sidecar.shared.model.progress import DumpState
from spark_merge.log.read import LoggedSchemas


class Reread(NamedTuple):
    """`since_seq`: the first segment that may have chunks of the dump. `table_id`: of the table that it reads; 0: the source has none."""

    since_seq: Seq
    table_id: int


Rereads: TypeAlias = "Mapping[tuple[CommitTs, TableName], Reread]"
"""By DDL and table."""

_MAY_BRING_NONE = frozenset({DumpState.FAILED, DumpState.STOPPED})


def rereads(log: Folder, sink: str) -> Rereads:
    """As of the log's last segment. Raises LogBroken."""
    if (last := last_manifest(log)) is None:
        return {}
    now = LoggedSchemas(log, last.next_schemas or last.schemas)
    return {
        (dump.for_ddl, table.table): Reread(table.since_seq, now[table.table].table_id)
        for dump in sorted(logged_dumps(last.dumps), key=lambda one: one.number)  # of two the later one
        if dump.for_ddl is not None and sink in dump.sinks and dump.state not in _MAY_BRING_NONE
        for table in dump.tables
        if table.whole and table.table in now
    }


def leave_at(rereads: Rereads, manifest: Manifest, after: Mapping[TableName, TableSchema]) -> frozenset[tuple[CommitTs, TableName]]:
    """The segment's DDLs, each with its table, whose values come later. `after`: the tables after them."""
    ddls = {ddl.commit_ts for ddl in manifest.ddls}
    return frozenset(
        (ts, table)
        for (ts, table), reread in rereads.items()
        if ts in ddls and reread.since_seq > manifest.seq and table in after and after[table].table_id == reread.table_id
    )


def lacking(rereads: Rereads, *, above_ts: CommitTs | None, upto_ts: CommitTs | None = None) -> frozenset[TableName]:
    """The tables with a DDL there whose values come later, or may."""
    return frozenset(table for ts, table in rereads if ts > (above_ts or 0) and (upto_ts is None or ts <= upto_ts))
