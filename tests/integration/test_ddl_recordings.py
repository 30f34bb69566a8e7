"""Dumps before, inside and after real schema changes, on any schedule, with crashes and resends: the merged output, with its DDLs
carried out, equals the truth at every snapshot, and no row goes back (P1, P2, P4, P5).

TiCDC's own Kafka feeds tell some rows wrongly or not at all: amid MODIFY COLUMN it sends NULL for the column
(pingcap/ticdc#5548), and amid REMOVE PARTITIONING it loses a row. Nobody who reads Kafka can know. These rows are found here by
comparing the feed with what TiKV sent, they are counted, and no other row may differ.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from sidecar.replay.history import RecordedHistory
from sidecar.replay.judge import table_replay
from sidecar.replay.judge.rows import Key, Row, equal_rows
from sidecar.shared.model.nouns import MARK_TABLE, Seq, TableName
from sidecar.shared.model.progress import DumpState, progress_from_json
from tests.lanes import LANE
from tests.support.kv_ddl import ddl_recording, feed_changes
from tests.support.replaying import Run, Stage, live, stage

CHUNK_ROWS = (1000, 10, 50, 100_000)
KAFKA_FEEDS = ("open-protocol", "canal-json", "open-protocol-index")
FEEDS = {"ddl": ("kv", *KAFKA_FEEDS), "ddl-new": ("kv", *KAFKA_FEEDS, "simple-json")}
"""The classic architecture's simple stops at the first DDL that adds a column before others (feeds/encoded/column_order.py)."""
SEEDS = [3 * number % 20 for number in range(LANE.schedules)]
"""So that a few of them, too, have each feed, each size of chunks and each number of crashes, and moments of the whole recording."""
WRONG_IN_TICDC = {"ddl": {"item": 2, "event_log": 1}, "ddl-new": {"item": 2}}
"""Keys of which TiCDC tells at least one version wrongly or not at all."""

pytestmark = pytest.mark.recordings


@pytest.fixture(autouse=True)
def _all_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_replay, "SAMPLES_MAX", 10_000)


def last_name(history: RecordedHistory, name: TableName, ts: int) -> TableName:
    for step in history.steps:
        if step.ts >= ts:
            name = step.names.get(name) or name
    return name


@cache
def wrong_in_ticdc(name: str, feed: str) -> frozenset[tuple[TableName, Key]]:
    """The keys, with their table's last name, whose rows differ from what TiKV sent."""
    history = stage(name, feed).feed.history
    assert history is not None
    reported: dict[tuple[int, TableName, Key], Row] = {}
    for version, decoded in feed_changes(ddl_recording(name), feed):
        if decoded["after"] is not None:
            row: Row = tuple(decoded["after"])
            reported[decoded["commit_ts"], version.name, history.key_of(version.name, decoded["commit_ts"] - 1, row)] = row
    result = set()
    for change in history.changes:
        if change.table != MARK_TABLE and change.after is not None:
            table = history.table_at(change.table, change.commit_ts - 1)
            assert table is not None
            key = history.key_of(change.table, change.commit_ts - 1, change.after)
            other = reported.get((change.commit_ts, change.table, key))
            if other is None or not equal_rows(table.schema, other, change.after):
                result.add((last_name(history, change.table, change.commit_ts), key))
    return frozenset(result)


def phases(made: Stage, run: Run) -> tuple[Counter[str], int]:
    """Play, judge, and tell where the dump was at each DDL of a table that it dumps; and how many died."""
    verdict, deaths, log = live(made, run)
    wrong = frozenset[tuple[TableName, Key]]() if made.feed.name == "kv" else wrong_in_ticdc(made.recording.name, made.feed.name)
    assert not verdict.unexpected_rows
    for table in verdict.tables:
        assert table.reason is None, f"{run}: {table.table} {table.reason}"
        kinds = (table.missing, table.extra, table.different, table.went_back)
        others = [sample for kind in kinds for sample in kind.samples if (table.table, sample.key) not in wrong]
        assert not others, f"{run}: {table.table} {others}"
    assert sum(table.snapshots_compared for table in verdict.tables) > 0
    touched = {step.ts: step.names.keys() | step.schemas.keys() for step in made.feed.steps}
    counter: Counter[str] = Counter()
    before, seq = None, 0
    while (manifest := log.manifest(Seq(seq))) is not None:
        for name in {name for ddl in manifest.ddls for name in touched.get(ddl.commit_ts, ())}:
            progress = next((one for one in before.tables if one.table == name), None) if before else None
            if before is None:
                counter["before the dump"] += 1
            elif progress is None or progress.complete_at is not None or before.state is not DumpState.RUNNING:
                counter["after the table"] += 1
            else:
                counter["inside the table" if progress.chunks else "before the table"] += 1
        before, seq = progress_from_json(manifest.progress) if manifest.progress else None, seq + 1
    return counter, len(deaths)


@pytest.mark.parametrize("brackets", ["watermark", "snapshot"])
@pytest.mark.parametrize("name", ["ddl", "ddl-new"])
def test_a_dump_at_any_moment_of_schema_changes_ends_equal_to_the_truth(name: str, brackets: str) -> None:
    result, deaths = Counter[str](), 0
    for seed in SEEDS:
        made, part = stage(name, FEEDS[name][seed % len(FEEDS[name])]), seed % 10 / 11
        run = Run(brackets, seed, chunk_rows=CHUNK_ROWS[seed % len(CHUNK_ROWS)], crashes=seed % 4, resends=seed % 5, after_part=part)
        reported, died = phases(made, run)
        result += reported
        deaths += died
    assert deaths >= LANE.schedules / 2, "too few crashes to prove anything"
    met = [result[phase] for phase in ("before the dump", "before the table", "inside the table", "after the table")]
    assert min(met) >= LANE.schedules // 4, result


@pytest.mark.parametrize(("name", "feed"), [(name, feed) for name, feeds in FEEDS.items() for feed in feeds[1:]])
def test_what_ticdc_reports_wrongly_is_counted(name: str, feed: str) -> None:
    wrong = wrong_in_ticdc(name, feed)
    assert Counter(table.table for table, _ in wrong) == WRONG_IN_TICDC[name]
