"""A csv file read back: where rows end, what is NULL, what no value may be. Values of all types: tests/integration/test_read_back.py."""

from __future__ import annotations

import io
from dataclasses import replace
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableName, TableSchema
from spark_merge.codecs.encode.block import of_changes
from spark_merge.ddl.eras import Era, eras
from spark_merge.sinks.formats import json_lines as reading
from spark_merge.sinks.formats.csv_lines import CsvForm, csv_header, csv_lines, csv_rows
from tests.support.deliveries import batches, change

SCHEMA = TableSchema(TableName("shop", "orders"), (Column("id", "int", nullable=False), Column("name", "text")), ("id",))
FORM = CsvForm(commit_ts=True)
HARD = ['"', '""\r\n"', "\r\n", "\\N", "", "a,b", '",\r\n"', "\n" * 30 + '"', "x" * 60, None]


def era() -> Era:
    return eras(SCHEMA, [])[0]


def written(form: CsvForm) -> bytes:
    rows = [change(1, 50 + at, after=[str(at), text], ordinal=at) for at, text in enumerate(HARD)]
    (batch,) = batches(rows, rows_max=100)
    return csv_header(SCHEMA, form) + b"".join(csv_lines(of_changes(SCHEMA, 1, batch), form))


@pytest.mark.parametrize("block_bytes", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("form", [FORM, replace(FORM, header=True, terminator="\n"), replace(FORM, old_values=True, null="")])
def test_texts_with_quotes_and_line_ends_are_whole_wherever_a_block_ends(
    monkeypatch: pytest.MonkeyPatch, form: CsvForm, block_bytes: int
) -> None:
    monkeypatch.setattr(reading, "BLOCK_BYTES", block_bytes)
    result = pa.concat_tables([piece.rows for piece in csv_rows(io.BytesIO(written(form)), era(), SCHEMA.columns, form)])
    assert result.to_pydict() == {"id": [str(at) for at in range(len(HARD))], "name": HARD}


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b'"I","orders","shop",50,1\r\n', "no csv of 6 fields"),
        (b'"I","orders","shop",50,1,"x"', "has no end"),
        (b'"I","orders","shop",50,1,"x\r\n', "has no end"),
        (b'"I","orders","shop",50,\\N,"x"\r\n', "a row has no value of id"),
    ],
)
def test_what_is_no_row_is_an_error(data: bytes, match: str) -> None:
    with pytest.raises(SinkError, match=match):
        list(csv_rows(io.BytesIO(data), era(), SCHEMA.columns, FORM))


@pytest.mark.parametrize(("kind", "text"), [("binary", '"!"'), ("double", "x"), ("timestamp", '"x"')])
def test_a_text_that_is_no_value_names_its_column(kind: str, text: str) -> None:
    columns = (SCHEMA.columns[0], Column("name", kind))  # type: ignore[arg-type]  # a Kind
    result = eras(replace(SCHEMA, columns=columns), [])[0]
    form = replace(FORM, zone=ZoneInfo("Europe/Paris"))
    with pytest.raises(SinkError, match=f"column name of shop.orders holds a text that is no {kind}"):
        list(csv_rows(io.BytesIO(b'"I","orders","shop",50,1,' + text.encode() + b"\r\n"), result, columns, form))
