"""DDLs that a sink may carry out although its target makes other values of the rows that are there than TiDB: a dump brings them.

An operator starts that dump by one command (`dumpstart --for-ddl`), which the sink's error names. Its record in the log is the only word of
it: there is nothing else that a death could leave behind.

    the sink stops at the DDL ─► the dump is in a manifest ─► the sink carries the DDL out ─► the dump's chunks come, in later segments

- The dump has no chunk from before the log had the DDL, so each of its SELECTs sees what TiDB made of the values.
- It is of all rows of the table, for this sink. One that has failed or was stopped gives no leave: it may bring no row.
- Until it is complete in the sink, the table's values there are those that the target made, and the sink's record does not have the table
  as complete (sink_record.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from sidecar.core.model import CommitTs, Seq, TableName
from sidecar.core.progress import DumpState
from sidecar.log import storage
from sidecar.log.errors import storage_errors
from sidecar.log.layout import logged_dumps, manifest_name, read_manifest, with_logged_tables
from sidecar.log.manifest import Manifest
from sidecar.log.storage import Folder
from spark_merge.log.read import kept

Rereads: TypeAlias = "Mapping[tuple[CommitTs, TableName], Seq]"
"""Of a DDL and a table the first segment that may have chunks of the dump."""

_MAY_BRING_NONE = frozenset({DumpState.FAILED, DumpState.STOPPED})


def rereads(log: Folder, sink: str) -> Rereads:
    """As of the log's last segment. Raises LogBroken."""
    last = _last(log)
    dumps = logged_dumps(last.dumps) if last is not None else ()
    return {
        (dump.for_ddl, table.table): table.since_seq
        for dump in dumps
        if dump.for_ddl is not None and sink in dump.sinks and dump.state not in _MAY_BRING_NONE
        for table in dump.tables
        if table.whole
    }


def leave_at(rereads: Rereads, manifest: Manifest) -> frozenset[tuple[CommitTs, TableName]]:
    """The segment's DDLs, each with its table, whose values come later."""
    ddls = {ddl.commit_ts for ddl in manifest.ddls}
    return frozenset(one for one, since_seq in rereads.items() if one[0] in ddls and since_seq > manifest.seq)


def _last(log: Folder) -> Manifest | None:
    """With all tables of its dumps; None for a log without a segment."""
    if not (segments := kept(log)):
        return None
    name = manifest_name(Seq(segments[-1]))
    with storage_errors(log):
        manifest = read_manifest(log, name, storage.read_file(log, name))
        return with_logged_tables(log, manifest, lambda file: storage.read_files(log, [file]).get(file))
