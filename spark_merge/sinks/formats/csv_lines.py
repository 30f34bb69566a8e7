"""Rows as TiCDC's storage sink writes them in csv, a column at a time, and the same lines as columns of canonical text again.

    "I","table","schema"[,commit-ts][,is-update],value,value,…      I insert, U update, D delete, then the terminator

    int, uint, bit, year   digits                                    float, double   as Go's %v: 1.5e+08 from 1e6 on
    decimal, date, time, datetime, timestamp, json, vector, text     quoted; a timestamp in the server's zone
    enum, set              quoted labels                             binary          quoted base64 or lower-case hex
    NULL                   `null`, without quotes

An update is the new row; with `old_values` it is the old row as D and the new one as I, both with is-update. Without a quote texts have
backslashes before line ends, backslashes and the delimiter.

A reader by columns takes what most writers of csv give: one delimiter, quotes, lines that end as lines do. Other forms are refused by the
parameter that made them (`check_form`).

Source: pingcap/tiflow pkg/sink/codec/csv/csv_message.go, pingcap/ticdc of the same path; the recordings.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import IO, Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from sidecar.shared.columns.values import from_bytes, from_floats, parse_floats
from sidecar.shared.columns.zone import ServerZone
from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.codecs.encode.block import Block, image_columns
from spark_merge.codecs.encode.lazy_polars import pl
from spark_merge.codecs.encode.local_time import UTC, local_texts
from spark_merge.ddl.eras import Era
from spark_merge.port.readable import RowsRead, Versions
from spark_merge.sinks.formats.json_lines import line_blocks
from spark_merge.sinks.kit.row_versions import ranks, rows_read

_RESTORE = "restore the folder, or deliver to a new one and dump again"
_LINE_ENDS = ("\r\n", "\n")

_ROWS_MAX = 8192
_BYTES_MAX = 64 << 20
"""Of canonical text in one array of lines, which ends at 2 GiB."""

_PLAIN_MIN, _PLAIN_MAX = 1e-4, 1e6
"""Between them Go's %v writes no exponent, and Arrow the same digits."""

_LETTERS = {"insert": "I", "update": "U", "delete": "D"}


@dataclass(frozen=True, slots=True)
class CsvForm:
    """Under TiCDC's names: `csv.delimiter`, `csv.quote`, `csv.null`, `csv.include-commit-ts`, `csv.binary-encoding-method` (base64, else
    hex), `csv.output-old-value`, `csv.output-field-header`, `terminator`; `zone` of the TiCDC server."""

    delimiter: str = ","
    quote: str = '"'
    null: str = "\\N"
    commit_ts: bool = False
    base64: bool = True
    old_values: bool = False
    header: bool = False
    terminator: str = "\r\n"
    zone: ZoneInfo = UTC


def csv_header(schema: TableSchema, form: CsvForm) -> bytes:
    """The first line of a file; empty where it has none."""
    if not form.header:
        return b""
    headings = ["operation", "table", "schema", *["commit-ts"] * form.commit_ts, *["is-update"] * form.old_values]
    return (form.delimiter.join([*(f"ticdc-meta${name}" for name in headings), *schema.column_names()]) + form.terminator).encode()


def csv_lines(block: Block, form: CsvForm) -> Iterator[memoryview]:
    """The block's lines in order, each with its terminator, some at a time. Raises SinkError for a text that is no value."""
    for part in _parts(block):
        yield _bytes(_lines(part, form))


