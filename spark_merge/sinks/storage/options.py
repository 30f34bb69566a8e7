"""What a URI says of a storage output, under TiCDC's names. TiCDC takes `worker-count`, `flush-interval` and `file-size` from its URI, the
rest from the changefeed's config file ([sink], [sink.csv]); here all of it is in the URI.

What decides the output's form is kept beside it: an output continues as it began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from sidecar.shared.errors import SinkError
from spark_merge.codecs.encode.local_time import zone_of
from spark_merge.codecs.encode.messages import Architecture, Encoder
from spark_merge.codecs.protocols import encoder
from spark_merge.sinks.formats.csv_lines import CsvForm
from spark_merge.sinks.kit.options import (
    ValueKind,
    flag,
    is_word,
    names_of,
    number,
    one_of,
    option,
    options_in,
    read,
    seconds,
    text,
    texts_of,
)

Protocol: TypeAlias = Literal["csv", "canal-json"]
DateSeparator: TypeAlias = Literal["none", "year", "month", "day"]

DATES: dict[DateSeparator, str] = {"none": "", "year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d"}

NO_EFFECT = {"worker-count": "TiCDC's. It has no effect."}

_NO_HANDLE_KEY = "TiCDC's new architecture has no such column, and what the classic one writes there is no SQL value"
_FLAG = flag(any_case=True)


def _word(*known: Any) -> ValueKind[Any]:
    return one_of(*known, any_case=True)


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Picklable. The defaults are TiCDC's. `json`: of canal-json, None for csv. `output_form`: what decides it, by the URI."""

    csv: CsvForm
    json: Encoder | None
    output_form: Mapping[str, str]
    protocol: Protocol = option("protocol", _word(*get_args(Protocol)), "csv", "The format of the data files.", shown="must be given")
    date_separator: DateSeparator = option("date-separator", _word(*DATES), "day", "Puts files into a folder for each year, month or day.")
    digits: int = option("file-index-digit", number(6, 20), 20, "Digits of a data file's number.")
    partitions: bool = option("enable-partition-separator", _FLAG, True,
        "Puts the rows of a partition into a [folder of its own](#what-it-cannot-do).")  # fmt: skip
    terminator: str = option("terminator", text(), "\r\n", "The end of a line.", shown="CRLF")
    architecture: Architecture = option("architecture", _word("classic", "new"), "classic",
        "Whose schema files are written. The classic consumer stops at those of `new`; the new one needs them for an "
        "ENUM of csv.")  # fmt: skip
    time_zone: str = option("time-zone", text("a time zone"), "UTC",
        "The TiCDC server's `--tz`: of TIMESTAMPs and of the folders' dates.")  # fmt: skip
    file_bytes: int = option("file-size", number(1 << 20, 512 << 20), 64 << 20,
        "Bytes at which a file ends, up to some MB more.")  # fmt: skip
    flush_s: float = option("flush-interval", seconds(2, 600, or_zero=True), 5.0,
        "The next batch begins this long after the last one, or when more waits than a batch holds. `0s`: at once, in "
        "many small files.")  # fmt: skip
    handle_key: bool = option("csv.output-handle-key", _FLAG, False,
        "Only `false` is possible.")  # fmt: skip

    @property
    def ending(self) -> str:
        return FORMS[self.protocol].ending

    @property
    def date(self) -> str:
        """For strftime; empty where no folder has a date."""
        return DATES[self.date_separator]


@dataclass(frozen=True, slots=True)
class Csv:
    delimiter: str = option("csv.delimiter", text("1 to 3 ASCII characters"), ",", "What separates the fields.")
    quote: str = option("csv.quote", text("one ASCII character, or empty"), '"', "What texts are quoted with.")
    null: str = option("csv.null", text(), "\\N", "How NULL is written.")
    commit_ts: bool = option("csv.include-commit-ts", _FLAG, False,
        "Writes the commit_ts as the fourth field, by which a reader can order rows of partitions.")  # fmt: skip
    base64: bool = option("csv.binary-encoding-method", is_word("base64", "base64", "hex", any_case=True), True,
        "How binary values are written.")  # fmt: skip
    old_values: bool = option("csv.output-old-value", _FLAG, False,
        "Writes an update as D of the old row and I of the new one, and adds the field is-update.")  # fmt: skip
    header: bool = option("csv.output-field-header", _FLAG, False, "Begins each file with a line of field names.")


