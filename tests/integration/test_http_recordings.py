"""Recorded streams of real clusters into the sample receiver by workers that die: its lines, folded by a consumer, are the truth.

The fold is `ticdc-dump replay`'s own (sidecar/verify): rows by key in the order of the lines, DDLs between them, held against each snapshot
that the source's tables were read at; no row goes back. Lines tell DDLs and the tables after them, and a reader goes by these alone here.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from sidecar.core.model import MARK_TABLE, CommitTs, TableName
from sidecar.core.progress import progress_from_json
from sidecar.log.manifest import Manifest
from sidecar.log.storage import open_folder
from sidecar.verify import table_replay
from sidecar.verify.verify import replay
from tests.integration.test_ddl_recordings import wrong_in_ticdc
from tests.lanes import LANE
from tests.support.logged import copied
from tests.support.recorded_target import Case, Texts, cases, deliver, differences
from tests.support.replaying import Run, Stage, live, stage
from tests.support.services.http_receiver import HttpReceiver

pytestmark = [pytest.mark.xdist_group("http-receiver"), pytest.mark.recordings]

numbers = itertools.count()

CASES = cases(Case("demo", "open-protocol", "recorded", 0))
FEEDS = ("kv", "open-protocol", "canal-json")
DDLS = [*itertools.product(["ddl", "ddl-new"], ["watermark", "snapshot"], range(5))]
DDL_CASES = DDLS if LANE.whole else [("ddl", "snapshot", 0)]


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpReceiver]:
    with HttpReceiver(tmp_path_factory.mktemp("receiver")) as found:
        yield found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_lines_end_as_the_truth(receiver: HttpReceiver, tmp_path: Path, case: Case) -> None:
    made, _, manifests = case.record(tmp_path)
    output = f"recorded{next(numbers)}"
    assert deliver(tmp_path, receiver.uri(output, body_rows="20", body_bytes="30000"), seed=case.seed, deaths=5) > 0
    check(made, receiver, output, manifests[-1].upto_ts, complete_at_of(manifests))
    newest: dict[tuple[str, str], list[Texts]] = {}
    sql = 'SELECT "schema", "table", "row" FROM newest WHERE output = ?'
    for schema, table, row in receiver.query(sql, (f"/{output}",)):
        newest.setdefault((schema, table), []).append(tuple(json.loads(row).values()))
    assert not differences(made, lambda schema: newest.get(schema.name, []))


@pytest.mark.parametrize(("name", "brackets", "seed"), DDL_CASES)
def test_at_each_snapshot_amid_schema_changes_the_lines_are_the_truth(
    receiver: HttpReceiver, tmp_path: Path, name: str, brackets: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the rows that TiCDC itself tells wrongly over Kafka (test_ddl_recordings.py), which are as it told them."""
    monkeypatch.setattr(table_replay, "SAMPLES_MAX", 10_000)
    made = stage(name, FEEDS[seed % len(FEEDS)])
    run = Run(brackets, seed, chunk_rows=(1000, 20)[seed % 2], after_part=seed % 10 / 11)
    _, _, log = live(made, run)
    manifests = copied(log, open_folder(str(tmp_path)))
    output = f"recorded{next(numbers)}"
    assert deliver(tmp_path, receiver.uri(output, body_rows="500", compression="gzip"), seed=seed, deaths=5) > 0
    check(made, receiver, output, manifests[-1].upto_ts, complete_at_of(manifests))
    check_schemas(receiver, output)
    told = [(int(record["commit_ts"]), record["query"]) for record in receiver.records(output) if record.get("kind") == "ddl"]
    assert told == [(ddl.commit_ts, ddl.query) for manifest in manifests for ddl in manifest.ddls]
    assert len(told) > 10


def complete_at_of(manifests: Sequence[Manifest]) -> dict[TableName, CommitTs]:
    told = next(manifest.progress for manifest in reversed(manifests) if manifest.progress)
    return {table.table: table.complete_at for table in progress_from_json(told).tables if table.complete_at is not None}


def check(made: Stage, receiver: HttpReceiver, output: str, upto_ts: CommitTs, complete_at: Mapping[TableName, CommitTs]) -> None:
    records = receiver.records(output)
    seqs = [record["seq"] for record in records if record.get("kind") == "resolved"]
    assert seqs == list(range(seqs[-1] + 1))
    rows = [record for record in records if "kind" not in record]
    assert rows
    false, steps = made.feed.false_deletes, made.feed.steps
    verdict = replay(rows, made.truth, upto_ts=upto_ts, complete_at=complete_at, tables=made.tables, steps=steps, false_deletes=false)
    assert not verdict.unexpected
    history = made.feed.history is not None
    wrong = wrong_in_ticdc(made.recording.name, made.feed.name) if history and made.feed.name not in ("kv", "binlog") else frozenset()
    for table in verdict.tables:
        assert table.reason is None, f"{table.table} {table.reason}"
        found = [sample for kind in (table.missing, table.extra, table.different, table.went_back) for sample in kind.samples]
        others = [sample for sample in found if (table.table, sample.key) not in wrong]
        assert not others, f"{table.table} {others}"
    assert sum(table.snapshots_compared for table in verdict.tables) > 0


def check_schemas(receiver: HttpReceiver, output: str) -> None:
    """A reader that keeps each table's columns by the lines has those of every row, and knows the tables that are gone."""
    columns: dict[tuple[str, str], list[str]] = {}
    gone = set()
    for record in receiver.records(output):
        name = str(record.get("schema")), str(record.get("table"))
        match record.get("kind", "row"):
            case "schema":
                columns[name] = [column["name"] for column in record["columns"]]
                gone.discard(name)
            case "gone":
                gone.add(name)
            case "row":
                assert name not in gone
                for image in ("before", "after"):
                    assert record[image] is None or list(record[image]) == columns[name]
    assert columns
    assert gone
    assert tuple(MARK_TABLE) not in columns
