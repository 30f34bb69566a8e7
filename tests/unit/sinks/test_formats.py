"""Each format's writer and its inverse: every type with values that formats find hard, from changes and from a chunk. With whole outputs:
tests/integration/test_read_back.py."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from random import Random
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from sidecar.shared.errors import FeedError, SinkError
from sidecar.shared.model.nouns import Column
from spark_merge.codecs.encode.block import of_changes
from spark_merge.codecs.protocols import encoder
from spark_merge.ddl.eras import eras
from spark_merge.port.contract import RANK_DELETE, RANK_PUT
from spark_merge.port.readable import RowsRead
from spark_merge.sinks.formats.csv_lines import CsvForm, csv_header, csv_lines, csv_rows
from spark_merge.sinks.formats.file_formats import FORMATS
from spark_merge.sinks.formats.messages import form_of, message_file_rows, message_lines
from tests.support.deliveries import batches, change
from tests.support.read_back import EVERY_TYPE_PADDED as TABLE
from tests.support.read_back import images, rows_of, table_of

ERA = eras(TABLE, [])[0]
PARIS = ZoneInfo("Europe/Paris")
Written = Callable[[list[pa.RecordBatch]], bytes]
Read = Callable[[io.BytesIO], Iterator[RowsRead]]


def _of_blocks(name: str) -> tuple[Written, Read]:
    form = FORMATS[name]  # type: ignore[index]  # a FileFormat

    def written(changes: list[pa.RecordBatch]) -> bytes:
        out = io.BytesIO()
        with form.writing(out, TABLE) as write:
            for rows in changes:
                write(of_changes(TABLE, 1, rows))
        return out.getvalue()

    return written, lambda file: form.rows(file, ERA)


def _csv(form: CsvForm) -> tuple[Written, Read]:
    def written(changes: list[pa.RecordBatch]) -> bytes:
        lines = (bytes(line) for rows in changes for line in csv_lines(of_changes(TABLE, 1, rows), form))
        return csv_header(TABLE, form) + b"".join(lines)

    return written, lambda file: csv_rows(file, ERA, TABLE.columns, form)


def _canal_json(zone: str) -> tuple[Written, Read]:
    made = encoder("canal-json", architecture="classic", options={"time-zone": zone, "enable-tidb-extension": "true"})

    def written(changes: list[pa.RecordBatch]) -> bytes:
        return message_lines(made, TABLE, pa.Table.from_batches(changes), b"\r\n", keys_only=False)

    return written, lambda file: message_file_rows(file, ERA, protocol="canal-json", time_zone=zone, end=b"\r\n")


FORMS = {
    "JSON lines": _of_blocks("jsonl"),
    "Parquet": _of_blocks("parquet"),
    "csv": _csv(CsvForm(commit_ts=True)),
    "csv of another form": _csv(CsvForm("|", "'", "", True, False, True, True, "\n", PARIS)),
    "canal-json": _canal_json("UTC"),
    "canal-json of a zone": _canal_json(PARIS.key),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_value_is_read_back_as_it_was_written(name: str) -> None:
    write, read = FORMS[name]
    drawn = [[str(at), *image[1:]] for at, image in zip(range(60), images(Random(len(name))), strict=False)]
    rows = [change(1, 1 + at, after=image, table=TABLE.name, ordinal=at) for at, image in enumerate(drawn[:40])]
    rows += [
        change(1, 50 + at, before=image, after=[image[0], *drawn[40 + at][1:]], table=TABLE.name) for at, image in enumerate(drawn[:10])
    ]
    rows += [change(1, 70 + at, before=image, table=TABLE.name) for at, image in enumerate(drawn[10:20])]
    results = list(read(io.BytesIO(write(batches(rows, rows_max=7)))))
    zone = PARIS.key if "zone" in name or "another" in name else "UTC"
    promised = form_of(TABLE.columns, zone)
    written = table_of(TABLE, [row["after"] or row["before"] for row in rows])
    expected = rows_of(written if promised is None else promised(written))
    got = [row for piece in results for row in rows_of(piece.rows)]
    old_lines = 10 if name == "csv of another form" else 0
    assert len(got) == len(rows) + old_lines, "there an update is two lines"
    assert set(got) >= set(expected)
    ranks = [rank for piece in results if piece.versions is not None for rank in piece.versions.rank.to_pylist()]
    assert (ranks.count(RANK_DELETE), ranks.count(RANK_PUT)) == (10 + old_lines, 50)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("spoil", [lambda data: data[:-1], lambda data: data[:-40] + b"\xff" * 20 + data[-20:]], ids=["cut", "other bytes"])
def test_what_was_not_written_so_is_rejected(name: str, spoil: Callable[[bytes], bytes]) -> None:
    write, read = FORMS[name]
    image = next(images(Random(5)))
    data = write(batches([change(1, 1, after=["1", *image[1:]], table=TABLE.name)]))
    with pytest.raises((SinkError, FeedError)):
        list(read(io.BytesIO(spoil(data))))


def test_a_date_that_no_calendar_has_is_compared_as_what_stands_for_it() -> None:
    columns = [Column("d", "date"), Column("m", "datetime", nullable=False, scale=1), Column("v", "text")]
    rows = pa.table(
        {"d": ["2024-02-30", "2024-02-29", None], "m": ["0000-00-00 00:00:00.0", "2024-01-01 00:00:00.5", None], "v": ["0000-00-00"] * 3}
    )
    form = form_of(columns, "UTC", dates=[("d", None), ("m", "1970-01-01 00:00:00.0")])
    assert form is not None
    assert form(rows).to_pydict() == {
        "d": [None, "2024-02-29", None],
        "m": ["1970-01-01 00:00:00.0", "2024-01-01 00:00:00.5", None],
        "v": ["0000-00-00"] * 3,
    }
    assert form_of(columns, "UTC") is None