@dataclass(frozen=True, slots=True)
class StoredCanalJson:
    """As the Kafka sink's."""

    tidb_extension: str = option("enable-tidb-extension", text("`true`"), "true", "Of canal-json. Only `true` is possible.")
    updated_columns: bool = option("only-output-updated-columns", _FLAG, False, "Of canal-json, as in [KAFKA-SINK.md](KAFKA-SINK.md).")
    content_compatible: bool = option("content-compatible", _FLAG, False, "Of canal-json, as in [KAFKA-SINK.md](KAFKA-SINK.md).")
    handle_key_columns: bool = option("delete-only-output-handle-key-columns", _FLAG, False,
        "Of canal-json, as in [KAFKA-SINK.md](KAFKA-SINK.md).")  # fmt: skip


class FileForm(NamedTuple):
    """`ending`: of the data files. `own`: the protocol's own options. `is_encoded`: an encoder of messages writes the lines."""

    ending: str
    own: type[Any]
    is_encoded: bool


FORMS: dict[Protocol, FileForm] = {
    "csv": FileForm("csv", Csv, is_encoded=False),
    "canal-json": FileForm("json", StoredCanalJson, is_encoded=True),
}

_FORMLESS = frozenset({"file-size", "flush-interval", "csv.output-handle-key"})
"""Options that do not decide the form of an output."""

OPTIONS = (StorageOptions, Csv, StoredCanalJson, NO_EFFECT)
PARAMETERS = names_of(*OPTIONS)


def options_of(given: Mapping[str, str]) -> StorageOptions:
    """Raises SinkError, ConfigError naming the parameter."""
    options = read(StorageOptions, given, csv=CsvForm(), json=None, output_form={})
    if options.handle_key:
        raise SinkError(f"storage is not written with csv.output-handle-key=true: {_NO_HANDLE_KEY}", hint="leave csv.output-handle-key out")
    own = FORMS[options.protocol].own
    for name in sorted(given.keys() & names_of(Csv, StoredCanalJson) - names_of(own)):
        raise SinkError(f"{name} is not of protocol={options.protocol}", hint=f"leave {name} out, or set the other protocol")
    deciding = [one for declared in (StorageOptions, own) for one in options_in(declared) if one.name not in _FORMLESS]
    return replace(
        options,
        csv=_csv(options, read(Csv, given)),
        json=_encoder(options, read(own, given)) if FORMS[options.protocol].is_encoded else None,
        output_form=dict(sorted((one.name, given.get(one.name, one.default_text())) for one in deciding)),
    )


def _encoder(options: StorageOptions, own: object) -> Encoder:
    shape = texts_of(own)
    if shape["enable-tidb-extension"] != "true":
        raise SinkError(
            f"{options.protocol} is written with the TiDB extension alone",
            hint="set enable-tidb-extension=true, or leave it out: without it a reader has no commit-ts",
        )
    return encoder(options.protocol, architecture=options.architecture, options={**shape, "time-zone": options.time_zone})


def _csv(options: StorageOptions, csv: Csv) -> CsvForm:
    delimiter, quote = csv.delimiter, csv.quote
    form = CsvForm(
        **{one.name: getattr(csv, one.name) for one in fields(csv)},
        terminator=options.terminator or "\r\n",
        zone=zone_of(options.time_zone),
    )
    if len(quote) > 1 or quote in ("\r", "\n") or not quote.isascii():
        raise SinkError(f"csv.quote is {quote!r}", hint="give one character, or none")
    if not 1 <= len(delimiter) <= 3 or not delimiter.isascii() or set(delimiter) & {"\r", "\n", quote}:
        raise SinkError(f"csv.delimiter is {delimiter!r}", hint="give one to three ASCII characters, no line ends and not the quote")
    if not quote and any(char.isalnum() or char == "\\" for char in delimiter):
        raise SinkError(
            f"csv.delimiter is {delimiter!r} and csv.quote is empty", hint="use signs for the delimiter: an escape would look like it"
        )
    return form
