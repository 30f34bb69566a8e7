"""The http: sink into the sample receiver: its lines, folded by a consumer, are the truth.

The fold is `ticdc-dump replay`'s own (sidecar/replay/judge): rows by key in the order of the lines, DDLs between them, held against each
snapshot that the source's tables were read at; no row goes back. Lines have DDLs and the tables after them, and a reader goes by these
alone here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import pytest

from sidecar.replay.judge import table_replay
from sidecar.replay.judge.verify import replay
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, TableName
from sidecar.shared.model.progress import progress_from_json
from tests.integration.test_ddl_recordings import wrong_in_ticdc
from tests.support.read_back import read_back
from tests.support.recorded_target import Case, RecordedLog
from tests.support.replaying import Stage
from tests.support.services.http_receiver import HttpReceiver
from tests.support.targets.target import Place, RecordedSink, Target, numbers


@contextmanager
def target(place: Place) -> Iterator[Target]:
    receiver: HttpReceiver = place.server
    output = f"recorded{next(numbers)}"
    if not place.amid_schema_changes:
        uri = receiver.uri(output, body_rows="20", body_bytes="30000")
        yield Target(uri, read_back(uri), partial(check, receiver, output))
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_replay, "SAMPLES_MAX", 10_000)
        uri = receiver.uri(output, body_rows="500", compression="gzip")
        yield Target(uri, read_back(uri), partial(check_amid_schema_changes, receiver, output))


def check_amid_schema_changes(receiver: HttpReceiver, output: str, made: Stage, log: RecordedLog) -> None:
    """But for the rows that TiCDC itself sends wrongly over Kafka (test_ddl_recordings.py), which are as it sent them."""
    check(receiver, output, made, log)
    check_schemas(receiver, output)
    reported = [(int(record["commit_ts"]), record["query"]) for record in receiver.records(output) if record.get("kind") == "ddl"]
    assert reported == [(ddl.commit_ts, ddl.query) for manifest in log.manifests for ddl in manifest.ddls]
    assert len(reported) > 10


def complete_at_of(manifests: Sequence[Manifest]) -> Mapping[TableName, CommitTs]:
    reported = next(manifest.progress for manifest in reversed(manifests) if manifest.progress)
    return {table.table: table.complete_at for table in progress_from_json(reported).tables if table.complete_at is not None}


def check(receiver: HttpReceiver, output: str, made: Stage, log: RecordedLog) -> None:
    upto_ts, complete_at = log.manifests[-1].upto_ts, complete_at_of(log.manifests)
    records = receiver.records(output)
    seqs = [record["seq"] for record in records if record.get("kind") == "resolved"]
    assert seqs == list(range(seqs[-1] + 1))
    rows = [record for record in records if "kind" not in record]
    assert rows
    false, steps = made.feed.false_deletes, made.feed.steps
    verdict = replay(rows, made.truth, upto_ts=upto_ts, complete_at=complete_at, tables=made.tables, steps=steps, false_deletes=false)
    assert not verdict.unexpected_rows
    history = made.feed.history is not None
    wrong = wrong_in_ticdc(made.recording.name, made.feed.name) if history and made.feed.name not in ("kv", "binlog") else frozenset()
    for table in verdict.tables:
        assert table.reason is None, f"{table.table} {table.reason}"
        findings = [sample for kind in (table.missing, table.extra, table.different, table.went_back) for sample in kind.samples]
        others = [sample for sample in findings if (table.table, sample.key) not in wrong]
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


HTTP = RecordedSink(
    "http",
    target,
    still=[Case("demo", "open-protocol", "recorded", 0)],
    amid=[Case("ddl", "kv", "snapshot", 0)],
    server="http_receiver",
    group="http-receiver",
    ddl_feeds=("kv", "open-protocol", "canal-json"),
)
