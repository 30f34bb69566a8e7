"""Rows of the storage sink's csv against the change frame: each kind of value, what is refused, and the real sink beside Kafka."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import pytest

from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.codecs.csv import CODEC, CsvCodec
from sidecar.shared.columns.values import UnfitValue
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import MARK_TABLE, Change, Column, Lane, Mark, Message, TableName, TableSchema
from spark_merge.codecs.decode import csv
from spark_merge.codecs.decode.rows import decode
from spark_merge.codecs.images import NO_IMAGE, Cells, RowUnusable
from spark_merge.codecs.protocols import DecoderModule
from tests.support.kv_ddl import ddl_recording, decoded_by_version, feed_changes
from tests.support.recordings import recording
from tests.support.storage_recordings import RECORDED, storage_changes
from tests.unit.codecs.test_csv import as_json
from tests.unit.decode.log import about, logged, recorded_changes, recorded_schemas

MODULE: DecoderModule = csv
"""Here `mypy` holds the module against its contract."""

NAME = TableName("shop", "t")
ZONE = ServerZone("Asia/Shanghai")
KINDS = {
    "int": (Column("id", "int", nullable=False), "-9223372036854775808", "-9223372036854775808"),
    "uint": (Column("u", "uint"), "18446744073709551615", "18446744073709551615"),
    "bit": (Column("flags", "bit", length=9), "300", "300"),
    "year": (Column("y", "year"), "0", "0000"),
    "float": (Column("f", "float"), "1.5e+08", "150000000.0"),
    "double": (Column("d", "double"), "-1e-07", "-1e-07"),
    "zero": (Column("zero", "double"), "-0", "-0.0"),
    "decimal": (Column("price", "decimal", length=10, scale=2), "-12.50", "-12.50"),
    "text": (Column("name", "text"), 'a"\r\n\\Né😀', 'a"\r\n\\Né😀'),
    "date": (Column("day", "date"), "2020-02-29", "2020-02-29"),
    "time": (Column("t", "time", scale=3), "-838:59:59.000", "-838:59:59.000"),
    "datetime": (Column("dt", "datetime", scale=1), "0000-00-00 00:00:00.0", "0000-00-00 00:00:00.0"),
    "timestamp": (Column("ts", "timestamp", scale=3), "2020-01-01 08:00:00.250", "2020-01-01 00:00:00.250"),
    "json": (Column("j", "json"), '{"a": [1, "é"]}', '{"a": [1, "é"]}'),
    "vector": (Column("v", "vector"), "[1,2.5]", "[1,2.5]"),
    "enum": (Column("e", "enum", elements=("x", "y")), "y", "y"),
    "set": (Column("s", "set", elements=("x", "y", "z")), "x,z", "x,z"),
    "empty set": (Column("s0", "set", elements=("x", "y", "z")), "", ""),
    "unknown labels": (Column("e0", "enum"), "any", "any"),
    "binary": (Column("b", "binary", length=3), b64encode(b"\x01\xff").decode(), "01FF00"),
    "blob": (Column("blob", "binary"), b64encode(b"").decode(), ""),
}
EVERY = TableSchema(NAME, tuple(column for column, _, _ in KINDS.values()), ("id",))
WRITTEN, CANONICAL = ([row[place] for row in KINDS.values()] for place in (1, 2))
SMALL = TableSchema(NAME, (Column("id", "int", nullable=False), Column("b", "binary"), Column("e", "enum", elements=("x", "y"))), ("id",))


def row(type_: str, data: list[Any], old: list[Any] | None = None, *, of: TableSchema = SMALL, **changed: Any) -> bytes:
    event = {"type": type_, "database": "shop", "table": "t", "columns": of.column_names(), "binary": "base64", "data": [data]}
    return as_json(event | ({"old": [old]} if old is not None else {}) | changed, _tidb={"commitTs": 100}, isDdl=False)


def decoded(*values: bytes, schema: TableSchema = SMALL) -> list[dict[str, Any]]:
    codec = CsvCodec()
    changes = [one for number, value in enumerate(values) for one in codec.envelopes(Message(Lane("storage"), number, None, value))]
    rows = logged([one for one in changes if isinstance(one, Change)], codec=CODEC)
    results: list[dict[str, Any]] = decode(rows, codec=CODEC, schemas={NAME: schema}, server_tz="Asia/Shanghai").to_pylist()
    return results


def images(*values: bytes, schema: TableSchema = SMALL) -> list[tuple[str, list[str | None] | None, list[str | None] | None]]:
    return [(one["op"], one["before"], one["after"]) for one in decoded(*values, schema=schema)]


# ---- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_of_each_kind_becomes_its_canonical_text(kind: str) -> None:
    column, written, canonical = KINDS[kind]
    assert MODULE.texts([written] if column.kind != "binary" else [b64decode(written)], column, ZONE).to_pylist() == [canonical]
    assert MODULE.texts([None], column, ZONE).to_pylist() == [None]


def test_a_row_of_all_kinds() -> None:
    nulls = [WRITTEN[0], *[None] * (len(WRITTEN) - 1)]
    assert images(row("INSERT", WRITTEN, of=EVERY), row("DELETE", nulls, of=EVERY), schema=EVERY) == [
        ("insert", None, CANONICAL),
        ("delete", [CANONICAL[0], *nulls[1:]], None),
    ]


def test_the_ops_of_rows() -> None:
    small, other = ["1", "AQ==", "x"], ["1", None, "y"]
    texts, others = ["1", "01", "x"], ["1", None, "y"]
    moved = ["2", None, "y"]
    assert images(row("INSERT", small), row("UPDATE", small, other), row("UPDATE", other), row("DELETE", small)) == [
        ("insert", None, texts),
        ("update", others, texts),
        ("insert", None, others),  # what was there before is not in the file
        ("delete", texts, None),
    ]
    assert sorted(images(row("UPDATE", moved, small)), key=itemgetter(0)) == [("delete", texts, None), ("insert", None, moved)]


def test_binary_values_are_in_the_changefeeds_encoding() -> None:
    assert images(row("INSERT", ["1", "00ff", None], binary="hex")) == [("insert", None, ["1", "00FF", None])]
    assert images(row("INSERT", ["1", "AP8=", None], binary="base64")) == [("insert", None, ["1", "00FF", None])]


def test_virtual_generated_columns_are_in_the_files_columns_alone() -> None:
    columns = ["v0", "id", "b", "v1", "e"]
    assert images(row("INSERT", ["1", None, "x"], columns=columns)) == [("insert", None, ["1", None, "x"])]


def test_columns_beyond_the_schema_are_passed_over_where_each_has_a_value() -> None:
    wide = row("INSERT", ["9", "1", "AQ==", "x"], columns=["other", *SMALL.column_names()])
    cells = MODULE.cells([wide, row("DELETE", ["1", None, "x"])], SMALL, whole=False)
    assert (cells.columns, cells.before, cells.after) == ([("1", "1"), (b"\x01", None), ("x", "x")], [NO_IMAGE, 1], [0, NO_IMAGE])
    assert MODULE.cells([], SMALL) == Cells([(), (), ()], [], [])


# ---- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (row("INSERT", ["1", None]), "the row has 2 values, and the schema 3 of the file's 3 columns"),
        (row("INSERT", ["1", None, "x", "2"]), "the row has 4 values"),
        (row("INSERT", ["1", None, "x", "2"], columns=["id", "b", "e", "new"]), "4 values, and the schema 3 of the file's 4 columns"),
        (row("UPDATE", ["1", None, "x"], ["1", None]), "the row has 2 values"),
        (row("INSERT", ["1", None, "x"], columns=["id", "b", "E"]), "column e is in the schema and not in the file's"),
        (row("INSERT", ["1", None, "x"], columns=["id", "e", "b"]), "the file's columns are ['id', 'e', 'b'], in another order"),
        (row("INSERT", ["1", "a", "x"]), "column b: 'a' is not base64"),
        (row("INSERT", ["1", "AQ==\n", "x"]), "column b: 'AQ==\\n' is not base64"),
        (row("INSERT", ["1", "0 0", "x"], binary="hex"), "column b: '0 0' is not hex"),
        (row("INSERT", ["1", "é", "x"], binary="hex"), "column b: 'é' is not hex"),
        (row("INSERT", ["1", None, "z"]), "column e: 'z' is none of the 2 labels of the enum"),
        (row("INSERT", ["1", None, "x,y"]), "column e: 'x,y' is none of the 2 labels of the enum"),
        (row("INSERT", ["one", None, "x"]), "column id: 'one' is not an integer"),
        (row("INSERT", [None, None, "x"]), "column id: a key column is null"),
    ],
)  # fmt: skip
def test_a_row_that_does_not_fit_its_table_is_refused_with_its_place(value: bytes, error: str) -> None:
    with pytest.raises(FeedUnsuitable) as refused:
        decoded(row("INSERT", ["1", None, "x"]), value)
    assert refused.value.message.startswith("message storage@1: table shop.t: ")
    assert error in refused.value.message


def test_a_set_with_another_label_is_refused() -> None:
    column = Column("s", "set", elements=("x", "y"))
    with pytest.raises(UnfitValue, match="'x,q' is none of the 2 labels of the set") as unfit:
        MODULE.texts(["x", None, "x,q"], column, ZONE)
    assert unfit.value.index == 2


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (b'{"type":"INSERT"}', "the value is not a row of csv (Object missing required field `columns`)"),
        (row("INSERT", ["1", None, 3]), "the value is not a row of csv (Expected `str | null`, got `int`"),
        (row("INSERT", ["1", None, "x"], binary="base32"), "the value is not a row of csv (Invalid enum value 'base32'"),
        (row("INSERT", ["1", None, "x"], ["1", None, "x"]), "the row is of type INSERT and has old"),
        (row("INSERT", ["1", None, "x"], columns=[1]), "the value is not a row of csv (Expected `str`, got `int`"),
    ],
)  # fmt: skip
def test_what_is_no_row_of_csv_is_unreadable(value: bytes, error: str) -> None:
    with pytest.raises(RowUnusable) as refused:
        MODULE.cells([row("INSERT", ["1", None, "x"]), value], SMALL)
    assert error in str(refused.value)
    assert (refused.value.row, refused.value.kind) == (1, MessageUnreadable)


# ---- the real sink --------------------------------------------------------------------------------------------------

Read = Counter[tuple[str, int, str, tuple[str | None, ...] | None, tuple[str | None, ...] | None]]
"""Table, commit_ts, op, before, after: how often."""


def read(changes: Iterable[dict[str, Any]]) -> Read:
    return Counter(
        (one["table"], one["commit_ts"], one["op"], *(None if one[image] is None else tuple(one[image]) for image in ("before", "after")))
        for one in changes
    )


@pytest.mark.recordings
@pytest.mark.parametrize("name", RECORDED)
def test_the_storage_sinks_rows_are_those_of_kafka(name: str) -> None:
    """Those amid schema changes by the tables of their moment."""
    of_storage, of_kafka = _amid_ddls(name) if name.startswith("ddl") else _decoded_alike(name)
    assert of_storage == of_kafka
    assert {op for _, _, op, _, _ in of_kafka} == {"insert", "update", "delete"}


def _decoded_alike(name: str) -> tuple[Read, Read]:
    folder = recording(name)
    schemas, end_ts = recorded_schemas(folder), int(about(folder)["end_ts"])

    def decoded_of(changes: Iterable[Change], codec: str) -> Read:
        rows = logged([one for one in changes if one.commit_ts <= end_ts], codec=codec)
        zone = "Asia/Shanghai" if name == "tz" else "UTC"
        return read(decode(rows, codec=codec, schemas=schemas, server_tz=zone).to_pylist())

    return decoded_of(storage_changes(name), CODEC), decoded_of(recorded_changes(folder, "canal-json", codec="canal-json"), "canal-json")


def _amid_ddls(name: str) -> tuple[Read, Read]:
    value = ddl_recording(name)
    by_version = decoded_by_version(value, CODEC, storage_changes(name))
    return read(row for _, row in by_version), read(row for _, row in feed_changes(value, "canal-json"))


@pytest.mark.recordings
@pytest.mark.parametrize("name", RECORDED)
def test_the_storage_sinks_marks_are_those_of_kafka(name: str) -> None:
    def marks(codec: Codec, changes: Iterable[Change]) -> Counter[Mark | None]:
        return Counter(codec.mark(one) for one in changes if (one.schema, one.table) == MARK_TABLE)

    of_storage = marks(CsvCodec(), storage_changes(name))
    assert of_storage == marks(CanalJson(), recorded_changes(recording(name), "canal-json", codec="canal-json"))
    assert of_storage or name.startswith("ddl"), "the ddl recordings have no dump"
