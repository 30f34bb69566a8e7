"""A dump's chunks from TiKV, against a cluster of real gRPC servers that plays a real one's history: at each moment exactly the rows of
that moment, whatever regions, stores, PD and locks do meanwhile; decoded, they are what TiDB's own snapshot has.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sidecar.adapters.tidb.source import CLOSE_WAIT_S, OwnReaders, TidbSource, own_readers
from sidecar.feeds.kv.checks import reads
from sidecar.replay.judge.rows import equal_rows, rows_by_key
from sidecar.shared.config import Config, SourceSection, Tls
from sidecar.shared.errors import SourceError
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.chunk import WrittenChunk
from sidecar.shared.model.keyset import Key
from sidecar.shared.model.messages import Brackets, ChunkMisfit, ChunkRead, ReadChunk, ReadWith, SourceEvent, SourceFailed
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema
from sidecar.shared.process.checks import CheckStatus
from sidecar.shared.reads.tikv_reads import TikvReads
from sidecar.shared.rowcodec.key_values import rows_of
from sidecar.shared.rowcodec.kv_layout import kv_table_of, layout_of, schema_under
from sidecar.shared.rowcodec.kv_matcher import COMMIT, COMMITTED, PREWRITE
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from sidecar.shared.tikv import scan as tikv_scan
from tests.support.eventually import PATIENCE_S, eventually
from tests.support.read_tasks import reading_settings, tasks_here
from tests.support.recordings import recording
from tests.support.tikv.cluster import CLUSTER_ID, Cluster
from tests.support.tikv.faults import Faults
from tests.support.tikv.recorded import History, LogRow, whole_history
from tests.support.tikv.server import TikvServers
from tests.support.tikv.snapshot import newest
from tests.support.tikv.transactions import Lock

pytestmark = pytest.mark.recordings

DUMP = "0123456789abcdef"
NOWHERE = SourceSection(host="127.0.0.1", port=1, user="nobody", retry_s=1.0)
"""No SELECT is needed."""
OUTAGE_MAX_S = 2.0
ORDERS = TableName("zero", "orders")
LEDGER = TableName("zero", "ledger")
"""Partitioned."""


@cache
def schemas() -> dict[TableName, TableSchema]:
    """Of the tables that a changefeed carries, as a feed of key-values has them."""
    folder = recording("zero")
    reported = json.loads((folder / "recording.json").read_bytes())
    results = {}
    for path in sorted((folder / "schema" / reported["start_ts"]).glob("zero.*.json")):
        name = TableName("zero", path.name.split(".")[1])
        if reported["keys"][name.table]:
            layout = layout_of(1, json.loads(path.read_bytes()), new_collation=True)
            results[name] = schema_under(TableSchema(name, (), ()), layout)
    return results


@dataclass
class Files:
    written: dict[str, pa.Table] = field(default_factory=dict)

    def write(self, path: str, rows: pa.Table) -> WrittenChunk:
        self.written[path] = rows
        return WrittenChunk(rows.nbytes)


@dataclass
class Stage:
    cluster: Cluster
    servers: TikvServers
    source: TidbSource
    files: Files
    chunks: int = 0

    def read(self, table: TableName, after: Key | None = None, upper: Key | None = None, **more: Any) -> SourceEvent:
        self.chunks += 1
        command = ReadChunk(DUMP, 1, self.chunks, table, after, upper, 1_000_000, Brackets.SNAPSHOT, read_with=ReadWith.TIKV)
        self.source.request(replace(command, **more))
        until_s = time.monotonic() + PATIENCE_S
        while not (events := self.source.results()):
            assert time.monotonic() < until_s, "nothing came"
            time.sleep(0.001)  # a source reports what is done at a call alone
        return events[0]

    def rows(self, event: SourceEvent) -> pa.Table:
        assert isinstance(event, ChunkRead), event
        rows = self.files.written[event.file.path]
        assert event.file.rows == rows.num_rows
        return rows

    def expected(self, table: TableName, ts: int, position: int) -> dict[bytes, bytes]:
        ranges = [rows_of(one) for one in schemas()[table].physical_ids]
        return {k: v for k, v in newest(self.cluster.history, position, ts).items() if any(k in range_ for range_ in ranges)}

    def split_at_random(self, seed: int, regions: int) -> None:
        choice = random.Random(seed)
        for _ in range(regions):
            self.cluster.split(choice.choice(self.cluster.history.log).key)
            self.cluster.lead(choice.randrange(len(self.cluster.regions)), choice.choice(sorted(self.cluster.stores)))


@contextmanager
def staged(history: History, *, seed: int = 0, at: int | None = None, cluster_id: int = 0, **settings: Any) -> Iterator[Stage]:
    cluster, files = Cluster(history, seed=seed, stores=3), Files()
    cluster.advance(len(history.log) if at is None else at)
    with TikvServers(cluster) as servers:
        servers.follows_log = True
        raw = TikvReads(servers.section(**{"outage_max_s": OUTAGE_MAX_S, **settings}), {}, cluster_id=cluster_id)
        readers = own_readers(NOWHERE, raw, write_chunk=files.write)
        source = TidbSource(NOWHERE, schemas=schemas(), write_chunk=files.write, changefeed_id="test", make_readers=readers)
        try:
            yield Stage(cluster, servers, source, files)
        finally:
            source.close()


@pytest.fixture
def stage() -> Iterator[Stage]:
    """At the history's end."""
    with staged(whole_history("zero")) as result:
        yield result


