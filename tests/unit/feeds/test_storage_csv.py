"""csv of TiCDC's storage sink: each setting that changes bytes, against a writer that follows TiCDC's csv_message.go line by line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.feeds.storage.csv_rows import CsvRow, rows
from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from sidecar.shared.ticdc.csv_dialect import CsvDialect, csv_dialect

TS = 470609291186274312
COLUMNS = ["id", "note", "twice"]
NOT_SET: Mapping[str, object] = MappingProxyType({})


def changefeed(csv: Mapping[str, object] = NOT_SET, sink: Mapping[str, object] = NOT_SET, *, new: bool = False) -> Changefeed:
    """`csv`: of [sink.csv]; `sink`: of [sink]. `new`: of the new architecture."""
    config: dict[str, object] = {"sink": {**sink, "csv": {"include-commit-ts": True, **csv}}}
    name = ChangefeedName("default", "default", "orders")
    return Changefeed(name, "1", "file:///folder?protocol=csv", "csv", config=config, new_architecture=new)


# ---- TiCDC's writer -------------------------------------------------------------------------------------------------


class Number(str):
    """What Go's %v writes."""


Value = str | Number | None


class Written(NamedTuple):
    """One message: its rows, and what is read of them."""

    lines: tuple[bytes, ...]
    change: tuple[int, str, list[Value], list[Value] | None]


def field(dialect: CsvDialect, value: Value) -> bytes:
    if value is None:
        return dialect.null.encode()
    if isinstance(value, Number):
        return value.encode()
    if dialect.quote:
        return (dialect.quote + value.replace(dialect.quote, dialect.quote * 2) + dialect.quote).encode()
    return escaped(value.encode(), dialect.delimiter.encode())


def escaped(value: bytes, delimiter: bytes) -> bytes:
    """formatWithEscapes: each byte of the delimiter is written as a rune."""
    written, at = b"", 0
    while at < len(value):
        is_delimiter = value.startswith(delimiter, at)
        if value[at : at + 1] in (b"\r", b"\n", b"\\") or is_delimiter:
            written += b"\\" + {b"\r": b"r", b"\n": b"n"}.get(value[at : at + 1], chr(value[at]).encode())
            for byte in delimiter[1:] if is_delimiter else b"":
                written += b"\\" + chr(byte).encode()
            at += len(delimiter) if is_delimiter else 1
        else:
            written += value[at : at + 1]
            at += 1
    return written


def line(dialect: CsvDialect, op: str, table: str, values: Sequence[Value], *, ts: int = TS, is_update: bool = False) -> bytes:
    head: list[Value] = [op, table, "shop", Number(ts)]
    head += [Number("true" if is_update else "false")] if dialect.old_values else []
    head += ["{1, a}"] if dialect.handle_key else []
    return dialect.delimiter.encode().join(field(dialect, value) for value in (*head, *values)) + dialect.terminator.encode()


def header(dialect: CsvDialect, columns: Sequence[str]) -> bytes:
    if not dialect.header:
        return b""
    names = ["operation", "table", "schema", "commit-ts", *["is-update"] * dialect.old_values]
    return (dialect.delimiter.join([*(f"ticdc-meta${name}" for name in names), *columns]) + dialect.terminator).encode()


def change(dialect: CsvDialect, op: str, values: list[Value], old: list[Value], *, ts: int = TS) -> Written:
    if op == "UPDATE" and dialect.old_values:
        lines = tuple(line(dialect, letter, "t", row, ts=ts, is_update=True) for letter, row in (("D", old), ("I", values)))
        return Written(lines, (ts, op, values, old))
    return Written((line(dialect, {"INSERT": "I", "UPDATE": "U", "DELETE": "D"}[op], "t", values, ts=ts),), (ts, op, values, None))


# ---- what is read ---------------------------------------------------------------------------------------------------


def read(row: CsvRow, dialect: CsvDialect) -> tuple[int, str, list[Value], list[Value] | None]:
    message: dict[str, Any] = json.loads(row.value)
    assert list(message) == ["type", "database", "table", "columns", "binary", "data", *["old"] * ("old" in message), "_tidb", "isDdl"]
    assert (message["database"], message["table"], message["columns"]) == ("shop", "t", COLUMNS)
    assert (message["binary"], message["_tidb"], message["isDdl"]) == (dialect.binary, {"commitTs": row.commit_ts}, False)
    (data,) = message["data"]
    return row.commit_ts, message["type"], data, message["old"][0] if "old" in message else None


