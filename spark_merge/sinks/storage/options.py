"""What a URI says of a storage output, under TiCDC's names. TiCDC takes `worker-count`, `flush-interval` and `file-size` from its URI, the
rest from the changefeed's config file ([sink], [sink.csv]); here all of it is in the URI.

    protocol                     csv | canal-json                        file-size           67108864, from 1048576 to 536870912
    date-separator               none | year | month | day: day          file-index-digit    20, from 6
    enable-partition-separator   true                                    terminator          CRLF
    csv.delimiter csv.quote csv.null csv.include-commit-ts csv.binary-encoding-method csv.output-old-value csv.output-field-header
    enable-tidb-extension only-output-updated-columns content-compatible delete-only-output-handle-key-columns     canal-json's
    architecture                 classic | new: whose schema files       time-zone           the TiCDC server's: UTC
    flush-interval               5s, from 2s to 10m; 0s: at once        worker-count        taken, and nothing to do: tasks are the batch's

What decides the output's form is kept beside it: an output goes on as it began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sidecar.errors import SinkError
from spark_merge.encode.csv_lines import CsvForm
from spark_merge.encode.messages import Architecture, Encoder
from spark_merge.encode.zone import zone_of
from spark_merge.protocols import encoder
from spark_merge.sinks.parameters import Parameters

_CSV = {
    "csv.delimiter": ",", "csv.quote": '"', "csv.null": "\\N", "csv.include-commit-ts": "false", "csv.binary-encoding-method": "base64",
    "csv.output-old-value": "false", "csv.output-field-header": "false",
}  # fmt: skip
_CANAL = {
    "enable-tidb-extension": "true", "only-output-updated-columns": "false", "content-compatible": "false",
    "delete-only-output-handle-key-columns": "false",
}  # fmt: skip
_FORMS: dict[str, tuple[str, Mapping[str, str], bool]] = {"csv": ("csv", _CSV, False), "canal-json": ("json", _CANAL, True)}
"""By protocol: the ending of its files, its own parameters, and whether an encoder of messages writes its lines."""

_BOTH = {
    "protocol": "", "date-separator": "day", "file-index-digit": "20", "enable-partition-separator": "true", "terminator": "\r\n",
    "architecture": "classic", "time-zone": "UTC",
}  # fmt: skip
"""What decides the form of an output, with TiCDC's defaults."""

_REFUSED = {"csv.output-handle-key": "TiCDC's new architecture has no such column, and what the classic one writes there is no SQL value"}
_PACE = frozenset({"flush-interval", "worker-count", "file-size"})
PARAMETERS = _CSV.keys() | _CANAL.keys() | _BOTH.keys() | _PACE | _REFUSED.keys()

FILE_BYTES, FILE_BYTES_MIN, FILE_BYTES_MAX = 64 << 20, 1 << 20, 512 << 20
FLUSH_S, FLUSH_MIN_S, FLUSH_MAX_S = 5.0, 2.0, 600.0
DIGITS, DIGITS_MIN = 20, 6
DATES = {"none": "", "year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d"}


@dataclass(frozen=True, slots=True)
class Options:
    """Picklable. `date`: for strftime, empty for none. `json`: of canal-json, None for csv. `told`: what decides the output's form."""

    ending: str
    date: str
    digits: int
    partitions: bool
    file_bytes: int
    flush_s: float
    architecture: Architecture
    csv: CsvForm
    json: Encoder | None
    told: Mapping[str, str]


def options_of(given: Mapping[str, str]) -> Options:
    """Raises SinkError, ConfigError naming the parameter."""
    found = Parameters(given, any_case=True)
    protocol = found.one_of("protocol", tuple(_FORMS))
    ending, own, is_encoded = _FORMS[protocol]
    for name, why in _REFUSED.items():
        if found.flag(name, otherwise=False):
            raise SinkError(f"storage is not written with {name}=true: {why}", hint=f"leave {name} out")
    for name in sorted(given.keys() & (_CSV | _CANAL).keys() - own.keys()):
        raise SinkError(f"{name} is not of protocol={protocol}", hint=f"leave {name} out, or set the other protocol")
    architecture: Architecture = found.one_of("architecture", ("classic", "new"))
    return Options(
        ending=ending,
        date=DATES[found.one_of("date-separator", tuple(DATES), "day")],
        digits=found.number("file-index-digit", DIGITS, DIGITS, least=DIGITS_MIN),
        partitions=found.flag("enable-partition-separator", otherwise=True),
        file_bytes=found.number("file-size", FILE_BYTES, FILE_BYTES_MAX, least=FILE_BYTES_MIN),
        flush_s=found.seconds("flush-interval", FLUSH_S, FLUSH_MAX_S, least=FLUSH_MIN_S, or_none=True),
        architecture=architecture,
        csv=_csv(found),
        json=_encoder(found, protocol, architecture) if is_encoded else None,
        told={name: given.get(name, default) for name, default in sorted({**_BOTH, **own}.items())},
    )


def _encoder(found: Parameters, protocol: str, architecture: Architecture) -> Encoder:
    if found.text("enable-tidb-extension", "true") != "true":
        raise SinkError(
            f"{protocol} is written with the TiDB extension alone",
            hint="set enable-tidb-extension=true, or leave it out: without it a reader has no commit-ts",
        )
    shapes = {name: str(found.flag(name, otherwise=False)).lower() for name in _CANAL.keys() - {"enable-tidb-extension"}}
    return encoder(
        protocol,
        architecture=architecture,
        options={**shapes, "enable-tidb-extension": "true", "time-zone": found.text("time-zone", "UTC")},
    )


def _csv(found: Parameters) -> CsvForm:
    delimiter, quote = found.text("csv.delimiter", ","), found.text("csv.quote", '"')
    form = CsvForm(
        delimiter=delimiter,
        quote=quote,
        null=found.text("csv.null", "\\N"),
        commit_ts=found.flag("csv.include-commit-ts", otherwise=False),
        base64=found.one_of("csv.binary-encoding-method", ("base64", "hex"), "base64") == "base64",
        old_values=found.flag("csv.output-old-value", otherwise=False),
        header=found.flag("csv.output-field-header", otherwise=False),
        terminator=found.text("terminator", "\r\n") or "\r\n",
        zone=zone_of(found.text("time-zone", "UTC")),
    )
    if len(quote) > 1 or quote in ("\r", "\n") or not quote.isascii():
        raise SinkError(f"csv.quote is {quote!r}", hint="give one character, or none")
    if not 1 <= len(delimiter) <= 3 or not delimiter.isascii() or set(delimiter) & {"\r", "\n", quote}:
        raise SinkError(f"csv.delimiter is {delimiter!r}", hint="give one to three ASCII characters, no line ends and not the quote")
    if not quote and any(char.isalnum() or char == "\\" for char in delimiter):
        raise SinkError(
            f"csv.delimiter is {delimiter!r} and csv.quote is empty", hint="use signs for the delimiter: escapes could not be told from it"
        )
    return form
