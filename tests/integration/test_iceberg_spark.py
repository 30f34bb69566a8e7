"""Tables of `mode=merge` read, travelled in and compacted by Spark with Iceberg's own Java, while the sink goes on: what it writes is
Iceberg, and not our idea of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, Seq, TableSchema
from spark_merge.delivery.batches import Delivery, JobSettings
from spark_merge.merge.cut import BatchLimits
from spark_merge.port.contract import Sink, Task
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.places import Here
from tests.lanes import LANE
from tests.support.deliveries import ORDERS, SCHEMA, Segments, change, chunk, opened, write_chunk
from tests.support.lake import NAMESPACE, Texts, catalog_of, snapshot_at, uri_of
from tests.support.merged_lake import rows_as_texts
from tests.support.recorded_target import Case, Judge, RecordedLogs
from tests.support.spark_lake import rewritten, spark_of, spark_rows

pytestmark = [pytest.mark.xdist_group("iceberg"), pytest.mark.recordings]

CASES = [("demo", "snapshot", 3), ("shop", "watermark", 1), ("rowformats", "snapshot", 2)]
MAX = CommitTs(1 << 63)
BATCHES, COMPACTED = 8, (2, 5)
"""Of a recording, about; after which of them Spark compacts tables."""


if LANE.whole:  # a minute each, and a Spark

    @pytest.mark.parametrize(("name", "brackets", "seed"), CASES)
    def test_spark_finds_the_source_in_each_snapshot_and_after_its_own_compactions(
        tmp_path: Path, recorded_logs: RecordedLogs, name: str, brackets: str, seed: int
    ) -> None:
        made, log = Case(name, "kv", brackets, seed).record(recorded_logs)
        uri = uri_of(tmp_path / "lake", mode="merge")
        schemas = [made.recording.schemas[table] for table in made.tables if table != MARK_TABLE]
        settings = JobSettings(open_folder(str(log.folder)), limits=BatchLimits(segments_max=1 + len(log.manifests) // BATCHES))
        delivery, catalog, seqs = Delivery(open_sink(uri, log_id="recorded"), settings, Here()), catalog_of(uri), list[Seq]()
        with spark_of(uri, tmp_path / "spark") as spark:
            while batch := delivery.deliver():
                seqs.append(batch.segments[-1].seq)
                for schema in schemas if len(seqs) in COMPACTED else ():
                    if catalog.table_exists((NAMESPACE, *schema.name)):
                        rewritten(spark, schema)
            assert len(seqs) > max(COMPACTED)
            judge = Judge(made, partial(spark_rows, spark), log)
            judge.end()
            for seq in seqs[1::3]:
                complete = judge.complete(seq)
                for schema in schemas:
                    table = catalog.load_table((NAMESPACE, *schema.name))
                    if (snapshot := snapshot_at(table, seq)) is None:
                        continue
                    rows = spark_rows(spark, schema, snapshot)
                    judge.read = partial(_same, rows)
                    judge.check(schema.name, log.manifests[seq].upto_ts, whole=complete.get(schema.name, MAX) <= log.manifests[seq].upto_ts)
                    assert sorted(map(repr, rows_as_texts(table, schema, seq))) == sorted(map(repr, rows))
        catalog.close()
        assert judge.whole > len(schemas)


def _same(rows: Sequence[Texts], _: TableSchema) -> Sequence[Texts]:
    return rows


if LANE.whole:  # half a minute: a JVM

    def test_spark_applies_each_kind_of_delete_and_what_comes_below_after_its_compaction(tmp_path: Path) -> None:
        """A dump amid live rows, position deletes among the rows of two tasks, and a second dump, merged."""
        sink, log = opened(open_sink(uri := uri_of(tmp_path / "lake", mode="merge"), log_id="log-1")), open_folder(str(tmp_path))
        for name, rows in {"c1": "123", "c2": "456", "c3": "4567"}.items():
            write_chunk(log, name, [(key, f"of {name}") for key in rows])
        first = [change(1, 50, after=("1", "live")), change(1, 60, before=("2", "gone"), ordinal=1), chunk(1, 20, "c1")]
        bring = partial(_bring, sink, log=log)
        bring(Segments([1, 2], [*first, change(2, 150, after=("1", "later"))]))
        with spark_of(uri, tmp_path / "spark") as spark:
            look = partial(spark_rows, spark, SCHEMA)
            begun = catalog_of(uri).load_table((NAMESPACE, *ORDERS)).metadata.current_snapshot_id
            assert sorted(look()) == [("1", "later"), ("3", "of c1")]
            bring(
                Segments([3], [change(3, 250, after=("5", "live")), change(3, 260, before=("3", "of c1"), ordinal=1), chunk(3, 210, "c2")])
            )
            assert sorted(look()) == [("1", "later"), ("4", "of c2"), ("5", "live"), ("6", "of c2")]
            rewritten(spark, SCHEMA)
            bring(Segments([4], [change(4, 350, after=("6", "live")), chunk(4, 310, "c3", dump_id="d2")]))
            assert sorted(look()) == [("1", "later"), ("4", "of c3"), ("5", "of c3"), ("6", "live"), ("7", "of c3")]
            assert sorted(look(begun)) == [("1", "later"), ("3", "of c1")]
            table = catalog_of(uri).load_table((NAMESPACE, *ORDERS))
            assert sorted(rows_as_texts(table, SCHEMA)) == sorted(look())


def _bring(sink: Sink, segments: Segments, *, log: Folder) -> None:
    """Each segment by a task of its own."""
    batch = sink.plan(segments.heads({ORDERS: SCHEMA}), cores=1)
    tasks = [Task(f"{number}", (unit,)) for number, unit in enumerate(unit for task in batch.stages[0] for unit in task.units)]
    outcomes = [batch.writer(task, segments.portions(task, {ORDERS: SCHEMA}, log)) for task in tasks]
    sink.accept(replace(batch, stages=(tuple(tasks),)), outcomes)