def parsed(data: bytes, dialect: CsvDialect, columns: Sequence[str] = COLUMNS) -> tuple[list[Any], str]:
    """What comes, and the error after it, empty if none."""
    results = []
    try:
        for row in rows(data, dialect, columns, place="shop/t/1/CDC000001.csv"):
            results.append(read(row, dialect))
    except MessageUnreadable as error:
        return results, str(error)
    return results, ""


SPECIAL = [
    "",
    "\\N",
    "NULL",
    '"',
    '""',
    "'",
    '"\\N"',
    "\\",
    "\r\n",
    "\n",
    ",",
    "||",
    "|",
    "true",
    "7",
    "-",
    'a","b',
    "\\n",
    "\\,",
    "，",
    "é😀",
]
TEXTS = st.sampled_from(SPECIAL) | st.text(st.sampled_from("\"',|+nrxN\\\r\n ;，、ｱé0-e"), max_size=12)
VALUES = st.none() | TEXTS | st.sampled_from(["0", "-5", "18446744073709551615", "1.5e+08", "-0", "1e-07", "3.25"]).map(Number)
QUOTED = st.fixed_dictionaries(
    {
        "quote": st.sampled_from(['"', "'", "`"]),
        "delimiter": st.sampled_from([",", "|", "||", "|+|", "\t", ", ", "，", "n", "\\"]),
        "null": st.sampled_from(["\\N", "", "NULL", "-", "nil"]),
    }
).filter(lambda of: of["delimiter"] not in of["null"])
NOT_QUOTED = st.fixed_dictionaries(
    {
        "quote": st.just(""),
        "delimiter": st.sampled_from([",", "|", "|+", "\t", ", ", "，", "nx", ";N"]),
        "null": st.sampled_from(["\\N", "\\\\\\0"]),
    }
)
FLAGS = ("output-old-value", "output-field-header", "output-handle-key")


@st.composite
def dialects(draw: st.DrawFn) -> CsvDialect:
    """As a changefeed has them that is not refused."""
    csv = draw(QUOTED | NOT_QUOTED) | {flag: draw(st.booleans()) for flag in FLAGS}
    csv["binary-encoding-method"] = draw(st.sampled_from(["base64", "hex"]))
    return csv_dialect(changefeed(csv, {"terminator": draw(st.sampled_from(["\r\n", "\n", "\r"]))}))


@st.composite
def files(draw: st.DrawFn, dialect: CsvDialect, *, rows_max: int) -> list[Written]:
    """Changes of a table whose third column is virtual or not."""
    width = draw(st.sampled_from([2, 3]))
    row = st.lists(VALUES, min_size=width, max_size=width)
    ops = draw(st.lists(st.sampled_from(["INSERT", "UPDATE", "DELETE"]), max_size=rows_max))
    return [change(dialect, op, draw(row), draw(row), ts=TS + number) for number, op in enumerate(ops)]


def head_of(dialect: CsvDialect, changes: Sequence[Written]) -> bytes:
    width = len(changes[0].change[2]) if changes else len(COLUMNS)
    return header(dialect, COLUMNS[:width])


@given(data=st.data(), dialect=dialects())
def test_what_ticdc_writes_is_read_back(data: st.DataObject, dialect: CsvDialect) -> None:
    changes = data.draw(files(dialect, rows_max=6))
    content = head_of(dialect, changes) + b"".join(part for one in changes for part in one.lines)
    assert parsed(content, dialect) == ([one.change for one in changes], "")


@given(data=st.data(), dialect=dialects())
def test_a_file_that_is_cut_anywhere_has_the_changes_before_and_is_incomplete(data: st.DataObject, dialect: CsvDialect) -> None:
    changes = data.draw(files(dialect, rows_max=3))
    parts = [head_of(dialect, changes), *(b"".join(one.lines) for one in changes)]
    content, ends = b"".join(parts), list(accumulate(map(len, parts)))
    for cut in range(1, len(content)):
        whole = sum(end <= cut for end in ends[1:])
        results, error = parsed(content[:cut], dialect)
        assert results == [one.change for one in changes[:whole]]
        assert ("it is incomplete" in error) is (cut not in ends), (content[:cut], error)


@given(
    data=st.data(),
    dialect=dialects(),
    rest=st.binary(min_size=1, max_size=30) | st.text(st.sampled_from('",\\N\r\nI0'), min_size=1).map(str.encode),
)
def test_what_follows_that_is_no_row_is_refused(data: st.DataObject, dialect: CsvDialect, rest: bytes) -> None:
    changes = data.draw(files(dialect, rows_max=2).filter(bool))
    content = head_of(dialect, changes) + b"".join(part for one in changes for part in one.lines)
    results, error = parsed(content + rest, dialect)
    assert results == [one.change for one in changes]
    assert error.startswith(f"shop/t/1/CDC000001.csv: row {1 + sum(len(one.lines) for one in changes)}, byte ")


