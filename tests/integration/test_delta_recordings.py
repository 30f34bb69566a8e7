"""Recorded streams of real clusters into Delta tables: each version of the past is the source at its moment, and a schema change that
cannot be followed stops the sink. What every sink does with recordings is in test_sink_recordings.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import cast
from urllib.parse import quote

import pytest

from sidecar.replay.judge.rows import Key, Row, equal_rows
from sidecar.shared.errors import SinkError
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, TableName
from spark_merge.sinks.delta.columns import Mode
from tests.lanes import LANE
from tests.support.delta_place import delta_table, folder_of, rows_of
from tests.support.recorded_target import Judge, RecordedLogs, counted, deliver, differences
from tests.support.replaying import Run, Stage, stage
from tests.support.targets.delta import ROUTES
from tests.support.targets.target import MOVE_ROWS, moves_rows

pytestmark = [pytest.mark.recordings]


@pytest.mark.parametrize("mode", ["append", "merge"] if LANE.whole else ["merge"])
def test_each_version_is_the_table_at_the_moment_that_its_commit_reports(tmp_path: Path, recorded_logs: RecordedLogs, mode: Mode) -> None:
    """A version is told by its commit's `userMetadata`; what a table's dump has not brought yet may be missing."""
    made = stage("demo", "kv")
    log = recorded_logs.of(made, Run("snapshot", 1, chunk_rows=200))
    uri = f"delta://{tmp_path}/out?mode={mode}"
    deliver(log.folder, uri, seed=1, deaths=3)
    judge = Judge(made, lambda _: (), log)
    whole = 0
    for name in (table for table in made.tables if table != MARK_TABLE):
        result = delta_table(folder_of(uri), name)
        assert result is not None
        commits = [commit for commit in result.history() if "userMetadata" in commit]
        for commit in commits if LANE.whole else [commits[0], commits[len(commits) // 2]]:
            reported = json.loads(commit["userMetadata"])["ticdc-dump"]
            upto_ts = CommitTs(int(reported["upto_ts"]))
            assert upto_ts == log.manifests[reported["last_seq"]].upto_ts
            complete_at = judge.complete(reported["last_seq"]).get(name)
            whole += _check_version(made, folder_of(uri), mode, name, commit["version"], upto_ts, complete_at)
    assert whole
    assert not differences(made, partial(rows_of, folder_of(uri), mode))


def _check_version(
    made: Stage, folder: Folder, mode: Mode, name: TableName, version: int, upto_ts: CommitTs, complete_at: CommitTs | None
) -> int:
    """1 where every row must be there."""
    schema = made.history.schema(name, upto_ts)
    assert schema is not None
    expected: Mapping[Key, Row] = made.history.rows(name, upto_ts)
    there = cast("Mapping[Key, Row]", counted(rows_of(folder, mode, schema, version), schema))
    for key, row in there.items():
        assert key in expected, (name, version, key)
        assert equal_rows(schema, row, expected[key]), (name, version, row, expected[key])
    if complete_at is None or complete_at > upto_ts:
        return 0
    assert there.keys() == expected.keys(), (name, version)
    return 1


if LANE.whole:  # half a minute; test_delta_ddl.py has these DDLs

    def test_a_schema_change_that_cannot_be_followed_stops_by_name(tmp_path: Path, recorded_logs: RecordedLogs) -> None:
        log = recorded_logs.of(stage("ddl", "kv"), Run("watermark", 3))
        expected = {ddl.query: ddl.commit_ts for manifest in log.manifests for ddl in manifest.ddls if moves_rows(ddl)}
        assert len(expected) == len(MOVE_ROWS)
        uri = f"delta://{tmp_path}/out?mode=merge&routes={quote(ROUTES)}&ddl-done="
        for query, commit_ts in sorted(expected.items(), key=lambda one: one[1]):
            with pytest.raises(SinkError, match=query) as refused:
                deliver(log.folder, uri, seed=1, deaths=0)
            assert f"ddl-done={commit_ts}" in refused.value.hint
            uri += f"{commit_ts},"
        deliver(log.folder, uri, seed=1, deaths=0)