def tables() -> Sequence[TableName]:
    return sorted(schemas())


def texts(table: TableName, raw: dict[bytes, bytes]) -> list[tuple[str | None, ...]]:
    """By the slow decoder, in the order of the keys."""
    return [tuple(decode_row(kv_table_of(schemas()[table]), key, raw[key])) for key in sorted(raw)]


def tuples(rows: pa.Table) -> list[tuple[str | None, ...]]:
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


# ---- the rows -------------------------------------------------------------------------------------------------------


def test_at_the_end_the_rows_are_those_of_tidbs_own_snapshot(stage: Stage) -> None:
    folder = recording("zero")
    (truth_ts,) = json.loads((folder / "recording.json").read_bytes())["truth"]
    stage.split_at_random(seed=1, regions=12)
    compared = 0
    for table in tables():
        schema = schemas()[table]
        rows = stage.rows(stage.read(table))
        assert rows.column_names == list(schema.column_names())
        assert all(kind == pa.string() for kind in rows.schema.types)
        truth = rows_by_key(schema, pq.read_table(folder / "truth" / truth_ts / f"{table}.parquet"))
        results = rows_by_key(schema, rows)
        assert results.keys() == truth.keys(), table
        assert all(equal_rows(schema, results[key], row) for key, row in truth.items()), table
        compared += len(truth)
    assert compared > 3_000
    assert len(set(stage.servers.read_regions)) > 8


@pytest.mark.parametrize("seed", range(6))
def test_chunk_after_chunk_is_the_table_as_of_each_ones_moment_whatever_happens(seed: int) -> None:
    """Between chunks the cluster advances: each one is of its own moment, and says which."""
    history, choice = whole_history("zero"), random.Random(seed)
    with staged(history, seed=seed, at=len(history.log) - 2_000) as stage:
        stage.split_at_random(seed, regions=8)
        faults, read = Faults(stage.servers, seed=seed), 0
        for table in tables():
            after: Key | None = None
            while True:
                faults.happen()
                if stage.cluster.open_rows():  # a lock that nobody ends yet is waited for: the next test's
                    stage.cluster.advance(next_without_locks(stage.cluster))
                position = stage.cluster.position
                rows_max = choice.choice([1, 7, 50, 1_000])
                event = stage.read(table, after, rows_max=rows_max)
                rows = stage.rows(event)
                assert isinstance(event, ChunkRead)
                assert event.file.read_tso is not None
                expected = stage.expected(table, event.file.read_tso, position)
                inside = {
                    key: value
                    for key, value in expected.items()
                    if (after is None or key > bytes.fromhex(after[0])) and (event.exhausted or key <= bytes.fromhex(event.file.last[0]))  # type: ignore[index]  # rows
                }
                assert tuples(rows) == texts(table, inside), (table, after)
                assert rows.num_rows == rows_max or event.exhausted
                assert event.exhausted or event.file.last != after, "it advances"
                read, after = read + rows.num_rows, event.file.last
                stage.cluster.advance(choice.randrange(40))
                if event.exhausted:
                    break
        assert read > 3_000