# ---- refusals -------------------------------------------------------------------------------------------------------

PLAIN = CsvDialect(commit_ts=True)
OLD = replace(PLAIN, old_values=True)
ROW = b'"I","t","shop",5,1,"a",\\N\r\n'


@pytest.mark.parametrize(
    ("dialect", "content", "error"),
    [
        (PLAIN, ROW + b'"X","t","shop",5,1,"a",\\N\r\n', "row 2, byte 27: expected op I, U or D, table, schema and commit-ts; got '\"X\""),
        (PLAIN, b'"I","t","shop",0,1,"a",\\N\r\n', "row 1, byte 0: expected op"),
        (PLAIN, b'"I","t","shop","5",1,"a",\\N\r\n', "row 1, byte 0: expected op"),
        (PLAIN, ROW + b'"I","t","shop",6,1,"a"\r\n', "row 2, byte 46: expected value 2 of 3, and the delimiter; got '\"a\"\\r\\n'"),
        (PLAIN, ROW + b'"I","t","shop",6,1,"a",2,3\r\n', "row 2, byte 50: expected value 3 of 3, and the terminator; got '2,3"),
        (PLAIN, b'"I","t","shop",6,1,"a",2,3\r\n', "row 1, byte 0: expected 3 values at most, one for each column"),
        (PLAIN, ROW + b'"I","t","shop",6,1,a,2\r\n', "row 2, byte 46: expected value 2 of 3"),
        (PLAIN, ROW + b'"I","t","shop",6,1,"a"b,2\r\n', "row 2, byte 46: expected value 2 of 3"),
        (PLAIN, ROW + b'"I","t","shop",6,1,5",2\r\n', "row 2, byte 46: expected value 2 of 3"),
        (PLAIN, ROW + b'"I","t","shop",6,1,,2\r\n', "row 2, byte 46: expected value 2 of 3"),
        (PLAIN, ROW + b'"I","t","shop",6,1,"\xff",2\r\n', "row 2, byte 27: expected UTF-8; got "),
        (PLAIN, ROW + b'"I","t","shop",6,1,"a",2\n', "it is incomplete"),
        (OLD, ROW, "row 1, byte 0: expected op I, U or D, table, schema and commit-ts, and is-update; got"),
        (OLD, line(OLD, "U", "t", ["1"], is_update=True), "row 1, byte 0: expected I or D with is-update, the D of an update before its I"),
        (OLD, line(OLD, "I", "t", ["1"], is_update=True), "row 1, byte 0: expected I or D with is-update"),
        (OLD, line(OLD, "D", "t", ["1"], is_update=True), "row 2, byte 44: expected the new row (I, with is-update) of the update"),
        (OLD, line(OLD, "D", "t", ["1"], is_update=True) * 2, "row 2, byte 44: expected the new row"),
        (OLD, line(OLD, "D", "t", ["1"], is_update=True) + line(OLD, "I", "t", ["1"]), "row 2, byte 44: expected the new row"),
        (OLD, line(OLD, "D", "t", ["1"], is_update=True) + line(OLD, "I", "u", ["1"], is_update=True), "row 2, byte 44: expected"),
        (OLD, line(OLD, "D", "t", ["1"], is_update=True) + line(OLD, "I", "t", ["1"], ts=TS + 1, is_update=True), "row 2, byte 44"),
        (replace(PLAIN, header=True), ROW, "row 0, byte 0: expected a header with columns of id, note, twice; got '\"I\""),
        (replace(PLAIN, header=True), header(replace(PLAIN, header=True), ["id", "other"]) + ROW, "row 0, byte 0: expected a header"),
        (replace(PLAIN, header=True), header(replace(PLAIN, header=True), COLUMNS[:2]) + ROW, "expected value 2 of 2, and the terminator"),
    ],
)  # fmt: skip
def test_refuses_what_ticdc_does_not_write(dialect: CsvDialect, content: bytes, error: str) -> None:
    _, got = parsed(content, dialect)
    assert error in got
    assert got.startswith("shop/t/1/CDC000001.csv: row ")
    assert "what to do: let nothing but this changefeed write the folder" in got


def test_a_file_without_bytes_has_no_rows() -> None:
    assert parsed(b"", PLAIN) == parsed(b"", replace(PLAIN, header=True)) == ([], "")


