"""The TiDB of a recording as it was at the recording's start, for a process that attaches then: SQL and status port.

    with recorded_tidb(recording, folder) as source: … [source] of the sidecar's settings …

It returns the tables' TableInfos and ids, and the recording's start as the present. It has no rows: no dump can be made of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from sidecar.replay.kv_rows import DDL_JOB_TABLE_INFO
from sidecar.replay.recording import Recording
from sidecar.shared.config import SourceSection
from tests.support.services.fake_tidb import FakeTidb
from tests.unit.adapters.test_tidb_infos import StatusPort


@contextmanager
def recorded_tidb(recording: Recording, folder: Path) -> Iterator[SourceSection]:
    """`folder`: of the server that stands in."""
    with closing(StatusPort(recording.folder / "schema" / str(recording.start_ts))) as status, FakeTidb(folder) as tidb:
        status.paths["/schema/mysql/tidb_ddl_job"] = (200, json.dumps(DDL_JOB_TABLE_INFO).encode())
        infos = {table["id"]: table for tables in status.tables.values() for table in tables}
        tidb.history = {0: {name: replace(table, info=infos[table.id]) for name, table in status.sql().items()}}
        tidb.now_ts = recording.start_ts - 1  # the first query gets the next one
        yield tidb.settings(status_port=status.port)
