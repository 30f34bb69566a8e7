r"""How a changefeed's storage sink writes csv: what its definition says, with TiCDC's defaults, and the patterns of one value.

    with a quote      texts have the quote around them and twice inside; numbers, NULL and is-update have none
    without a quote   texts have a backslash before CR (as r), LF (as n), backslashes and each byte of the delimiter; NULL has none

A dialect in which two different rows can be the same bytes is refused: nobody can read it back.

No parameter of the sink URI overrides these settings. Source: pingcap/ticdc pkg/config/sink.go (CSVConfig), replica_config.go (defaults),
pkg/sink/codec/csv/csv_message.go; pingcap/tiflow of the same paths, which is the one that writes the handle key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.ticdc.changefeed import Changefeed

Binary = Literal["base64", "hex"]

_BINARIES: dict[object, Binary] = {"base64": "base64", "hex": "hex"}
_DELIMITER_BYTES_MAX = 3
_LINE_ENDS = frozenset("\r\n")
_NUMBER_CHARACTERS = frozenset("0123456789.e+-")
"""Of Go's %v: digits, and an exponent of large and small floats."""

_NUMBER = rb"-?[0-9][0-9.e+-]*+"

_FOLDER = "and let it write to an empty folder"
_DIALECT_HINT = f"create the changefeed with TiCDC's defaults of delimiter, quote and null in [sink.csv] and of sink.terminator, {_FOLDER}"
_COMMIT_TS_HINT = (
    "create the changefeed with include-commit-ts = true in [sink.csv] of its configuration (TiDB Cloud's console: Include commit ts), "
    f"{_FOLDER}"
)
_RAW_HINT = f"create the changefeed with output-old-value = true in [sink.csv], or without output-raw-change-event, {_FOLDER}"


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """`quote` is one character or none. `handle_key`: a column with the handle is before the values."""

    delimiter: str = ","
    quote: str = '"'
    null: str = r"\N"
    terminator: str = "\r\n"
    commit_ts: bool = False
    binary: Binary = "base64"
    old_values: bool = False
    header: bool = False
    handle_key: bool = False


def csv_dialect(changefeed: Changefeed) -> CsvDialect:
    """Raises FeedUnsuitable for one that cannot be read back, or whose rows have no order."""
    binary, written = changefeed.setting("sink", "csv", "binary-encoding-method"), CsvDialect()
    dialect = CsvDialect(
        delimiter=_text(changefeed, "csv", "delimiter", absent=written.delimiter),
        quote=_text(changefeed, "csv", "quote", absent=written.quote),
        null=_text(changefeed, "csv", "null", absent=written.null),
        terminator=_text(changefeed, "terminator", absent=written.terminator),
        commit_ts=_flag(changefeed, "include-commit-ts"),
        binary=_BINARIES.get(binary, written.binary),
        old_values=_flag(changefeed, "output-old-value"),
        header=_flag(changefeed, "output-field-header"),
        handle_key=_flag(changefeed, "output-handle-key") and not changefeed.new_architecture,
    )
    if not dialect.commit_ts:
        raise FeedUnsuitable("sink.csv.include-commit-ts is false: rows have no commit_ts to order them by", hint=_COMMIT_TS_HINT)
    if not dialect.old_values and changefeed.setting("sink", "cloud-storage-config", "output-raw-change-event") is True:
        what = "sink.cloud-storage-config.output-raw-change-event is true: an update of a key does not say which row is gone"
        raise FeedUnsuitable(what, hint=_RAW_HINT)
    if binary is not None and binary not in _BINARIES:
        raise FeedUnsuitable(f"sink.csv.binary-encoding-method {binary!r} is none that TiCDC has", hint=_DIALECT_HINT)
    if why := _ambiguity(dialect):
        raise FeedUnsuitable(f"csv of this changefeed cannot be read back: {why}", hint=_DIALECT_HINT)
    return dialect


def _text(changefeed: Changefeed, *path: str, absent: str) -> str:
    text = changefeed.setting("sink", *path)
    return text if isinstance(text, str) else absent


def _flag(changefeed: Changefeed, name: str) -> bool:
    switch = changefeed.setting("sink", "csv", name)
    return switch is True


