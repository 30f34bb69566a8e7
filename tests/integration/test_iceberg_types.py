"""Every kind of value in an Iceberg table, as a reader has it: exact, or as the page says. And a catalog that is away."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
from pyiceberg.expressions import BooleanExpression, EqualTo
from sqlalchemy.exc import OperationalError

from sidecar.shared.errors import SinkError
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Column, Kind, TableName, TableSchema
from spark_merge.sinks.iceberg import lake
from spark_merge.sinks.iceberg.types import iceberg_type
from spark_merge.sinks.registry import open_sink
from spark_merge.testing.story import Story
from tests.lanes import LANE
from tests.support.deliveries import Row, Segments, change, chunk, deliver, opened, write_chunk
from tests.support.lake import NAMESPACE, Texts, catalog_of, lake_place, rows_at, uri_of
from tests.support.merged_lake import rows_as_texts
from tests.support.replaying import stage
from tests.support.spark_lake import spark_of, spark_rows

pytestmark = pytest.mark.xdist_group("iceberg")

HARD = TableName("s", "hard.values")
PAGE = Path(__file__).parents[2] / "deploy" / "ICEBERG-SINK.md"

LONG = "-12345678.000000000000000000000000000001"
VALUES: list[tuple[Column, str, Any]] = [
    (Column("id", "int", nullable=False), "-9223372036854775808", -(2**63)),
    (Column("u", "uint"), "18446744073709551615", Decimal(2**64 - 1)),
    (Column("b", "bit", length=64), "18446744073709551615", Decimal(2**64 - 1)),
    (Column("f", "float"), "0.10000000149011612", 0.10000000149011612),
    (Column("dbl", "double"), "-1.7976931348623157e+308", -1.7976931348623157e308),
    (Column("d", "decimal", length=38, scale=30), LONG, Decimal(LONG)),
    (Column("w", "decimal", length=65, scale=30), "0.000000000000000000000000000001", "0.000000000000000000000000000001"),
    (Column("wide", "decimal", length=65, scale=0), "9" * 65, "9" * 65),
    (Column("t", "time", scale=6), "-838:59:59.000001", "-838:59:59.000001"),
    (Column("y", "year"), "2155", 2155),
    (Column("day", "date"), "9999-12-31", date(9999, 12, 31)),
    (Column("at", "datetime", scale=6), "1000-01-01 00:00:00.000001", datetime(1000, 1, 1, 0, 0, 0, 1)),  # noqa: DTZ001 - it has no zone
    (Column("ts", "timestamp", scale=6), "2038-01-19 03:14:07.999999", datetime(2038, 1, 19, 3, 14, 7, 999999, UTC)),
    (Column("raw", "binary", length=3), "00FF00", b"\x00\xff\x00"),
    (Column("txt", "text"), "a\x00µ\U0001f600'\\", "a\x00µ\U0001f600'\\"),
    (Column("e", "enum", elements=("a,b", "c")), "a,b", "a,b"),
    (Column("st", "set", elements=("a", "c")), "a,c", "a,c"),
    (Column("js", "json"), '{"n": 18446744073709551615}', '{"n": 18446744073709551615}'),
    (Column("v", "vector"), "[1,2.5]", "[1,2.5]"),
    (Column("zero", "date"), "0000-00-00", None),
    (Column("month", "datetime"), "2020-00-10 01:02:03", None),
    (Column("never", "date"), "2020-02-30", None),
    (Column("odd.name `x`", "text"), "y", "y"),
]  # fmt: skip
SCHEMA = TableSchema(HARD, tuple(column for column, _, _ in VALUES), ("id",))
NO_KEYS = ("float", "double", "json", "vector")
READS = ["ours", "spark"] if LANE.whole else ["ours"]


def test_a_value_is_exact_or_in_the_envelope(tmp_path: Path) -> None:
    uri = uri_of(tmp_path / "lake", routes="s.`hard.values`=>s.hard")
    assert {column.kind for column in SCHEMA.columns} == set(get_args(Kind))
    texts = [text for _, text, _ in VALUES]
    nulls: list[str | None] = ["1", *(None for _ in VALUES[1:])]
    changes = [change(0, 5, after=texts, table=HARD), change(0, 6, after=nulls, table=HARD, ordinal=1)]
    sink = opened(open_sink(uri, log_id="log-1"))
    deliver(sink, Segments([0], changes), log=None, schemas={HARD: SCHEMA})  # type: ignore[arg-type]  # no chunk is read
    sink.close()
    catalog = catalog_of(uri)
    table = catalog.load_table((NAMESPACE, "s", "hard"))
    first, second = sorted(rows_at(table), key=lambda row: int(row["_commit_ts"]))
    assert [first[column.name] for column in SCHEMA.columns] == [value for _, _, value in VALUES]
    assert json.loads(first["_untyped"]) == {
        name: text for name, text in zip(SCHEMA.column_names(), texts, strict=True) if first[name] is None
    }
    assert [second[column.name] for column in SCHEMA.columns] == [1, *(None for _ in VALUES[1:])]
    # what manifests say of the file leaves no row out
    for column, _, value in VALUES:
        if value is not None and "." not in column.name and not isinstance(value, float):
            literal = value if not isinstance(value, datetime | date) else value.isoformat()
            assert table.scan(row_filter=_equal(column.name, literal)).count() == 1, column
    catalog.close()


KEYS = [(replace(column, nullable=False), text) for column, text, value in VALUES if value is not None and column.kind not in NO_KEYS]
"""Of each kind that a merged table's key may have, and TiDB's."""
KEYED = {
    name: TableSchema(name, (column, Column("v", "text")), (column.name,))
    for name, column in ((TableName("k", f"of{n}"), one) for n, (one, _) in enumerate(KEYS))
}


@pytest.mark.parametrize("reads", READS)
def test_a_merged_tables_values_are_exact_and_a_key_of_any_kind_is_found_again(tmp_path: Path, reads: str) -> None:
    """By our reader (pyiceberg is none), and in the matrix by Spark: a row of a dump, then a live one of the same key, then its end."""
    texts = [text for _, text, _ in VALUES]
    nulls: list[str | None] = ["1", *(None for _ in VALUES[1:])]
    log, uri = open_folder(str(tmp_path / "log")), uri_of(tmp_path / "lake", mode="merge", routes="s.`hard.values`=>s.hard")
    write_chunk(log, "hard", [texts, nulls], SCHEMA)
    rows = [chunk(1, 20, "hard", table=HARD)]
    for (name, schema), (_, text) in zip(KEYED.items(), KEYS, strict=True):
        write_chunk(log, name.table, [[text, "of the dump"]], schema)
        rows.append(chunk(1, 20, name.table, table=name))
    schemas, sink = {HARD: SCHEMA, **KEYED}, opened(open_sink(uri, log_id="log-1"))

    def bring(seq: int, changes: Sequence[Row], looks: Mapping[TableName, Sequence[Texts]]) -> None:
        deliver(sink, Segments([seq], changes), log=log, schemas=schemas)
        with look_of(reads, uri, tmp_path) as look:
            for name, expected in looks.items():
                place = replace(schemas[name], name=TableName("s", "hard")) if name == HARD else schemas[name]
                assert sorted(map(repr, look(place))) == sorted(map(repr, expected)), name

    of = list(zip(KEYED, (text for _, text in KEYS), strict=True))
    bring(1, rows, {HARD: [tuple(texts), tuple(nulls)], **{name: [(text, "of the dump")] for name, text in of}})
    again = [change(2, 150, before=[text, "of the dump"], after=[text, "live"], table=name) for name, text in of]
    turned = change(2, 150, before=nulls, after=[nulls[0], *texts[1:]], table=HARD)
    bring(2, [turned, *again], {HARD: [tuple(texts), ("1", *texts[1:])], **{name: [(text, "live")] for name, text in of}})
    gone = [change(3, 250, before=[text, "live"], table=name) for name, text in of]
    bring(3, [change(3, 250, before=texts, table=HARD), *gone], {HARD: [("1", *texts[1:])], **{name: [] for name, _ in of}})
    sink.close()


@contextmanager
def look_of(reads: str, uri: str, folder: Path) -> Iterator[Callable[[TableSchema], list[Texts]]]:
    if reads == "spark":
        with spark_of(uri, folder / "spark") as spark:
            yield partial(spark_rows, spark)
        return
    with closing(catalog_of(uri)) as catalog:
        yield lambda schema: rows_as_texts(catalog.load_table((NAMESPACE, *schema.name)), schema)


def _equal(name: str, value: Any) -> BooleanExpression:
    return EqualTo(name, value)  # type: ignore[call-arg,arg-type]  # its own way to be made, which its types do not tell


def test_the_pages_table_of_types_is_the_sinks() -> None:
    reported: dict[str, set[str]] = {}
    for kinds, kind in re.findall(r"^\| (.*?) \| `(.*?)` \|", PAGE.read_text(), re.MULTILINE):
        for name in re.findall(r"`(\w+)`", kinds):
            reported.setdefault(name, set()).add(kind)
    for made in (column for kind in get_args(Kind) for column in (Column("c", kind, length=10), Column("c", kind, length=65, scale=30))):
        kind = str(iceberg_type(made)).replace("decimal(10, 0)", "decimal(p, s)")
        assert kind in reported[made.kind], made


def test_each_type_of_the_recorded_rows_has_a_line_in_the_page() -> None:
    lines = " ".join(re.findall(r"^\| (.*?) \| `", PAGE.read_text(), re.MULTILINE))
    kinds = {column.kind for schema in stage("rowformats", "kv").recording.schemas.values() for column in schema.columns}
    assert kinds
    assert not [kind for kind in kinds if f"`{kind}`" not in lines]


def test_a_place_that_is_away_is_waited_for_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a moment: nobody notices. For longer: the batch fails, and another one brings it when the place is there again."""
    story = Story(tmp_path, lake_place(uri_of(tmp_path / "lake")), seed=7)
    delivery = story.delivery(segments_max=1)
    with monkeypatch.context() as patch:
        call, left = lake.Lake.catalog, [3]

        def shaky(self: lake.Lake) -> object:
            left[0] -= 1
            if left[0] > 0:
                raise OperationalError("SELECT", {}, Exception("server closed the connection"))
            return call(self)

        patch.setattr(lake.Lake, "catalog", shaky)
        delivery.deliver()
        assert left[0] <= 0
    monkeypatch.setattr(lake, "RETRY_S", 0.3)
    (tmp_path / "lake").rename(tmp_path / "away")
    (tmp_path / "lake").write_text("not a folder")
    with pytest.raises(SinkError) as error:
        delivery.deliver()
    assert "nothing accepted is lost" in error.value.hint
    (tmp_path / "lake").unlink()
    (tmp_path / "away").rename(tmp_path / "lake")
    story.finish()
    story.check_end()
