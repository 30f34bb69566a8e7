"""csv as TiCDC writes it: literals out of its own tests, each kind of value, and back again by a reader of its own."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, Kind, TableName, TableSchema
from spark_merge.codecs.encode.block import of_changes
from spark_merge.port.contract import CHANGES
from spark_merge.sinks.formats import csv_lines as encoding
from spark_merge.sinks.formats.csv_lines import CsvForm, csv_header, csv_lines, general
from tests.support import storage_reader
from tests.support.deliveries import Image, change
from tests.support.storage_reader import Form, canonical

NAME = TableName("shop", "t")
FORM = CsvForm(commit_ts=True)


def schema_of(*kinds: Kind) -> TableSchema:
    return TableSchema(NAME, tuple(Column(f"c{place}", kind) for place, kind in enumerate(kinds)), ("c0",))


def lines(schema: TableSchema, form: CsvForm, *rows: tuple[Image, Image]) -> str:
    changes = [change(3, 100 + place, before=before, after=after, table=NAME) for place, (before, after) in enumerate(rows)]
    return b"".join(csv_lines(of_changes(schema, 3, pa.RecordBatch.from_pylist(changes, CHANGES)), form)).decode()


@pytest.mark.parametrize(
    ("kind", "text", "written"),
    [
        ("int", "-7", "-7"), ("uint", "18446744073709551615", "18446744073709551615"), ("bit", "683", "683"), ("year", "0000", "0"),
        ("year", "1970", "1970"), ("decimal", "129012.1230", '"129012.1230"'), ("text", "hello world", '"hello world"'),
        ("text", 'say "hi"', '"say ""hi"""'), ("text", "", '""'), ("text", "\\N", '"\\N"'),
        ("json", '{"key": "value"}', '"{""key"": ""value""}"'),
        ("enum", "a", '"a"'), ("set", "a,c", '"a,c"'), ("date", "2020-02-30", '"2020-02-30"'), ("time", "-838:59:59", '"-838:59:59"'),
        ("datetime", "0000-00-00 00:00:00", '"0000-00-00 00:00:00"'), ("vector", "[1,2,3]", '"[1,2,3]"'), ("float", "3.4e+38", "3.4e+38"),
        ("double", "547377610.090547", "5.47377610090547e+08"), ("double", "-1.7e+308", "-1.7e+308"), ("double", "100000.0", "100000"),
        ("binary", "0001FF", '"AAH/"'), ("binary", "", '""'), ("timestamp", "2020-01-01 00:00:00.5", '"2020-01-01 00:00:00.5"'),
    ],
)  # fmt: skip
def test_each_kind_of_value(kind: Kind, text: str, written: str) -> None:
    assert lines(schema_of(kind), FORM, (None, [text]), (None, [None])) == f'"I","t","shop",100,{written}\r\n"I","t","shop",101,\\N\r\n'


@pytest.mark.parametrize(
    ("number", "written"),
    [
        ("0", "0"), ("-0.0", "-0"), ("1e-05", "1e-05"), ("0.0001", "0.0001"), ("999999", "999999"), ("1000000", "1e+06"),
        ("1234567", "1.234567e+06"), ("1e+100", "1e+100"), ("5e-324", "5e-324"), ("123456.5", "123456.5"),
    ],
)  # fmt: skip
def test_floats_are_as_gos_v(number: str, written: str) -> None:
    assert general(pa.array([number, None]), bits=64).to_pylist() == [written, None]


def test_what_an_op_is_and_the_old_row() -> None:
    schema = schema_of("int", "text")
    rows = ((None, ["1", "a"]), (["1", "a"], ["1", "b"]), (["1", "b"], None))
    assert lines(schema, CsvForm(), *rows) == '"I","t","shop",1,"a"\r\n"U","t","shop",1,"b"\r\n"D","t","shop",1,"b"\r\n'
    assert lines(schema, replace(FORM, old_values=True), *rows) == (
        '"I","t","shop",100,false,1,"a"\r\n"D","t","shop",101,true,1,"a"\r\n"I","t","shop",101,true,1,"b"\r\n"D","t","shop",102,false,1,"b"\r\n'
    )


def test_timestamps_are_in_the_servers_zone_and_binary_in_hex() -> None:
    form = CsvForm(base64=False, zone=ZoneInfo("Asia/Shanghai"))
    assert lines(schema_of("timestamp", "binary"), form, (None, ["2020-01-01 20:00:00.123", "00FF"])).endswith(
        '"2020-01-02 04:00:00.123","00ff"\r\n'
    )


def test_without_a_quote_line_ends_backslashes_and_delimiters_are_escaped() -> None:
    form = CsvForm(quote="", delimiter="|+", terminator="\n")
    assert lines(schema_of("text"), form, (None, ["a\nb\rc\\d|+e|f"])) == "I|+t|+shop|+a\\nb\\rc\\\\d\\|\\+e|f\n"


def test_a_large_block_is_written_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    schema, rows = schema_of("int", "text"), [(None, [str(number), "x"]) for number in range(20)]
    whole = lines(schema, FORM, *rows)
    monkeypatch.setattr(encoding, "_ROWS_MAX", 3)
    assert lines(schema, FORM, *rows) == whole


def test_the_header_names_what_is_there() -> None:
    schema = schema_of("int", "text")
    assert csv_header(schema, CsvForm()) == b""
    form = CsvForm(header=True, commit_ts=True, old_values=True)
    header = "ticdc-meta$operation,ticdc-meta$table,ticdc-meta$schema,ticdc-meta$commit-ts,ticdc-meta$is-update,c0,c1\r\n"
    assert csv_header(schema, form).decode() == header


def test_a_text_that_is_no_value_is_refused_by_name() -> None:
    with pytest.raises(SinkError, match=r"shop\.t, column c0: a text is no year"):
        lines(schema_of("year"), FORM, (None, ["never"]))
    with pytest.raises(SinkError, match=r"shop\.t, column c0: a text is no binary"):
        lines(schema_of("binary"), FORM, (None, ["ABC"]))


@pytest.mark.parametrize("quote", ['"', ""])
def test_any_text_is_read_back(quote: str) -> None:
    """But for the null text without a quote where it is not made of escapes."""
    rng, schema = Random(11), schema_of("text", "binary", "double")
    signs = ["a", '"', "\\", "\n", "\r", ",", "é", "日", "\\N", "", "N"]
    rows = [
        [
            "".join(rng.choice(signs) for _ in range(rng.randrange(5))),
            rng.randbytes(rng.randrange(4)).hex().upper(),
            repr(rng.gauss(0, 1) * 10.0 ** rng.randrange(-9, 18)),
        ]
        for _ in range(300)
    ]
    text = lines(schema, CsvForm(quote=quote), *[(None, row) for row in rows])
    form = Form(quote=quote, commit_ts=False)
    results = [
        [canonical(column, value, form) for column, (value, _) in zip(schema.columns, fields[3:], strict=True)]
        for fields in storage_reader.csv_rows(text, form)
    ]
    assert results == rows
