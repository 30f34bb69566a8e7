r"""The rows of one csv file, each as a message of codec "csv" (sidecar/shared/codecs/csv.py).

    [header] row*      row: op, table, schema, commit-ts, [is-update], [handle key], values, terminator

A row is matched as a whole by a pattern of its table's number of values, byte by byte: of a file that was cut or damaged come the rows
before that place and then the error, and no row that TiCDC did not write. The number of values is that of the header or the first row.

With old values an update is its old row as D and its new one as I, both with is-update, one directly behind the other: one message.
Without them it is one row as U. A cut between the two is an incomplete file. Whether commit_ts falls is not checked here.

Source: pingcap/ticdc pkg/sink/codec/csv/csv_message.go (encode, encodeHeader), csv_encoder.go (a header for each file).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

from msgspec import UNSET, Raw, json

from sidecar.shared.codecs.csv import CsvExtension, CsvMessage, RowType, Texts, encode_row
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.ticdc.csv_dialect import CsvDialect, escapes, text_pattern, value_pattern

_PATTERNS_MAX = 512
"""Of rows, by dialect and number of values: one of 10 values takes 2 ms to make."""

_SHOWN_BYTES_MAX = 60

_HINT = (
    "let nothing but this changefeed write the folder; if so, the file is incomplete or damaged, or [sink.csv] of the changefeed was "
    "another when it was written: create the changefeed again, and let it write to an empty folder"
)

_CUT = "the end of the file: it is incomplete"
_NEW_ROW = "the new row (I, with is-update) of the update whose old row is before it"
_HEAD_FIELDS = 5

_TYPES: dict[tuple[bytes, bytes], RowType] = {
    (b"I", b"false"): "INSERT",
    (b"D", b"false"): "DELETE",
    (b"I", b""): "INSERT",
    (b"U", b""): "UPDATE",
    (b"D", b""): "DELETE",
}
"""By op and is-update, of rows that are a change each."""


class CsvRow(NamedTuple):
    """`value`: of a message."""

    commit_ts: CommitTs
    value: bytes


class _Fields(NamedTuple):
    """Of row `number`, from 1, at byte `at`. `is_update` is empty where there is none."""

    number: int
    at: int
    op: bytes
    table: str
    schema: str
    commit_ts: CommitTs
    is_update: bytes
    texts: Texts

    def is_new_of(self, old: _Fields) -> bool:
        this, other = (self.schema, self.table, self.commit_ts), (old.schema, old.table, old.commit_ts)
        return self.op == b"I" and self.is_update == b"true" and this == other


def rows(data: bytes, dialect: CsvDialect, columns: Sequence[str], *, place: str) -> Iterator[CsvRow]:
    """Of a whole file. `columns`: all names of the schema file, of which rows lack the virtual generated ones. `place` names the file.

    Raises MessageUnreadable at the first row that is not whole."""
    file = _File(data, dialect, columns, place)
    names, old = Raw(json.encode(columns)), None
    for row in file.fields():
        type_ = _TYPES.get((row.op, row.is_update))
        if old is not None:
            if not row.is_new_of(old):
                raise file.refusal(row.number, row.at, _NEW_ROW)
            type_ = "UPDATE"
        elif type_ is None:
            if (row.op, row.is_update) != (b"D", b"true"):
                raise file.refusal(row.number, row.at, "I or D with is-update, the D of an update before its I")
            old = row
            continue
        message = CsvMessage(
            type_, row.schema, row.table, names, dialect.binary, (row.texts,), (old.texts,) if old else UNSET, CsvExtension(row.commit_ts)
        )
        old = None
        yield CsvRow(row.commit_ts, encode_row(message))
    if old is not None:
        raise file.refusal(old.number + 1, len(data), _NEW_ROW)


@dataclass(frozen=True, slots=True)
class _File:
    data: bytes
    dialect: CsvDialect
    columns: Sequence[str]
    place: str

    def fields(self) -> Iterator[_Fields]:
        data, grammar = self.data, _grammar(self.dialect)
        number, at, width = 1, *self._start(grammar)
        match, escape, plain = _row_pattern(self.dialect, width).match, grammar.escape, grammar.plain
        head = _HEAD_FIELDS + self.dialect.handle_key
        while at < len(data):
            row = match(data, at)
            if row is None:
                raise self._broken(grammar, number, at, width)
            groups = row.groups()
            if data.find(escape, at, row.end()) >= 0:
                groups = tuple(None if text is None else plain(text) for text in groups)
            op, table, schema, commit_ts, is_update, *_ = groups
            try:
                texts = [None if text is None else text.decode() for text in groups[head:]]
                fields = _Fields(number, at, op, table.decode(), schema.decode(), CommitTs(int(commit_ts)), is_update, texts)
            except UnicodeDecodeError as error:
                raise self.refusal(number, at, "UTF-8", got=str(error)) from error
            yield fields
            number, at = number + 1, row.end()

    def refusal(self, number: int, at: int, form: str, *, got: str = "") -> MessageUnreadable:
        if not got:
            got = repr(self.data[at : at + _SHOWN_BYTES_MAX])[1:] if at < len(self.data) else _CUT
        return MessageUnreadable(f"{self.place}: row {number}, byte {at}: expected {form}; got {got}", hint=_HINT)

    def _start(self, grammar: _Grammar) -> tuple[int, int]:
        """Where the first row begins, and the number of values of each row."""
        data = self.data
        if self.dialect.header and data:
            header = _header_pattern(self.dialect, tuple(self.columns)).match(data)
            if header is None:
                raise self.refusal(0, 0, f"a header with columns of {', '.join(self.columns)}", got=_CUT if grammar.ends(data, 0) else "")
            return header.end(), sum(name is not None for name in header.groups())
        head = grammar.head.match(data)
        if head is None:
            return 0, 1
        at, width = head.end(), 1
        while value := grammar.value.match(data, at):
            at, width = value.end(), width + 1
        if width > len(self.columns):
            raise self.refusal(1, 0, f"{len(self.columns)} values at most, one for each column of the schema file", got=str(width))
        return 0, width

    def _broken(self, grammar: _Grammar, number: int, at: int, width: int) -> MessageUnreadable:
        """Of a row that does not match: where, and what is there."""
        data, dialect = self.data, self.dialect
        head = grammar.head.match(data, at)
        if head is None:
            form = "op I, U or D, table, schema and commit-ts" + ", and is-update" * dialect.old_values
            return self.refusal(number, at, form, got=_CUT if grammar.ends(data, at) else "")
        at, count = head.end(), 1
        while count < width and (value := grammar.value.match(data, at)):
            at, count = value.end(), count + 1
        form = f"value {count} of {width}, and the {'terminator' if count == width else 'delimiter'}"
        return self.refusal(number, at, form, got=_CUT if grammar.ends(data, at) else "")


# ---- patterns -------------------------------------------------------------------------------------------------------


class _Grammar(NamedTuple):
    """`head`: the fields before the values. `value`: one that another one follows. Both with the delimiter behind. `escape`: what a field
    has whose text is not its bytes; `plain` makes the text. `cut`: a quoted text in which the file ends, or directly
    behind it."""

    head: re.Pattern[bytes]
    value: re.Pattern[bytes]
    escape: bytes
    plain: Callable[[bytes], bytes]
    cut: re.Pattern[bytes]
    terminator: bytes

    def ends(self, data: bytes, at: int) -> bool:
        """Whether the file ends inside the field at `at`, or before the row's end."""
        return self.cut.match(data, at) is not None or data.find(self.terminator, at) < 0


