"""Verifications of rows at rest: a source in MariaDB beside a SQL target, Iceberg tables and Parquet files with the same rows.

    delivery     a dump's delivery of these rows to the same sink: a dump is no faster
    checksum     SQL target only: COUNT and BIT_XOR of CRC32 of each row, chunk by chunk at both servers, as sync-diff-inspector compares

The source has no snapshots, and nothing changes; so it is taken for one that has.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from urllib.parse import quote

from sidecar.shared.log.verification import CheckState, RequestedTable, VerifyRequest
from sidecar.shared.model.keyset import quoted_table
from sidecar.shared.model.nouns import CommitTs, OperationId, TableName, TableSchema
from sidecar.shared.mysql.key_ranges import KeySpan
from sidecar.shared.sql.text import quoted
from spark_merge.delivery.batches import JobSettings
from spark_merge.port.readable import RowForm, RowsRead
from spark_merge.sinks.mysql.server import SqlServer
from spark_merge.sinks.registry import open_sink
from spark_merge.verify.child import OwnProcesses
from spark_merge.verify.runner import Verifications, VerifySettings
from spark_merge.verify.source import SourcePart, SqlSource
from tests.support.lake import uri_of
from tests.support.services.mariadb import MariaDb
from tests.tools.bench.account import ACCOUNT, SCHEMA
from tests.tools.bench.bench import Bench
from tests.tools.bench.dumped import Dumped, dumped
from tests.tools.bench.figures import Cost, Figure, beside, rate, timed_tree
from tests.tools.bench.sinks import deliver_to

WINDOWS, WINDOW_CHUNKS, CHUNK_ROWS = 10, 2, 50_000
COPY = "copy"
CHECKSUM_ROWS, CHECKSUM_THREADS = 50_000, 4


@dataclass(frozen=True, slots=True)
class AtRest:
    """`TimedPart` of rows that do not change."""

    part: SourcePart

    def __call__(self) -> Iterator[RowsRead]:
        return self.part()

    def at(self, ts: CommitTs | None) -> AtRest:  # at any
        return self


class StillSource(SqlSource):
    def has_snapshots(self) -> bool:
        return True

    def ranges(  # type: ignore[override]
        self, schema: TableSchema, ranges: Sequence[KeySpan], *, form: RowForm | None, where: str = ""
    ) -> list[AtRest]:
        return [AtRest(part) for part in super().ranges(schema, ranges, form=form, where=where)]


def measure(bench: Bench) -> Iterator[Figure]:
    source = dumped(bench.new_folder("log"), windows=WINDOWS, window_chunks=WINDOW_CHUNKS, chunk_rows=bench.sized(CHUNK_ROWS))
    with MariaDb(bench.new_folder("mariadb"), settings={"innodb-buffer-pool-size": "1G", "skip-log-bin": "ON"}) as db:
        sql = f"mysql://{db.user}:{quote(db.password, safe='')}@{db.host}:{db.port}/?create-tables=true&position-schema="
        deliver_to(bench, source, f"{sql}at_source")
        db.execute(f"ANALYZE TABLE {quoted_table(ACCOUNT)}")
        server = SqlServer(((db.host, db.port),), user=db.user)
        uris = {
            "a SQL target": f"{sql}at_copy&routes={quote(f'{ACCOUNT.schema}.*=>{COPY}.*')}",
            "Iceberg": uri_of(bench.new_folder("iceberg"), mode="merge", commit_interval="0s"),
            "Parquet files": f"file://{bench.new_folder('parquet')}?format=parquet",
        }
        for name, uri in uris.items():
            delivered = deliver_to(bench, source, uri)
            cost = _verified(bench, source, server, uri)
            figure = rate(f"verification of {source.rows:,} rows in {name}", source.rows, cost, aim="≥ 1.0", limit="a core a task")
            yield beside(figure, "a dump's delivery", source.rows, delivered)
            if uri.startswith("mysql:"):
                yield beside(replace(figure, aim="≥ 3"), "checksums of both sides", source.rows, _checksums(db, source.rows))


def _verified(bench: Bench, source: Dumped, server: SqlServer, uri: str) -> Cost:
    cost, runner = Cost(), OwnProcesses(len(os.sched_getaffinity(0)))
    settings = VerifySettings(JobSettings(source.log), StillSource(server), runner, {"sink": partial(open_sink, uri, log_id="bench")})
    request = VerifyRequest(OperationId(f"bench{time.monotonic_ns()}"), ("sink",), (RequestedTable(*ACCOUNT),))
    with timed_tree(cost):
        report = Verifications(settings).carry_out(request, Event())
    assert (report.state, report.tables[0].rows) == (CheckState.EQUAL, source.rows), report
    return cost


def _checksums(db: MariaDb, rows: int) -> Cost:
    """Of each chunk at both sides, two chunks at a time."""
    cost = Cost()
    starts = range(0, rows, CHECKSUM_ROWS)
    with ThreadPoolExecutor(CHECKSUM_THREADS) as pool, timed_tree(cost):
        results = [list(pool.map(partial(_checksum, db, TableName(schema, ACCOUNT.table)), starts)) for schema in (ACCOUNT.schema, COPY)]
    assert results[0] == results[1]
    return cost


def _checksum(db: MariaDb, table: TableName, start: int) -> tuple[object, ...]:
    columns = ", ".join(f"IFNULL({quoted(column.name)}, 'NULL')" for column in SCHEMA.columns)
    where = f"id >= {start} AND id < {start + CHECKSUM_ROWS}"
    [results] = db.execute(f"SELECT COUNT(*), BIT_XOR(CRC32(CONCAT_WS(',', {columns}))) FROM {quoted_table(table)} WHERE {where}")
    return tuple(results)
