"""The demo recording to its end: what a subscriber was given is the files sink's rows, and, applied, the truth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from pyspark.sql import SparkSession

from sidecar.replay.judge.verify import replay
from sidecar.replay.replay import Replay
from sidecar.replay.report import ReplaySettings
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import TableName
from spark_merge.sinks.files.reader import read_output, read_segments
from spark_merge.sinks.spool.reader import SpoolReader
from spark_merge.worker.session import OpenSession
from tests.support.recordings import recording
from tests.support.subscriber import Row, rows_of
from tests.unit.control.serving import Owner, Serving
from ticdc_dump.v1 import control_pb2 as pb
from ticdc_dump.v1 import control_pb2_grpc, delivery_pb2


def subscribed(spool: SpoolReader, last: int) -> Iterator[delivery_pb2.Delivery]:
    """As a subscriber gets it, over TCP, with its connection lost after every tenth segment."""
    given: dict[str, Any] = {}
    with Owner() as owner, Serving(owner.served(spool=spool)) as server:
        while given.get("after_seq") != last:
            options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1))
            with grpc.insecure_channel(server.address, options) as channel:
                stub = control_pb2_grpc.ControlStub(channel)  # type: ignore[no-untyped-call]  # generated without types
                stream = stub.Subscribe(pb.SubscribeRequest(changefeed=pb.Changefeed(id="cf"), subscriber="a", **given))
                for delivery in stream:
                    yield delivery
                    if delivery.HasField("resolved"):
                        given = {"after_seq": delivery.seq, "log": delivery.resolved.log}
                        if delivery.seq == last or delivery.seq % 10 == 9:
                            break


def as_in_files(row: Row, columns: dict[TableName, tuple[str, ...]], keys: dict[TableName, tuple[str, ...]]) -> dict[str, Any]:
    """The fields of a JSON line."""
    names = columns[row.table]
    return {
        "seq": row.seq, "ordinal": row.ordinal, "commit_ts": str(row.commit_ts), "schema": row.table.schema, "table": row.table.table,
        "op": row.op, "key": dict(zip(keys[row.table], row.key, strict=True)),
        "before": None if row.before is None else dict(zip(names, row.before, strict=True)),
        "after": None if row.after is None else dict(zip(names, row.after, strict=True)),
        "origin": "dump" if row.dump_id else "log", "dump_id": row.dump_id or None,
    }  # fmt: skip


@pytest.mark.parametrize("worker_rows", [0, 20_000], ids=["spark", "worker"])
def test_a_subscriber_has_the_files_rows_and_they_are_the_truth(spark: SparkSession, tmp_path: Path, worker_rows: int) -> None:
    out = tmp_path / "out"
    settings = ReplaySettings(
        recording=recording("demo"),
        brackets="watermark",
        chunk_rows=40,
        seed=3,
        crashes=2,
        sinks=(f"file://{out}/files?format=jsonl", f"grpc://{out}/spool"),
        out=out,
        worker_rows=worker_rows,
    )
    played = Replay(settings)
    assert played.run(lambda _: None, lambda: OpenSession(spark)).ok
    files, log = open_folder(f"{out}/files"), open_folder(f"{out}/log")
    segments = read_segments(files)
    deliveries = list(subscribed(SpoolReader(open_folder(f"{out}/spool"), log), segments[-1].seq))

    marks = [(one.seq, one.resolved.tso) for one in deliveries if one.HasField("resolved")]
    assert marks == [(segment.seq, segment.upto_ts) for segment in segments]
    columns, keys = dict[TableName, tuple[str, ...]](), dict[TableName, tuple[str, ...]]()
    results = []
    reports: list[delivery_pb2.TableColumns] = []
    for delivery in deliveries:
        for table in delivery.tables:
            columns[TableName(table.schema, table.table)] = tuple(column.name for column in table.columns)
            keys[TableName(table.schema, table.table)] = tuple(table.key)
        reports += delivery.tables
        results += [
            as_in_files(row, columns, keys)
            for row in rows_of([delivery_pb2.Delivery(seq=delivery.seq, tables=reports, rows=delivery.rows)])
        ]

    def by_table(rows: Any) -> dict[object, list[object]]:
        tables: dict[object, list[object]] = {}
        for row in rows:
            tables.setdefault((row["schema"], row["table"]), []).append(row)
        return tables

    assert any(row["origin"] == "dump" for row in results)
    assert by_table(results) == by_table(read_output(files))
    assert [int(row["commit_ts"]) for row in results] == sorted(int(row["commit_ts"]) for row in results), "one order over all tables"
    assert played.pipeline is not None
    assert played.pipeline.dump.progress is not None
    complete_at = {table.table: table.complete_at for table in played.pipeline.dump.progress.tables if table.complete_at is not None}
    verdict = replay(
        results, played.recording, upto_ts=segments[-1].upto_ts, complete_at=complete_at, tables=played.tables, steps=played.feed.steps
    )
    assert verdict.ok, verdict.to_json()