def next_without_locks(cluster: Cluster) -> int:
    """Rows of the log until no transaction is open; all that are left if that never is."""
    copy = Cluster(cluster.history)
    copy.advance(cluster.position)
    while copy.open_rows() and not copy.is_at_end:
        copy.advance(1)
    return copy.position - cluster.position


def test_chunks_of_one_row_are_the_whole_table(stage: Stage) -> None:
    stage.split_at_random(seed=5, regions=12)
    rows, after = list[tuple[str | None, ...]](), None
    while True:
        event = stage.read(LEDGER, after, rows_max=1)
        rows += tuples(stage.rows(event))
        assert isinstance(event, ChunkRead)
        assert event.exhausted or event.file.last != after, "it advances"
        after = event.file.last
        if event.exhausted:
            break
    assert rows == texts(LEDGER, stage.expected(LEDGER, stage.cluster.history.end_ts, stage.cluster.position))
    assert len(schemas()[LEDGER].physical_ids) > 1


def test_a_chunk_reports_the_moment_of_its_rows(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes between its first row and its last."""
    scan = tikv_scan.SnapshotScan.rows

    def slow(*given: Any, **named: Any) -> Any:
        result = scan(*given, **named)
        stage.cluster.rest(1_000)
        return result

    monkeypatch.setattr(tikv_scan.SnapshotScan, "rows", slow)
    before_ts = stage.cluster.history.end_ts + stage.cluster.idle_ts
    event = stage.read(ORDERS)
    assert isinstance(event, ChunkRead)
    assert event.file.read_tso is not None
    assert event.file.read_tso < before_ts


def test_ranges_that_it_proposes_hold_each_row_once(stage: Stage) -> None:
    stage.split_at_random(seed=3, regions=40)
    cut = 0
    for table in tables():
        first = stage.read(table, rows_max=5, bounds_max=6)
        assert isinstance(first, ChunkRead)
        rows = tuples(stage.rows(first))
        assert len(first.bounds) <= 6
        assert first.exhausted or first.bounds, table
        after = first.file.last
        for upper in first.bounds:
            assert after is not None
            assert after[0] < upper[0]
            event = stage.read(table, after, upper)
            assert isinstance(event, ChunkRead)
            assert event.exhausted
            rows += tuples(stage.rows(event))
            after = upper
        whole = stage.expected(table, stage.cluster.history.end_ts, stage.cluster.position)
        assert rows == texts(table, whole)
        if first.bounds:
            assert first.bounds[-1] == (max(whole).hex(),), "the last one is the highest key that has a row"
        cut += len(first.bounds) > 1
    assert cut > 3


def test_a_chunk_ends_a_little_after_its_bytes(stage: Stage) -> None:
    event = stage.read(ORDERS, bytes_max=1)
    assert isinstance(event, ChunkRead)
    assert 0 < event.file.rows <= tikv_scan.CALL_ROWS_FIRST
    assert not event.exhausted
    rest = stage.read(ORDERS, event.file.last)
    assert isinstance(rest, ChunkRead)
    assert event.file.rows + rest.file.rows == len(stage.expected(ORDERS, stage.cluster.history.end_ts, stage.cluster.position))


def test_a_table_without_rows_is_an_empty_chunk() -> None:
    with staged(History((), (whole_history("zero").end_ts,), {})) as stage:
        event = stage.read(LEDGER, bounds_max=8)
        assert isinstance(event, ChunkRead)
        assert (event.file.rows, event.exhausted, event.bounds, event.file.last) == (0, True, (), None)
        assert stage.rows(event).column_names == list(schemas()[LEDGER].column_names())


def test_a_watermark_bracket_needs_no_timestamp_of_the_read(stage: Stage) -> None:
    event = stage.read(ORDERS, brackets=Brackets.WATERMARK)
    assert isinstance(event, ChunkRead)
    assert event.file.read_tso is None
    assert event.file.rows


# ---- locks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deletes", [False, True])
def test_a_row_that_is_being_committed_is_waited_for_and_has_the_value_that_it_then_has(deletes: bool) -> None:
    """Its transaction began before the read's moment, so it may commit below it, and here it does."""
    key, versions = two_versions(ORDERS)
    first, second = versions[0], versions[1]._replace(value=b"" if deletes else versions[1].value)
    log = (first, second._replace(kind=PREWRITE, commit_ts=0), second._replace(kind=COMMIT))
    with staged(History(log, [CommitTs(first.commit_ts)] * 4, {}), at=2) as stage:
        stage.servers.follows_log, stage.servers.physical_ms = False, (second.commit_ts >> 18) + 1_000

        def commit() -> None:
            eventually(lambda: stage.servers.scans > 0)
            stage.cluster.advance(1)

        committing = threading.Thread(target=commit)
        committing.start()
        event = stage.read(ORDERS)
        committing.join()
        assert tuples(stage.rows(event)) == ([] if deletes else texts(ORDERS, {key: second.value}))
        assert len(stage.servers.read_regions) > 1, "it was requested again"


def two_versions(table: TableName) -> tuple[bytes, list[LogRow]]:
    """Of a key that the history has so many of: two commits that put a row."""
    ranges = [rows_of(one) for one in schemas()[table].physical_ids]
    results: dict[bytes, list[LogRow]] = {}
    for row in whole_history("zero").log:
        if row.kind in (COMMIT, COMMITTED) and row.value and any(row.key in range_ for range_ in ranges):
            results.setdefault(row.key, []).append(row)
            if len(results[row.key]) == 2:
                return row.key, results[row.key]
    raise AssertionError("the history changes no row")


@pytest.mark.parametrize("commit_ts", [0, 1])
def test_a_lock_of_a_dead_client_is_resolved_as_its_primary_says(stage: Stage, commit_ts: int) -> None:
    """`commit_ts` 0: it was rolled back. Else the row is the one that it has committed, though its key still has the lock."""
    key, now_ts = min(stage.expected(ORDERS, stage.cluster.history.end_ts, stage.cluster.position)), stage.cluster.history.end_ts
    start_ts, transactions = now_ts - 2_000, stage.cluster.transactions
    with stage.cluster.changed:
        transactions.lock(Lock(key, start_ts, primary=b"primary", ttl_ms=1))
        transactions.ends[start_ts, b"primary"] = commit_ts and start_ts + 5
    event = stage.read(ORDERS)
    assert isinstance(event, ChunkRead)
    assert transactions.ends[start_ts, key] == (commit_ts and start_ts + 5)
    assert not transactions.locks


def test_a_lock_that_nobody_ends_is_named_and_the_range_is_read_again_later(stage: Stage) -> None:
    key, now_ts = min(stage.expected(ORDERS, stage.cluster.history.end_ts, stage.cluster.position)), stage.cluster.history.end_ts
    with stage.cluster.changed:
        stage.cluster.transactions.lock(Lock(key, now_ts - 1, primary=key, ttl_ms=1 << 40))
    failed = stage.read(ORDERS)
    assert isinstance(failed, SourceFailed)
    assert failed.away, "so the dump waits for it"
    assert f"waits for a lock of transaction {now_ts - 1}" in failed.reason
    assert "zero.orders" in failed.reason


def test_rows_before_and_behind_a_lock_come_once_and_the_locked_one_in_between(stage: Stage) -> None:
    """All in one region and one answer; the lock is a dead client's, whose transaction was rolled back."""
    expected, now_ts = stage.expected(ORDERS, stage.cluster.history.end_ts, stage.cluster.position), stage.cluster.history.end_ts
    transactions = stage.cluster.transactions
    with stage.cluster.changed:
        for key in sorted(expected)[20:60:20]:
            transactions.lock(Lock(key, now_ts - 2_000, primary=b"primary", ttl_ms=1))
        transactions.ends[now_ts - 2_000, b"primary"] = 0
    assert tuples(stage.rows(stage.read(ORDERS))) == texts(ORDERS, expected)
    assert not transactions.locks


def test_a_lock_that_is_in_memory_yet_is_waited_for(stage: Stage) -> None:
    lock = Lock(b"primary", stage.cluster.history.end_ts - 1, primary=b"primary", ttl_ms=3_000, is_async=True).info()
    stage.servers.snapshots.locks_in_memory = [lock, lock]
    event = stage.read(ORDERS)
    assert isinstance(event, ChunkRead)
    assert event.file.rows == len(stage.expected(ORDERS, stage.cluster.history.end_ts, stage.cluster.position))


# ---- what cannot be -------------------------------------------------------------------------------------------------


def test_a_cluster_that_does_not_serve_is_away(stage: Stage) -> None:
    for store in sorted(stage.cluster.stores):
        stage.servers.stop_store(store)
    failed = stage.read(ORDERS)
    assert isinstance(failed, SourceFailed)
    assert failed.away
    assert "TiKV store" in failed.reason


def test_pd_that_does_not_answer_is_away(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.shared.tikv.pd.TSO_RETRY_S", 1.0)
    for number in (0, 1):
        stage.servers.stop_pd(number)
    failed = stage.read(ORDERS)
    assert isinstance(failed, SourceFailed)
    assert failed.away
    assert "PD" in failed.reason


def test_a_row_that_the_schema_does_not_fit_is_a_ddls_until_that_has_passed(stage: Stage) -> None:
    key = max(stage.expected(ORDERS, stage.cluster.history.end_ts, stage.cluster.position))
    past_ts = stage.cluster.history.end_ts - 1
    log = (*stage.cluster.history.log, LogRow(COMMITTED, key + b"\0", 1, past_ts, b"\x80no row", b""))
    with staged(History(log, (*stage.cluster.history.resolved, stage.cluster.history.end_ts), {})) as other:
        event = other.read(ORDERS)
        assert isinstance(event, ChunkMisfit), event
        assert event.schema_ts == past_ts
        assert str(ORDERS) in event.reason


def test_a_cursor_of_another_way_of_reading_is_refused(stage: Stage) -> None:
    for after in (("42",), ("74",), ("a", "b"), ("no hex",)):
        failed = stage.read(ORDERS, after)
        assert isinstance(failed, SourceFailed), after
        assert "dumprestart" in failed.hint


def test_without_tikv_in_the_settings_a_dump_that_reads_from_it_says_so() -> None:
    source = TidbSource(NOWHERE, schemas=schemas(), write_chunk=Files().write, changefeed_id="test")
    try:
        source.request(ReadChunk(DUMP, 1, 1, ORDERS, None, None, 10, Brackets.SNAPSHOT, read_with=ReadWith.TIKV))
        until_s = time.monotonic() + PATIENCE_S
        while not (events := source.results()):
            assert time.monotonic() < until_s
            time.sleep(0.001)  # a source reports what is done at a call alone
        (failed,) = events
        assert isinstance(failed, SourceFailed)
        assert "tikv.pd" in failed.hint
    finally:
        source.close()


def test_a_table_of_a_feed_without_key_values_is_refused(stage: Stage) -> None:
    stage.source.follow({ORDERS: replace(schemas()[ORDERS], layout="")})
    failed = stage.read(ORDERS)
    assert isinstance(failed, SourceFailed)
    assert "layout" in failed.reason


def test_it_ends_at_once_when_it_is_closed_amid_a_call() -> None:
    with staged(whole_history("zero"), outage_max_s=600.0) as stage:
        stage.servers.answers_scans.clear()
        stage.source.request(ReadChunk(DUMP, 1, 1, ORDERS, None, None, 10, Brackets.SNAPSHOT, read_with=ReadWith.TIKV))
        eventually(lambda: stage.servers.scans > 0)
        begun_s = time.monotonic()
        stage.source.close()
        assert time.monotonic() - begun_s < CLOSE_WAIT_S, "all its threads have ended"
        readers = stage.source._readers
        assert isinstance(readers, OwnReaders)
        for thread in readers._threads:
            thread.check()
        assert not list(stage.source.results())


def test_another_cluster_than_the_changefeeds_is_refused() -> None:
    """Its rows would be those of other tables, or of another time."""
    with staged(whole_history("zero"), cluster_id=7) as stage:
        failed = stage.read(ORDERS)
    assert isinstance(failed, SourceFailed)
    assert not failed.away
    assert f"is of cluster {CLUSTER_ID}, and the changefeed reads cluster 7" in failed.reason
    with staged(whole_history("zero"), cluster_id=CLUSTER_ID) as stage:
        assert isinstance(stage.read(ORDERS), ChunkRead)


def test_the_preflight_tries_a_read_and_the_clusters_id() -> None:
    with TikvServers(Cluster(whole_history("zero"))) as servers, ExitStack() as opened:
        sections = {"log": {"uri": "/nowhere"}, "sinks": ["file:///nowhere"], "etcd": {"endpoints": ["nowhere:2379"]}}
        given = msgspec.convert(
            {
                **sections,
                "changefeed": {"id": "orders"},
                "source": {"host": "nowhere", "user": "nobody"},
                "dump": {"read_with": "tikv"},
                "tikv": {"pd": servers.pd_addresses},
            },
            Config,
        )
        feed = Changefeed(ChangefeedName("default", "default", "orders"), "1", "blackhole:///", upstream_id=CLUSTER_ID)
        (finding,) = reads(given, feed, opened)
        assert finding.status is CheckStatus.OK
        assert "TiKV serves a dump's reads" in finding.what
        with pytest.raises(SourceError, match="the changefeed reads cluster 7"):
            list(reads(given, replace(feed, upstream_id=7), opened))


def test_certificates_that_are_not_there_fail_a_read_from_tikv_and_nothing_else() -> None:
    """An executor without them reads by SQL as before."""
    with staged(whole_history("zero"), tls=Tls(ca_file="/nowhere/ca.pem")) as stage:
        failed = stage.read(ORDERS)
    assert isinstance(failed, SourceFailed)
    assert "tikv.tls" in failed.reason


def test_what_was_read_before_a_ddl_serves_nothing_after_it(stage: Stage) -> None:
    """As on an executor, where the tables are one mapping that changes."""
    tables = dict(schemas())
    reads = TikvReads(stage.servers.section(), tables)
    session = reads.open()
    try:
        rows = session.read(ReadChunk(DUMP, 1, 1, ORDERS, None, None, 10, Brackets.WATERMARK), stopped=lambda: False)
        assert session.serves(rows)
        reads.follow(tables)
        assert not session.serves(rows)
    finally:
        session.close()


def test_chunks_that_end_for_time_end_behind_a_partition(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tikv_scan, "READ_S_MAX", 0.0)
    chunks, rows, after = 0, list[tuple[str | None, ...]](), None
    while True:
        event = stage.read(LEDGER, after)
        rows, chunks = rows + tuples(stage.rows(event)), chunks + 1
        assert isinstance(event, ChunkRead)
        assert event.exhausted or event.file.last != after, "it advances"
        after = event.file.last
        if event.exhausted:
            break
    assert chunks == len(schemas()[LEDGER].physical_ids)
    assert rows == texts(LEDGER, stage.expected(LEDGER, stage.cluster.history.end_ts, stage.cluster.position))


# ---- how much at once -----------------------------------------------------------------------------------------------


def test_rows_that_become_wide_come_in_calls_that_fit_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.shared.tikv.channel.MESSAGE_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(tikv_scan, "CALL_BYTES", 1 << 18)
    sizes = [20] * 3_000 + [60_000] * 100 + [20] * 500
    log = [LogRow(COMMITTED, rows_of(1).start + number.to_bytes(8, "big"), 1, 2, b"v" * size, b"") for number, size in enumerate(sizes)]
    cluster = Cluster(History(log, [CommitTs(1)] * len(log) + [CommitTs(10)], {}))
    cluster.advance(len(log))
    with TikvServers(cluster) as servers:
        scan = tikv_scan.SnapshotScan(servers.section(outage_max_s=OUTAGE_MAX_S))
        try:
            whole = scan.rows([rows_of(1)], CommitTs(9), rows_max=10_000, bytes_max=1 << 30)
            assert [len(value) for value in whole.values] == sizes
            part = scan.rows([rows_of(1)], CommitTs(9), rows_max=10_000, bytes_max=1 << 18)
            assert not part.whole
            assert 1 << 18 < sum(map(len, part.values)) < 1 << 20
        finally:
            scan.close()


# ---- tasks of Spark -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_cluster", [False, True])
def test_tasks_of_spark_read_the_same(stage: Stage, tmp_path: Path, on_cluster: bool) -> None:
    settings = reading_settings(NOWHERE, open_folder(str(tmp_path)), tikv=stage.servers.section())
    with tasks_here(settings, on_cluster=on_cluster) as remote:
        stage.source.close()
        write, readers = stage.files.write, remote.readers
        stage.source = TidbSource(NOWHERE, schemas=schemas(), write_chunk=write, changefeed_id="test", make_readers=readers)
        try:
            for table in (ORDERS, LEDGER):
                event = stage.read(table)
                assert isinstance(event, ChunkRead), event
                expected = stage.expected(table, stage.cluster.history.end_ts, stage.cluster.position)
                assert tuples(pq.read_table(tmp_path / event.file.path)) == texts(table, expected)
        finally:
            stage.source.close()