def _ambiguity(dialect: CsvDialect) -> str:
    """Why two rows can be the same bytes; empty: they cannot."""
    delimiter, null, terminator = dialect.delimiter, dialect.null, dialect.terminator
    if not terminator or not _LINE_ENDS.issuperset(terminator):
        return f"terminator {terminator!r} is no line end"
    if not 0 < len(delimiter.encode()) <= _DELIMITER_BYTES_MAX or not _LINE_ENDS.isdisjoint(delimiter):
        return f"delimiter {delimiter!r} is not one to three bytes without a line end"
    if delimiter[0] in _NUMBER_CHARACTERS:
        return f"delimiter {delimiter!r} begins as a number"
    if delimiter in null or not _LINE_ENDS.isdisjoint(null):
        return f"null {null!r} has the delimiter or a line end in it"
    return _ambiguity_of_quotes(dialect) if dialect.quote else _ambiguity_of_escapes(dialect)


def _ambiguity_of_quotes(dialect: CsvDialect) -> str:
    quote, null = dialect.quote, dialect.null
    if len(quote.encode()) > 1 or quote in _NUMBER_CHARACTERS | _LINE_ENDS or quote in dialect.delimiter:
        return f"quote {quote!r} is not one byte that no number, line end or delimiter has"
    if quote in null or re.match(_NUMBER, null.encode()):
        return f"null {null!r} can be a text or a number"
    return ""


def _ambiguity_of_escapes(dialect: CsvDialect) -> str:
    delimiter, null = dialect.delimiter, dialect.null
    if "\\" in delimiter or set(delimiter) <= {"n", "r"}:
        return f"delimiter {delimiter!r} is an escape where there is no quote"
    if any(delimiter.startswith(delimiter[at:]) for at in range(1, len(delimiter))):
        return f"delimiter {delimiter!r} ends as it begins, where there is no quote"
    if re.fullmatch(text_pattern(dialect), null.encode()):
        return f"null {null!r} can be a text where there is no quote"
    return ""


# ---- patterns -------------------------------------------------------------------------------------------------------


def text_pattern(dialect: CsvDialect) -> bytes:
    """A text that is not NULL, with one group: its bytes as written, without the quotes around them."""
    if dialect.quote:
        return rb"%b(%b)%b" % (_quote(dialect), _quoted(dialect), _quote(dialect))
    return rb"(%b)" % _escaped(dialect)


def value_pattern(dialect: CsvDialect) -> bytes:
    """A value with one group, which takes no part in NULL."""
    end = rb"(?=%b|%b)" % (re.escape(dialect.delimiter.encode()), re.escape(dialect.terminator.encode()))
    null = re.escape(dialect.null.encode()) + end
    if not dialect.quote:
        return rb"(?:%b|(%b))" % (null, _escaped(dialect))
    quote = _quote(dialect)
    # one group for both, as Python makes an object of each: a quote before a text is looked back at, and one behind it looked ahead to
    return rb"(?:%b|%b?((?<=%b)%b(?=%b)|(?<!%b)%b%b)%b?)" % (null, quote, quote, _quoted(dialect), quote, quote, _NUMBER, end, quote)


def escapes(dialect: CsvDialect) -> dict[bytes, bytes]:
    """What begins with a backslash in a text, and what it is. TiCDC takes each byte of the delimiter for a character."""
    delimiter = dialect.delimiter.encode()
    written = b"".join(b"\\" + chr(byte).encode() for byte in delimiter)
    return {written: delimiter, b"\\\\": b"\\", b"\\n": b"\n", b"\\r": b"\r"}


def _quote(dialect: CsvDialect) -> bytes:
    return re.escape(dialect.quote.encode())


def _quoted(dialect: CsvDialect) -> bytes:
    return rb"[^%b]*+(?:%b%b[^%b]*+)*+" % ((_quote(dialect),) * 4)


def _escaped(dialect: CsvDialect) -> bytes:
    first, *others = (re.escape(bytes([byte])) for byte in dialect.delimiter.encode())
    plain = rb"[^\\\r\n%b]++" % first
    if others:
        plain += rb"|%b(?!%b)" % (first, b"".join(others))
    return rb"(?:%b|%b)*+" % (plain, b"|".join(map(re.escape, escapes(dialect))))
