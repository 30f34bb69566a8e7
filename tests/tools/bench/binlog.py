"""Rows of TiDB-Binlog: out of transactions as pumps stream them, folded, and decoded by columns beside the slow decoder; of the `binlog`
recording in its own mix, in batches as a Spark task has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pyarrow as pa

from sidecar.shared.codecs.binlog import BinlogCodec
from sidecar.shared.model.nouns import Change, Lane, Message, TableSchema
from sidecar.shared.rowcodec.binlog_fold import folded
from sidecar.shared.rowcodec.binlog_row import decode_logged
from sidecar.shared.rowcodec.kv_layout import kv_table_of
from sidecar.shared.rowcodec.kv_table import KvTable
from spark_merge.codecs.decode.binlog import decode_events
from tests.support.binlog_recordings import binlog_recording, frames, unmarked
from tests.tools.bench.bench import Bench
from tests.tools.bench.figures import Cost, Figure, beside, best, rate, timed
from ticdc_dump.binlog.binlog_pb2 import Binlog

ROWS = 200_000
BATCH_ROWS = 16_384

_Rows = list[tuple[TableSchema, list[bytes]]]


def measure(bench: Bench) -> Iterator[Figure]:
    """Rows a second of one core."""
    recording, codec = binlog_recording("binlog"), BinlogCodec(unmarked)
    payloads = [payload for path in sorted((recording.folder / "pumps").glob("*.bin.gz")) for payload in frames(path)]
    messages = [Message(Lane("pump/a"), 0, None, payload) for payload in payloads if not Binlog.FromString(payload).ddl_job_id]
    changes = _changes(codec, messages)
    cost = best(lambda: _read(codec, messages))
    yield rate("binlogs to rows", len(changes), cost, aim="none", limit="protobuf and one object a row, one thread")
    changes.sort(key=lambda change: change[:2])
    tables = {table_id: kv_table_of(schemas[0]) for table_id, schemas in recording.schemas.items()}
    cost = best(lambda: _fold(changes, tables))
    yield rate("rows of transactions folded", len(changes), cost, aim="none", limit="Python, one thread")
    by_table: defaultdict[TableSchema, list[bytes]] = defaultdict(list)
    for change in recording.changes:
        if (schema := recording.schema(change.table, change.commit_ts)) is not None:
            by_table[schema].append(change.value)
    rows = list(by_table.items())
    once = sum(len(values) for _, values in rows)
    copies = max(1, bench.sized(ROWS) // once)
    cost = best(lambda: _by_columns(rows, copies))
    figure = rate(
        "row events to columns: in batches of 16,384 rows", once * copies, cost, aim="≥ 100,000", limit="numpy and Arrow, one thread"
    )
    yield beside(figure, "slow decoder", once, best(lambda: _slow(rows), repeats=1))


def _changes(codec: BinlogCodec, messages: list[Message]) -> list[Change]:
    return [one for message in messages for one in codec.envelopes(message) if isinstance(one, Change)]


def _read(codec: BinlogCodec, messages: list[Message]) -> Cost:
    cost = Cost()
    with timed(cost):
        for message in messages:
            codec.envelopes(message)
    return cost


def _fold(changes: list[Change], tables: dict[str, KvTable]) -> Cost:
    cost = Cost()
    with timed(cost):
        assert len(list(folded(changes, tables.get))) < len(changes)
    return cost


def _by_columns(rows: _Rows, copies: int) -> Cost:
    cost = Cost()
    for schema, values in rows:
        all_values = pa.array(values * copies, pa.binary())
        with timed(cost):
            for start in range(0, len(all_values), BATCH_ROWS):
                decode_events(schema, all_values.slice(start, BATCH_ROWS))
    return cost


def _slow(rows: _Rows) -> Cost:
    cost = Cost()
    with timed(cost):
        for schema, values in rows:
            for value in values:
                decode_logged(schema, value)
    return cost