# ---- a changefeed's settings ----------------------------------------------------------------------------------------


def test_settings_that_are_not_there_are_ticdcs_defaults() -> None:
    assert csv_dialect(changefeed()) == CsvDialect(",", '"', "\\N", "\r\n", commit_ts=True, binary="base64")


def test_each_setting_is_the_changefeeds() -> None:
    csv: dict[str, object] = {
        "delimiter": "|+|", "quote": "'", "null": "NULL", "binary-encoding-method": "hex", "output-old-value": True,
        "output-field-header": True, "output-handle-key": True,
    }  # fmt: skip
    each_set = CsvDialect("|+|", "'", "NULL", "\n", commit_ts=True, binary="hex", old_values=True, header=True, handle_key=True)
    assert csv_dialect(changefeed(csv, {"terminator": "\n"})) == each_set


def test_the_new_architecture_writes_no_handle_key() -> None:
    assert not csv_dialect(changefeed({"output-handle-key": True}, new=True)).handle_key


def test_refuses_rows_without_commit_ts() -> None:
    for off in (False, None):
        with pytest.raises(FeedUnsuitable, match="include-commit-ts is false") as refused:
            csv_dialect(changefeed({"include-commit-ts": off}))
        assert "include-commit-ts = true in [sink.csv]" in refused.value.hint
        assert "TiDB Cloud" in refused.value.hint


def test_refuses_updates_of_keys_without_the_old_row() -> None:
    raw = {"output-raw-change-event": True}
    with pytest.raises(FeedUnsuitable, match="output-raw-change-event is true: an update of a key does not say which row is gone"):
        csv_dialect(changefeed(sink={"cloud-storage-config": raw}))
    assert csv_dialect(changefeed({"output-old-value": True}, {"cloud-storage-config": raw})).old_values


@pytest.mark.parametrize(
    ("csv", "sink", "why"),
    [
        ({}, {"terminator": ""}, "terminator '' is no line end"),
        ({}, {"terminator": ";"}, "terminator ';' is no line end"),
        ({"delimiter": ""}, {}, "delimiter '' is not one to three bytes without a line end"),
        ({"delimiter": "||||"}, {}, "delimiter '||||' is not one to three bytes"),
        ({"delimiter": "\n"}, {}, "delimiter '\\n' is not one to three bytes without a line end"),
        ({"delimiter": "-"}, {}, "delimiter '-' begins as a number"),
        ({"delimiter": "1|"}, {}, "delimiter '1|' begins as a number"),
        ({"null": "a,b"}, {}, "null 'a,b' has the delimiter or a line end in it"),
        ({"null": "\r"}, {}, "null '\\r' has the delimiter or a line end in it"),
        ({"quote": "7"}, {}, "quote '7' is not one byte that no number, line end or delimiter has"),
        ({"quote": "|", "delimiter": "a|"}, {}, "quote '|' is not one byte"),
        ({"quote": "''"}, {}, "is not one byte"),
        ({"null": "0"}, {}, "null '0' can be a text or a number"),
        ({"null": '""'}, {}, "null '\"\"' can be a text or a number"),
        ({"quote": "", "delimiter": "\\", "null": "N"}, {}, "delimiter '\\\\' is an escape where there is no quote"),
        ({"quote": "", "delimiter": "n"}, {}, "delimiter 'n' is an escape"),
        ({"quote": "", "delimiter": "nr"}, {}, "delimiter 'nr' is an escape"),
        ({"quote": "", "delimiter": "||"}, {}, "delimiter '||' ends as it begins"),
        ({"quote": "", "delimiter": "|+|"}, {}, "delimiter '|+|' ends as it begins"),
        ({"quote": "", "null": "NULL"}, {}, "null 'NULL' can be a text where there is no quote"),
        ({"quote": "", "null": ""}, {}, "null '' can be a text where there is no quote"),
        ({"quote": "", "delimiter": "N"}, {}, "null '\\\\N' has the delimiter"),
        ({"binary-encoding-method": "base32"}, {}, "sink.csv.binary-encoding-method 'base32' is none that TiCDC has"),
    ],
)  # fmt: skip
def test_refuses_settings_in_which_two_rows_can_be_the_same_bytes(csv: dict[str, object], sink: dict[str, object], why: str) -> None:
    with pytest.raises(FeedUnsuitable) as refused:
        csv_dialect(changefeed(csv, sink))
    assert why in refused.value.message
    assert "TiCDC's defaults of delimiter, quote and null" in refused.value.hint
