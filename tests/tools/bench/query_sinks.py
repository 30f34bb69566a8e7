"""A dump and live rows into the sinks that people query, and to a receiver, each beside its target's own bulk load of the same rows.

Lakes commit each batch here, without waiting for more.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.services.clickhouse import ClickHouse
from tests.support.services.http_receiver import HttpReceiver
from tests.support.services.opensearch import OpenSearchNode
from tests.tools.bench import sink_delta, sink_iceberg
from tests.tools.bench.bench import Bench
from tests.tools.bench.figures import Figure, rate
from tests.tools.bench.sink_clickhouse import clickhouse
from tests.tools.bench.sink_http import http_target
from tests.tools.bench.sink_opensearch import opensearch_target
from tests.tools.bench.sink_storage import storage
from tests.tools.bench.sinks import of_target, read_alone, some_rows

OPENSEARCH_CHUNK_ROWS = 15_000
"""It takes a minute for each million."""


def measure(bench: Bench) -> Iterator[Figure]:
    source = some_rows(bench)
    merged = read_alone(bench, source)
    yield rate(f"{source.rows:,} rows read and merged, for no output", source.rows, merged, aim="", limit="a tenth of them is decoded")
    folder = bench.new_folder("lake")
    for target in (
        sink_iceberg.target(folder / "iceberg", "append"),
        sink_iceberg.target(folder / "iceberg", "merge"),
        sink_delta.target(folder / "delta", "append"),
        sink_delta.target(folder / "delta", "merge"),
        storage(folder / "storage"),
    ):
        yield from of_target(bench, source, target, merged)
    with HttpReceiver(bench.new_folder("receiver")) as receiver:
        yield from of_target(bench, source, http_target(receiver), merged)
    with ClickHouse(bench.new_folder("clickhouse")) as server:
        yield from of_target(bench, source, clickhouse(server), merged)
    with OpenSearchNode(bench.new_folder("opensearch"), heap_mb=1024) as node:
        fewer = some_rows(bench, chunk_rows=OPENSEARCH_CHUNK_ROWS)
        yield from of_target(bench, fewer, opensearch_target(node), read_alone(bench, fewer))