@lru_cache(maxsize=_PATTERNS_MAX)
def _grammar(dialect: CsvDialect) -> _Grammar:
    head, value = re.compile(_head(dialect)), re.compile(value_pattern(dialect) + re.escape(dialect.delimiter.encode()))
    end, quote, characters = dialect.terminator.encode(), dialect.quote.encode(), escapes(dialect)
    if quote:
        parts = (text[:size] for text in (dialect.delimiter.encode(), end) for size in range(len(text)))
        cut = re.compile(rb"%b[^%b]*+(?:%b%b[^%b]*+)*+(?:%b(?:%b))?\Z" % (*((re.escape(quote),) * 6), b"|".join(map(re.escape, parts))))
        return _Grammar(head, value, quote * 2, lambda text: text.replace(quote * 2, quote), cut, end)
    escape = re.compile(b"|".join(map(re.escape, characters)))
    no_quote = re.compile(rb"(?!)")
    return _Grammar(head, value, b"\\", partial(escape.sub, lambda match: characters[match[0]]), no_quote, end)


def _head(dialect: CsvDialect) -> bytes:
    delimiter, quote = re.escape(dialect.delimiter.encode()), re.escape(dialect.quote.encode())
    text = text_pattern(dialect)
    fields = [rb"%b([IUD])%b" % (quote, quote), text, text, rb"([1-9][0-9]{0,18})"]
    is_update = rb"(true|false)" + delimiter if dialect.old_values else rb"()"
    return delimiter.join(fields) + delimiter + is_update + (text + delimiter if dialect.handle_key else b"")


@lru_cache(maxsize=_PATTERNS_MAX)
def _row_pattern(dialect: CsvDialect, width: int) -> re.Pattern[bytes]:
    delimiter, terminator = re.escape(dialect.delimiter.encode()), re.escape(dialect.terminator.encode())
    return re.compile(_head(dialect) + delimiter.join([value_pattern(dialect)] * width) + terminator)


@lru_cache(maxsize=_PATTERNS_MAX)
def _header_pattern(dialect: CsvDialect, columns: tuple[str, ...]) -> re.Pattern[bytes]:
    """A group takes part for each column that rows have. Names are written as they are, without quotes or escapes."""
    delimiter = dialect.delimiter
    names = ["operation", "table", "schema", "commit-ts", *["is-update"] * dialect.old_values]
    head = delimiter.join(f"ticdc-meta${name}" for name in names)
    of_columns = "".join(f"({re.escape(delimiter + name)})?" for name in columns)
    return re.compile((re.escape(head) + of_columns + re.escape(dialect.terminator)).encode())
