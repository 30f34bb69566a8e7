"""Recorded streams of real clusters into Delta tables: whatever the schedule, whoever dies when, the log of changes and the merged tables
end as the truth; and so does each version of the past.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast
from urllib.parse import quote

import pytest

from sidecar.core.model import MARK_TABLE, CommitTs, TableName, TableSchema
from sidecar.errors import SinkError
from sidecar.log.manifest import Manifest
from sidecar.log.storage import Folder
from sidecar.verify.rows import Key, Row, equal_rows
from spark_merge.ddl.routes import routes_of
from spark_merge.sinks.delta.columns import Mode
from tests.lanes import LANE
from tests.support.delta_place import Texts, delta_table, folder_of, rows_of
from tests.support.recorded_target import Case, Judge, cases, counted, deliver, differences, recorded
from tests.support.replaying import Run, Stage, stage

pytestmark = [pytest.mark.recordings]

CASES = cases(Case("rowformats", "kv", "snapshot", 0))
MODES: tuple[Mode, ...] = ("append", "merge")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_tables_end_as_the_truth(tmp_path: Path, case: Case) -> None:
    """Seeds take the modes in turn."""
    made, _, _ = case.record(tmp_path / "log")
    mode = MODES[case.seed % len(MODES)]
    uri = f"delta://{tmp_path}/out?mode={mode}"
    assert deliver(tmp_path / "log", uri, seed=case.seed, deaths=5) > 0
    assert not differences(made, partial(rows_of, folder_of(uri), mode))


@pytest.mark.parametrize("mode", ["append", "merge"] if LANE.whole else ["merge"])
def test_each_version_is_the_table_at_the_moment_that_its_commit_tells(tmp_path: Path, mode: Mode) -> None:
    """A version is told by its commit's `userMetadata`; what a table's dump has not brought yet may be missing."""
    made = stage("demo", "kv")
    log, manifests = recorded(tmp_path / "log", made, Run("snapshot", 1, chunk_rows=200))
    uri = f"delta://{tmp_path}/out?mode={mode}"
    deliver(tmp_path / "log", uri, seed=1, deaths=3)
    judge = Judge(made, lambda _: (), log, manifests)
    whole = 0
    for name in (table for table in made.tables if table != MARK_TABLE):
        found = delta_table(folder_of(uri), name)
        assert found is not None
        commits = [commit for commit in found.history() if "userMetadata" in commit]
        for commit in commits if LANE.whole else [commits[0], commits[len(commits) // 2]]:
            told = json.loads(commit["userMetadata"])["ticdc-dump"]
            upto_ts = CommitTs(int(told["upto_ts"]))
            assert upto_ts == manifests[told["last_seq"]].upto_ts
            complete_at = judge._complete(told["last_seq"]).get(name)
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


# ---- schema changes -------------------------------------------------------------------------------------------------

SCHEMA_CHANGES = [*itertools.product(["ddl", "ddl-new"], ["watermark", "snapshot"], range(10))]
ROUTES = "shop.nokey2=>shop.nokey,shop.ci_pk2=>shop.ci_pk,shop.dec_pk2=>shop.dec_pk"
NOT_FOLLOWED = {
    "alter table ledger truncate partition p2024": {"ledger"},
    "alter table ledger exchange partition pmax with table swap_me without validation": {"ledger", "swap_me"},
}
"""DDLs that move rows without a change of each, and the tables that are not as the source's from then on."""


def _ddls_not_followed(manifests: Sequence[Manifest]) -> dict[str, CommitTs]:
    return {ddl.query: ddl.commit_ts for manifest in manifests for ddl in manifest.ddls if ddl.query in NOT_FOLLOWED}


class Followed(Judge):
    """But tables that the operator has said are seen to by hand, and nobody did."""

    def _tables(self, manifest: Manifest) -> list[TableName]:
        lost = set[str]().union(*NOT_FOLLOWED.values())
        return [name for name in super()._tables(manifest) if name.table not in lost]


if LANE.whole:  # a minute; test_delta_changes.py has a table's by hand

    @pytest.mark.parametrize(("name", "brackets", "seed"), SCHEMA_CHANGES)
    def test_after_each_schema_change_the_merged_tables_are_the_sources(tmp_path: Path, name: str, brackets: str, seed: int) -> None:
        made = stage(name, "kv")
        run = Run(brackets, seed, chunk_rows=(1000, 20)[seed % 2], after_part=seed % 10 / 11)
        log, manifests = recorded(tmp_path / "log", made, run)
        done = ",".join(map(str, _ddls_not_followed(manifests).values()))
        uri = f"delta://{tmp_path}/out?mode=merge&routes={quote(ROUTES)}&ddl-done={done}"
        judge = Followed(made, partial(_routed, folder_of(uri)), log, manifests)
        assert deliver(tmp_path / "log", uri, seed=seed, deaths=5, after=judge.look) > 0
        judge.end()
        assert judge.whole > len(made.tables)
        assert len(judge.ddls) > 10


def _routed(folder: Folder, schema: TableSchema) -> list[Texts]:
    place = routes_of(ROUTES).target(schema.name)
    return rows_of(folder, "merge", replace(schema, name=place))


if LANE.whole:  # half a minute; test_delta_ddl.py has these DDLs

    def test_a_schema_change_that_cannot_be_followed_stops_by_name(tmp_path: Path) -> None:
        made = stage("ddl", "kv")
        _, manifests = recorded(tmp_path / "log", made, Run("watermark", 3))
        expected = _ddls_not_followed(manifests)
        assert expected.keys() == NOT_FOLLOWED.keys()
        uri = f"delta://{tmp_path}/out?mode=merge&routes={quote(ROUTES)}&ddl-done="
        for query, commit_ts in sorted(expected.items(), key=lambda one: one[1]):
            with pytest.raises(SinkError, match=query) as refused:
                deliver(tmp_path / "log", uri, seed=1, deaths=0)
            assert f"ddl-done={commit_ts}" in refused.value.hint
            uri += f"{commit_ts},"
        deliver(tmp_path / "log", uri, seed=1, deaths=0)
