"""A csv file of the storage sink (codecs/encode/csv_lines.py) back to columns of canonical text.

A reader by columns takes what most writers of csv give: one delimiter, quotes, lines that end as lines do. Other forms are refused by the
parameter that made them (`check_form`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from sidecar.core.model import Column
from sidecar.errors import SinkError
from sidecar.process.progress import progressed
from spark_merge.codecs.encode.csv_lines import CsvForm
from spark_merge.codecs.encode.csv_texts import canonical_texts
from spark_merge.ddl.eras import Era
from spark_merge.port.readable import RowsRead, Versions
from spark_merge.sinks.json_rows import BLOCK_BYTES
from spark_merge.sinks.row_versions import ranks, rows_read

_RESTORE = "restore the folder, or deliver to a new one and dump again"
_LINE_ENDS = ("\r\n", "\n")


def check_form(form: CsvForm) -> None:
    """Raises SinkError for a form that does not say enough, or that no reader by columns takes."""
    why = {
        "csv.include-commit-ts=false": "" if form.commit_ts else "which version of a row is the last one is not in the files",
        "csv.quote=": "" if form.quote else "a text that looks like csv.null is not told from NULL",
        f"csv.delimiter={form.delimiter}": "" if len(form.delimiter) == 1 else "only one character is read back",
        f"terminator={form.terminator!r}": "" if form.terminator in _LINE_ENDS else "only the ends of lines are read back, CRLF and LF",
    }
    for setting, reason in why.items():
        if reason:
            raise SinkError(
                f"csv of {setting} cannot be read back: {reason}",
                hint="deliver to a new folder with csv.include-commit-ts=true and the default csv.quote, csv.delimiter and terminator, and"
                " dump again",
            )


def csv_rows(file: IO[bytes], era: Era, columns: Sequence[Column], form: CsvForm) -> Iterator[RowsRead]:
    """All rows, which are of `era`. `columns`: of the file. Raises SinkError."""
    era.check()
    head = ["#op", "#table", "#schema", "#commit_ts", *(["#is_update"] if form.old_values else [])]
    names = [*head, *(column.name for column in columns)]
    types = {column.name: column for column in columns}
    skip = 1 if form.header else 0
    for data in _row_blocks(file, form):
        table = _parsed(data, names, form, skip=skip)
        skip = 0
        rows = {name: _text(column, table.column(name).combine_chunks(), form, era) for name, column in types.items()}
        gone = pc.equal(table.column("#op").combine_chunks(), "D")
        commit_ts = table.column("#commit_ts").combine_chunks().cast(pa.int64())
        if len(commit_ts):
            yield rows_read(era, rows, Versions(commit_ts, ranks(gone), gone), types=types)


def _row_blocks(file: IO[bytes], form: CsvForm) -> Iterator[bytes]:
    """Whole rows: what is cut lies outside of quotes."""
    end, quote = form.terminator.encode(), form.quote.encode()
    left = b""
    while data := file.read(BLOCK_BYTES):
        progressed()
        data = left + data
        cut = _end_of_rows(data, end, quote)
        left = data[cut:]
        if cut:
            yield data[:cut]
    if left:
        raise SinkError("the last row has no end", hint=_RESTORE)


def _end_of_rows(data: bytes, end: bytes, quote: bytes) -> int:
    at = data.rfind(end)
    quotes = data.count(quote, 0, max(at, 0))
    while at >= 0 and quotes % 2:
        before = data.rfind(end, 0, at)
        quotes -= data.count(quote, max(before, 0), at)
        at = before
    return at + len(end) if at >= 0 else 0


def _parsed(data: bytes, names: Sequence[str], form: CsvForm, *, skip: int) -> pa.Table:
    try:
        return pa_csv.read_csv(
            pa.BufferReader(data),
            read_options=pa_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=list(names), skip_rows=skip),
            parse_options=pa_csv.ParseOptions(delimiter=form.delimiter, quote_char=form.quote, double_quote=True, newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[form.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise SinkError(f"it is no csv of {len(names)} fields: {error}", hint=_RESTORE) from error


def _text(column: Column, values: pa.Array, form: CsvForm, era: Era) -> pa.Array:
    try:
        return canonical_texts(column, values, form)
    except ValueError as error:
        raise SinkError(f"column {column.name} of {era.name} holds a text that is no {column.kind}: {error}", hint=_RESTORE) from error