def _parts(block: Block) -> Iterator[Block]:
    """Of so many rows and bytes at most, but at least a row."""
    rows = block.rows
    if rows > 1 and (rows > _ROWS_MAX or block.before.nbytes + block.after.nbytes > _BYTES_MAX):
        yield from _parts(_sliced(block, 0, rows // 2))
        yield from _parts(_sliced(block, rows // 2, rows))
    elif rows:
        yield block


def _sliced(block: Block, start: int, end: int) -> Block:
    arrays = {name: getattr(block, name).slice(start, end - start) for name in ("ordinal", "commit_ts", "op", "before", "after")}
    return replace(block, **arrays)


def _lines(block: Block, form: CsvForm) -> pa.Array:
    ops = block.op
    updated = pc.equal(ops, "update")
    letters = _letters(ops, old_values=form.old_values)
    rows = _joined(block, letters, updated, image_columns(block), form)
    if not form.old_values or not pc.any(updated).as_py():
        return rows
    before = [block.before.field(place) for place in range(block.before.type.num_fields)]
    old = _joined(block, pa.repeat("D", block.rows), updated, before, form)
    return pc.if_else(updated, pc.binary_join_element_wise(old, rows, ""), rows)


def _bytes(lines: pa.Array) -> memoryview:
    """One behind the other, as they are in the array."""
    _, ends, data = lines.buffers()
    offsets = np.frombuffer(ends, np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return memoryview(data)[offsets[0] : offsets[-1]]


def _letters(ops: pa.Array, *, old_values: bool) -> pa.Array:
    known = _LETTERS | ({"update": "I"} if old_values else {})
    encoded = ops.dictionary_encode()
    return pa.array([known[op] for op in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def _joined(block: Block, letters: pa.Array, updated: pa.Array, columns: list[pa.Array], form: CsvForm) -> pa.Array:
    schema, table = block.schema.name
    parts = [_quoted(letters, form), _fixed(table, form), _fixed(schema, form)]
    parts += [pc.cast(block.commit_ts, pa.string())] if form.commit_ts else []
    parts += [pc.if_else(updated, "true", "false")] if form.old_values else []
    parts += [_values(block, column, texts, form) for column, texts in zip(block.schema.columns, columns, strict=True)]
    return pc.binary_join_element_wise(pc.binary_join_element_wise(*parts, form.delimiter), form.terminator, "")


def _fixed(text: str, form: CsvForm) -> str:
    quoted_text: str = _quoted(pa.array([text]), form)[0].as_py()
    return quoted_text


def _values(block: Block, column: Column, texts: pa.Array, form: CsvForm) -> pa.Array:
    try:
        return pc.fill_null(_value_texts(column, texts, form), form.null)
    except (pa.ArrowInvalid, binascii.Error, pl.exceptions.PolarsError) as error:
        raise SinkError(
            f"table {block.schema.name}, column {column.name}: a text is no {column.kind}: {error}",
            hint="check that the log is whole, then report this: the value does not fit the column's schema in the log",
        ) from error


def _value_texts(column: Column, texts: pa.Array, form: CsvForm) -> pa.Array:
    match column.kind:
        case "int" | "uint" | "bit":
            return texts
        case "year":
            return texts.cast(pa.int16()).cast(pa.string())
        case "float" | "double":
            return general(texts, bits=32 if column.kind == "float" else 64)
        case "binary":
            return _quoted(_binary(texts, form), form)
        case "timestamp":
            return _quoted(local_texts(texts, form.zone), form)
        case _:
            return _quoted(texts, form)


def _quoted(texts: pa.Array, form: CsvForm) -> pa.Array:
    if form.quote:
        return pc.binary_join_element_wise(form.quote, pc.replace_substring(texts, form.quote, 2 * form.quote), form.quote, "")
    escapes = {"\\": "\\\\", "\r": "\\r", "\n": "\\n", form.delimiter: "".join(f"\\{char}" for char in form.delimiter)}
    for char, escape in escapes.items():
        texts = pc.replace_substring(texts, char, escape)
    return texts


def _binary(hexes: pa.Array, form: CsvForm) -> pa.Array:
    if not form.base64:
        return pc.utf8_lower(hexes)
    encoded = pl.Series(pl.from_arrow(hexes), dtype=pl.String).str.decode("hex", strict=True).bin.encode("base64")
    return encoded.to_arrow().cast(pa.string())


def general(texts: pa.Array, *, bits: int) -> pa.Array:
    """Canonical floats as Go's %v: the shortest digits, with an exponent below 1e-4 and from 1e6 on."""
    numbers = texts.cast(pa.float64())
    if bits == 32:
        numbers = numbers.cast(pa.float32(), safe=False)
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    sizes = np.abs(values)
    plain = (sizes >= _PLAIN_MIN) & (sizes < _PLAIN_MAX) | ((sizes == 0) & ~np.signbit(values))
    shortest = numbers.cast(pa.string())
    if plain.all():
        return shortest
    others = pa.array([_with_exponent(str(value)) for value in values[~plain]], pa.string())
    return pc.replace_with_mask(shortest, pa.array(~plain), others)


def _with_exponent(shortest: str) -> str:
    sign, digits, exponent = Decimal(shortest).as_tuple()
    if not isinstance(exponent, int):
        raise pa.ArrowInvalid(f"{shortest} is no finite number")
    text = "".join(map(str, digits)).rstrip("0")
    if not text:
        return "-0" if sign else "0"
    exponent += len(digits) - 1
    fraction = f".{text[1:]}" if text[1:] else ""
    return f"{'-' if sign else ''}{text[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


# ---- read back ---------------------------------------------------------------------------------------------------------


def check_form(form: CsvForm) -> None:
    """Raises SinkError for a form that does not say enough, or that no reader by columns takes."""
    why = {
        "csv.include-commit-ts=false": "" if form.commit_ts else "which version of a row is the last one is not in the files",
        "csv.quote=": "" if form.quote else "a text that looks like csv.null cannot be distinguished from NULL",
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
    for data in line_blocks(file, form.terminator.encode(), form.quote.encode()):
        table = _parsed(data, names, form, skip=skip)
        skip = 0
        rows = {name: _text(column, table.column(name).combine_chunks(), form, era) for name, column in types.items()}
        gone = pc.equal(table.column("#op").combine_chunks(), "D")
        commit_ts = table.column("#commit_ts").combine_chunks().cast(pa.int64())
        if len(commit_ts):
            yield rows_read(era, rows, Versions(commit_ts, ranks(gone), gone), types=types)


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
        return _canonical_texts(column, values, form)
    except ValueError as error:
        raise SinkError(f"column {column.name} of {era.name} holds a text that is no {column.kind}: {error}", hint=_RESTORE) from error


def _canonical_texts(column: Column, values: pa.Array, form: CsvForm) -> pa.Array:
    """`values`: fields without quotes and escapes, null where NULL. Raises ValueError for a text that is no value."""
    match column.kind:
        case "year":
            return pc.utf8_lpad(values, 4, "0")
        case "float" | "double":
            return from_floats(parse_floats(values), column)
        case "binary":
            return from_bytes(_decoded(values, form), column)
        case "timestamp":
            return values if form.zone.key == UTC.key else ServerZone(form.zone.key, "first").utc_texts(values)
        case _:
            return values


def _decoded(values: pa.Array, form: CsvForm) -> pa.Array:
    series: Any = pl.Series(pl.from_arrow(values), dtype=pl.String)
    try:
        decoded = series.str.decode("base64" if form.base64 else "hex", strict=True)
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error)) from error
    return decoded.to_arrow().cast(pa.binary())
