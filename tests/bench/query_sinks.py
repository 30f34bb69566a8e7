"""A dump and live rows into the sinks that people query, and to a receiver, each beside its target's own bulk load of the same rows.

Lakes commit each batch here, without waiting for more.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench import sink_delta, sink_iceberg
from tests.bench.bench import Bench
from tests.bench.figures import Figure
from tests.bench.sink_clickhouse import clickhouse
from tests.bench.sink_http import http_target
from tests.bench.sink_opensearch import opensearch_target
from tests.bench.sink_storage import storage
from tests.bench.sinks import of_target, some_rows
from tests.support.services.clickhouse import ClickHouse
from tests.support.services.http_receiver import HttpReceiver
from tests.support.services.opensearch import OpenSearchNode


def measure(bench: Bench) -> Iterator[Figure]:
    source = some_rows(bench)
    folder = bench.new_folder("lake")
    for target in (
        sink_iceberg.target(folder / "iceberg", "append"),
        sink_iceberg.target(folder / "iceberg", "merge"),
        sink_delta.target(folder / "delta", "append"),
        sink_delta.target(folder / "delta", "merge"),
        storage(folder / "storage"),
    ):
        yield from of_target(bench, source, target)
    with HttpReceiver(bench.new_folder("receiver")) as receiver:
        yield from of_target(bench, source, http_target(receiver))
    with ClickHouse(bench.new_folder("clickhouse")) as server:
        yield from of_target(bench, source, clickhouse(server))
    with OpenSearchNode(bench.new_folder("opensearch"), heap_mb=1024) as node:
        yield from of_target(bench, source, opensearch_target(node))
