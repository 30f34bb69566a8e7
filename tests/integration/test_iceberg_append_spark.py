"""Spark, with Iceberg's own runtime, at the tables of a REST catalog: it reads what pyiceberg reads and what the page says, has rows in the
same partitions, and its upkeep runs between our batches."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, Seq, TableSchema
from spark_merge.sinks.iceberg import sink as iceberg
from spark_merge.sinks.registry import open_sink
from spark_merge.testing import histories
from spark_merge.testing.story import Story
from tests.integration import test_iceberg_partitions as of_partitions
from tests.integration import test_iceberg_types as of_types
from tests.lanes import LANE
from tests.support.deliveries import ORDERS, Segments, change, deliver, opened
from tests.support.lake import catalog_of, image, lake_place, rows_at, snapshot_at, tables_of
from tests.support.lake_target import Target, columns
from tests.support.recorded_target import Case, RecordedLogs, Texts, differences
from tests.support.recorded_target import deliver as deliver_recorded
from tests.support.services.iceberg_rest import IcebergRest
from tests.support.services.iceberg_spark import IcebergSpark

pytestmark = [pytest.mark.xdist_group("iceberg"), pytest.mark.recordings]

PAGE = Path(__file__).parents[2] / "deploy" / "ICEBERG-SINK.md"
_namespaces = itertools.count()


def the_pages_view() -> str:
    """With `shop.orders`, its key `id` and the name of the view as they stand there."""
    match = re.search(r"^CREATE VIEW orders AS .*?;$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert match is not None
    return match[0].removesuffix(";")


def test_the_page_has_the_view_that_is_run() -> None:
    assert the_pages_view().count("prod.lake.shop.orders") == 1
    assert the_pages_view().count("PARTITION BY id ") == 1


if LANE.whole:

    @pytest.fixture(scope="module")
    def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRest]:
        with IcebergRest(tmp_path_factory.mktemp("rest")) as rest:
            yield rest

    @pytest.fixture(scope="module")
    def spark(catalog: IcebergRest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergSpark]:
        with IcebergSpark({"prod": catalog.uri}, tmp_path_factory.mktemp("spark")) as spark:
            yield spark

    @pytest.fixture
    def uri(catalog: IcebergRest) -> str:
        """Of a namespace that nobody has used."""
        return f"iceberg://prod/lake{next(_namespaces)}?uri={catalog.uri}"

    def named(uri: str, *name: str) -> str:
        namespace = uri.split("?", maxsplit=1)[0].rsplit("/", maxsplit=1)[1]
        return ".".join(f"`{part}`" for part in ("prod", namespace, *name))

    def in_order(rows: list[dict[str, Any]]) -> list[str]:
        return sorted(repr(sorted(row.items())) for row in map(plain, rows))

    def plain(row: dict[str, Any]) -> dict[str, Any]:
        """A moment's zone is called UTC by both, by objects of their own."""
        return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in row.items()}

    def test_every_type_is_read_as_pyiceberg_reads_it(spark: IcebergSpark, uri: str) -> None:
        texts, nulls = [text for _, text, _ in of_types.VALUES], ["1", *(None for _ in of_types.VALUES[1:])]
        changes = [change(0, 5, after=texts, table=of_types.HARD), change(0, 6, after=nulls, table=of_types.HARD, ordinal=1)]
        sink = opened(open_sink(f"{uri}&routes=s.`hard.values`=>s.hard", log_id="log-1"))
        deliver(sink, Segments([0], changes), log=None, schemas={of_types.HARD: of_types.SCHEMA})  # type: ignore[arg-type]
        (table,) = (table for _, table in tables_of(catalog_of(uri), uri.split("?", maxsplit=1)[0].rsplit("/", maxsplit=1)[1]))
        there = spark.rows(f"SELECT * FROM {named(uri, 's', 'hard')}")
        assert len(there) == 2
        assert in_order(there) == in_order(rows_at(table))

    class Reader:
        """The rows as they are, by the page's view; `seq`: of the past, by VERSION AS OF."""

        def __init__(self, spark: IcebergSpark, uri: str) -> None:
            self._spark, self._uri = spark, uri

        def rows(self, schema: TableSchema) -> list[Texts]:
            key = ", ".join(f"`{name}`" for name in schema.key)
            view = the_pages_view().replace("VIEW orders", f"OR REPLACE VIEW seen_{schema.name.table}")
            view = view.replace("prod.lake.shop.orders", named(self._uri, *schema.name)).replace("PARTITION BY id ", f"PARTITION BY {key} ")
            self._spark.rows(view.replace("CREATE OR REPLACE VIEW", "CREATE OR REPLACE TEMPORARY VIEW"))
            return [image(row, schema, row["_untyped"]) for row in self._spark.rows(f"SELECT * FROM seen_{schema.name.table}")]

    @pytest.mark.parametrize("case", [Case("demo", "kv", "snapshot", 3), Case("rowformats", "kv", "watermark", 1)], ids=str)
    def test_the_pages_view_is_the_truth_and_versions_are_what_they_were(
        recorded_logs: RecordedLogs, spark: IcebergSpark, uri: str, case: Case
    ) -> None:
        made, log = case.record(recorded_logs)
        seqs = list[Seq]()
        deliver_recorded(log.folder, uri, seed=case.seed, deaths=3, after=seqs.append)
        assert not differences(made, Reader(spark, uri).rows)
        looked = 0
        for name, table in tables_of(catalog_of(uri), uri.split("?", maxsplit=1)[0].rsplit("/", maxsplit=1)[1]):
            place = named(uri, *name)
            assert in_order(spark.rows(f"SELECT * FROM {place}")) == in_order(rows_at(table))
            for seq in seqs[:: 1 + len(seqs) // 3]:
                if (snapshot := snapshot_at(table, seq)) is not None:
                    assert in_order(spark.rows(f"SELECT * FROM {place} VERSION AS OF {snapshot}")) == in_order(rows_at(table, seq))
                    looked += 1
        assert looked > 3

    @pytest.mark.parametrize("rules", ["", "&partitions=s.*(bucket(2, id), _op)"])
    def test_upkeep_between_batches_is_no_matter(
        tmp_path: Path, spark: IcebergSpark, uri: str, monkeypatch: pytest.MonkeyPatch, rules: str
    ) -> None:
        monkeypatch.setattr(histories, "TABLES", 1)
        monkeypatch.setattr(iceberg, "LIVE_PART_ROWS", 2)
        story, namespace = Story(tmp_path, lake_place(uri + rules), seed=7), uri.split("?", maxsplit=1)[0].rsplit("/", maxsplit=1)[1]
        rewritten = 0
        for segments_max in itertools.cycle([1, 2]):
            if not story.delivery(segments_max=segments_max).deliver():
                break
            for name, _ in tables_of(catalog_of(uri), namespace):
                rewritten += upkeep(spark, f"{namespace}.{name.schema}.{name.table}")
            upkeep(spark, f"{namespace}._ticdc_dump")
            story.check_beginning()
        story.check_end()
        assert rewritten > 3

    def upkeep(spark: IcebergSpark, table: str) -> int:
        ((reported),) = spark.rows(f"CALL prod.system.rewrite_data_files(table => '{table}', options => map('rewrite-all', 'true'))")
        spark.rows(f"CALL prod.system.rewrite_manifests('{table}')")
        spark.rows(
            f"CALL prod.system.expire_snapshots(table => '{table}', older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
        )
        return int(reported["rewritten_data_files_count"])

    def test_rows_are_in_the_partitions_that_spark_puts_them_in(spark: IcebergSpark, uri: str) -> None:
        """The same rows, copied by Spark into a table that it has made PARTITIONED BY what our rule says."""
        rng = Random(4)
        images = [[text if at == 0 else _near(text, rng) for _, text, _, _ in of_partitions.VALUES] for at in range(150)]
        changes = [change(0, 5, after=[str(at), *image[1:]], ordinal=at) for at, image in enumerate(images)]
        sink = opened(open_sink(f"{uri}&partitions={of_partitions.OF_ALL}", log_id="log-1"))
        deliver(sink, Segments([0], changes, rows_max=40), log=None, schemas={ORDERS: of_partitions.WIDE})  # type: ignore[arg-type]
        ours, theirs = named(uri, *ORDERS), named(uri, "shop", "theirs")
        by = of_partitions.OF_ALL.removeprefix("shop.orders")
        spark.rows(f"CREATE TABLE {theirs} USING iceberg PARTITIONED BY {by} AS SELECT * FROM {ours}")
        results = [spark.rows(f"SELECT id, _partition FROM {table} ORDER BY id") for table in (ours, theirs)]
        assert len(results[0]) == len(images)
        assert results[0] == results[1]
        assert in_order(spark.rows(f"SELECT * FROM {ours}")) == in_order(spark.rows(f"SELECT * FROM {theirs}"))

    def _near(text: str, rng: Random) -> str | None:
        """Another value of the same form, or null."""
        if rng.random() < 0.1:
            return None
        if rng.random() < 0.2 or len(text) > 26:
            return text
        if re.fullmatch(r"\d{4}-\d\d-\d\d.*", text):
            return f"{rng.randrange(1001, 9999)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}{text[10:]}"
        if re.fullmatch(r"-?\d+(\.\d+)?", text):
            return text if len(text) > 18 else re.sub(r"[1-8]", lambda _: str(rng.randrange(1, 7)), text)
        return "".join(rng.sample(text, len(text)))

    def test_what_the_hint_says_to_do_when_partitions_lose_their_column_is_done_by_spark(
        tmp_path: Path, spark: IcebergSpark, uri: str
    ) -> None:
        again = partial(Target, tmp_path, at=f"{uri}&partitions=shop.orders(days(at))")
        to, plain_columns = again(), columns()
        for number in range(3):
            to.bring((str(number), f"2020-01-0{number + 1} 00:00:00"), of_partitions.BY_DAY)
        drop = "ALTER TABLE orders DROP COLUMN at"
        with pytest.raises(SinkError) as error:
            to.sink.accept(*to.write(("3", "2020-01-04 00:00:00"), of_partitions.BY_DAY, plain_columns, drop))
        hint = re.search(r"ALTER TABLE .*? DROP PARTITION FIELD \w+", error.value.hint)
        assert hint is not None
        spark.rows(hint[0].replace("ALTER TABLE ", "ALTER TABLE prod."))
        spark.rows(f"ALTER TABLE {named(uri, *ORDERS)} SET TBLPROPERTIES ('commit.manifest.min-count-to-merge' = '2')")
        after = again()
        after.seq = to.seq
        after.bring(("3", "2020-01-04 00:00:00"), of_partitions.BY_DAY, plain_columns, drop)
        for number in range(4, 7):
            after.bring((str(number),), plain_columns)
        assert [row["id"] for row in spark.rows(f"SELECT id FROM {named(uri, *ORDERS)} ORDER BY id")] == list(range(7))
        upkeep(spark, ".".join((after.namespace, *ORDERS)))
        after.bring(("7",), plain_columns)
        assert [row["id"] for row in spark.rows(f"SELECT id FROM {named(uri, *ORDERS)} ORDER BY id")] == list(range(8))

    def test_a_partitions_column_that_gets_wider_or_another_name_is_read_by_spark(tmp_path: Path, spark: IcebergSpark, uri: str) -> None:
        amount, total = (columns(Column(name, "decimal", length=10, scale=2)) for name in ("amount", "total"))
        wide = columns(Column("total", "decimal", length=30, scale=2))
        to = Target(tmp_path, at=f"{uri}&partitions=shop.orders(amount, bucket(8, amount))")
        to.bring(("1", "12.50"), amount, total, "ALTER TABLE orders RENAME COLUMN amount TO total")
        to.bring(("2", "13.50"), total, wide, "ALTER TABLE orders MODIFY total DECIMAL(30, 2)")
        spark.rows(f"ALTER TABLE {named(uri, *ORDERS)} SET TBLPROPERTIES ('commit.manifest.min-count-to-merge' = '2')")
        to.bring(("3", f"{'9' * 28}.99"), wide)
        to.bring(("4", "12.50"), wide)
        place = named(uri, *ORDERS)
        assert [row["id"] for row in spark.rows(f"SELECT id FROM {place} WHERE total = 12.50 ORDER BY id")] == [1, 4]
        assert [str(row["total"]) for row in spark.rows(f"SELECT total FROM {place} ORDER BY id")] == [
            "12.50", "13.50", f"{'9' * 28}.99", "12.50",
        ]  # fmt: skip
        upkeep(spark, ".".join((to.namespace, *ORDERS)))
        to.bring(("5", "12.50"), wide)
        assert to.rows("id") == [(1,), (2,), (3,), (4,), (5,)]
        assert [row["id"] for row in spark.rows(f"SELECT id FROM {place} WHERE total = 12.50 ORDER BY id")] == [1, 4, 5]
