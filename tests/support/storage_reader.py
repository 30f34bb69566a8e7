"""Reads a storage sink's folder as TiCDC's own consumers do, out of its files alone: from their rules, and with nothing of the product.

    new (pingcap/ticdc cmd/storage-consumer)     metadata first: schema files and indexes of a later version wait; files by the indexes
    classic (pingcap/tiflow cmd/storage-consumer) every file that is there: numbers 1 to the greatest one

Both: each schema file's name must be its content's checksum and version, two of one table and version are an error; folders in the order of
version, partition (a schema file before rows), date, schema, table; files by number.

What they would do to a database (`Query`) is given as it stands.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from sidecar.shared.model.nouns import Column, TableName

_SCHEMA = re.compile(r"(?:(.+)/)?meta/schema_(\d+)_(\d{10})\.json")
_FILE = re.compile(r"CDC(\d{6,20})\.(csv|json)")
_DATES = {"none": None, "year": r"\d{4}", "month": r"\d{4}-\d{2}", "day": r"\d{4}-\d{2}-\d{2}"}


@dataclass(frozen=True, order=True)
class Folder:
    """In reading order. `partition` -1: a schema file's."""

    version: int
    partition: int
    date: str
    schema: str
    table: str

    @property
    def name(self) -> TableName:
        return TableName(self.schema, self.table)


@dataclass(frozen=True)
class Ddl:
    folder: Folder
    query: str
    action: int


@dataclass(frozen=True)
class Line:
    """`op` I, U or D. `values` in the schema file's order; of csv the text with whether it was quoted, of canal-json text or None.
    `is_update` None: not known."""

    folder: Folder
    number: int
    op: str
    commit_ts: int | None
    values: Mapping[str, str | None]
    is_update: bool | None = None


@dataclass(frozen=True)
class Form:
    """How the folder's changefeed was set up, which a consumer gets as settings."""

    protocol: str = "csv"
    date: str = "day"
    digits: int = 20
    delimiter: str = ","
    quote: str = '"'
    null: str = "\\N"
    commit_ts: bool = True
    old_values: bool = False
    header: bool = False
    hex: bool = False
    terminator: str = "\r\n"


@dataclass
class Output:
    """A folder's files by path."""

    files: Mapping[str, bytes]
    form: Form
    schemas: dict[tuple[TableName, int], dict[str, Any]] = field(default_factory=dict)

    @property
    def checkpoint(self) -> int:
        return int(json.loads(self.files["metadata"])["checkpoint-ts"]) if "metadata" in self.files else 0

    def read(self) -> Iterator[Ddl | Line]:
        """As the consumer of the new architecture does at its first look."""
        result: dict[Folder, int] = {}
        for path, data in self.files.items():
            folder = self._schema_file(path, data) or self._index(path)
            if folder is not None and (not self.checkpoint or folder.version <= self.checkpoint):
                assert folder not in result, f"two schema files: {path}"
                result[folder] = 0 if folder.partition < 0 else _number(data.decode().removesuffix("\n"))
        for folder in sorted(result):
            reported = self.schemas[folder.name, folder.version]
            if folder.partition < 0:
                if reported["Query"]:
                    yield Ddl(folder, reported["Query"], reported["Type"])
                continue
            for number in range(1, result[folder] + 1):
                yield from self._lines(folder, number, reported)

    def check_classic(self) -> None:
        """What it would stop at: a gap among the numbers, rows without a schema file."""
        numbers: dict[str, list[int]] = {}
        for path in self.files:
            folder, _, name = path.rpartition("/")
            if _FILE.fullmatch(name):
                numbers.setdefault(folder, []).append(_number(name))
        for name, results in numbers.items():
            assert sorted(results) == list(range(1, len(results) + 1)), name
            schema, table, version = name.split("/")[:3]
            assert any(
                re.fullmatch(rf"{re.escape(schema)}/{re.escape(table)}/meta/schema_{version}_\d{{10}}\.json", one) for one in self.files
            )

    # ---- files -----------------------------------------------------------------------------------------------------------

    def _schema_file(self, path: str, data: bytes) -> Folder | None:
        match = _SCHEMA.fullmatch(path)
        if match is None or path.startswith("_"):
            return None
        reported = json.loads(data)
        schema, _, table = (match[1] or "").partition("/")
        assert (reported["Schema"], reported["Table"], reported["TableVersion"]) == (schema, table, int(match[2])), path
        assert len(reported["TableColumns"] or ()) == reported["TableColumnsTotal"], path
        assert checksum(reported) == int(match[3]), path
        self.schemas[TableName(schema, table), int(match[2])] = reported
        return Folder(int(match[2]), -1, "", schema, table)

    def _index(self, path: str) -> Folder | None:
        if not path.endswith("/meta/CDC.index"):
            return None
        parts, date = path.split("/")[:-2], ""
        if _DATES[self.form.date] is not None:
            date = parts.pop()
            assert re.fullmatch(str(_DATES[self.form.date]), date), path
        assert len(parts) in (3, 4), path
        return Folder(int(parts[2]), int(parts[3]) if parts[3:] else 0, date, parts[0], parts[1])

    def _lines(self, folder: Folder, number: int, reported: Mapping[str, Any]) -> Iterator[Line]:
        parts = [folder.schema, folder.table, str(folder.version), *([str(folder.partition)] if folder.partition else [])]
        parts += [folder.date] if folder.date else []
        ending = "csv" if self.form.protocol == "csv" else "json"
        data = self.files["/".join([*parts, f"CDC{number:0{self.form.digits}d}.{ending}"])].decode()
        names = [column["ColumnName"] for column in reported["TableColumns"]]
        yield from self._of_csv(folder, number, data, names) if ending == "csv" else self._of_json(folder, number, data, names)

    def _of_json(self, folder: Folder, number: int, data: str, names: Sequence[str]) -> Iterator[Line]:
        assert data.endswith(self.form.terminator)
        for text in data.split(self.form.terminator)[:-1]:
            result = json.loads(text)
            assert (result["database"], result["table"], result["isDdl"]) == (folder.schema, folder.table, False)
            (image,) = result["data"]
            key_alone = result["type"] == "DELETE" and list(image) == result["pkNames"]  # which a dump deletes
            assert list(image) == list(names) or key_alone
            yield Line(folder, number, result["type"][0], result["_tidb"]["commitTs"], image)

    def _of_csv(self, folder: Folder, number: int, data: str, names: Sequence[str]) -> Iterator[Line]:
        rows = csv_rows(data, self.form)
        if self.form.header:
            assert [text for text, _ in next(rows)][-len(names) :] == list(names)
        for row in rows:
            op, table, schema = (text for text, _ in row[:3])
            assert (schema, table) == (folder.schema, folder.table)
            rest = row[3:]
            commit_ts = int(rest.pop(0)[0]) if self.form.commit_ts else None
            is_update = rest.pop(0)[0] == "true" if self.form.old_values else None
            assert len(rest) == len(names), (folder, number, row)
            values = {
                name: None if not quoted and text == self.form.null else text for name, (text, quoted) in zip(names, rest, strict=True)
            }
            yield Line(folder, number, op, commit_ts, values, is_update)


def checksum(reported: Mapping[str, Any]) -> int:
    columns = sorted(reported["TableColumns"] or [], key=lambda column: column["ColumnName"].encode())
    fields = {"Table": reported["Table"], "Schema": reported["Schema"], "Version": 0, "TableColumns": columns}
    text = json.dumps({**fields, "TableColumnsTotal": reported["TableColumnsTotal"]}, indent=4, ensure_ascii=False)
    return zlib.crc32(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").encode())


def _number(name: str) -> int:
    match = _FILE.fullmatch(name)
    assert match is not None, name
    return int(match[1])


def csv_rows(data: str, form: Form) -> Iterator[list[tuple[str, bool]]]:
    """Fields as (text, whether it was quoted), character by character."""
    at, row = 0, list[tuple[str, bool]]()
    while at < len(data):
        quoted = bool(form.quote) and data.startswith(form.quote, at)
        text, at = _quoted_field(data, at + 1, form) if quoted else _bare_field(data, at, form)
        row.append((text, quoted))
        if data.startswith(form.terminator, at):
            at += len(form.terminator)
            yield row
            row = []
        else:
            assert data.startswith(form.delimiter, at), data[max(0, at - 40) : at + 40]
            at += len(form.delimiter)
    assert not row, "the last line has no end"


def _quoted_field(data: str, at: int, form: Form) -> tuple[str, int]:
    text = ""
    while True:
        end = data.index(form.quote, at)
        text += data[at:end]
        if not data.startswith(form.quote, end + 1):
            return text, end + 1
        text, at = text + form.quote, end + 2


def _bare_field(data: str, at: int, form: Form) -> tuple[str, int]:
    text = ""
    while not data.startswith((form.delimiter, form.terminator), at):
        if data[at] == "\\" and not form.quote and not data.startswith(form.null, at):
            text += {"n": "\n", "r": "\r"}.get(data[at + 1], data[at + 1])
            at += 2
        else:
            text += data[at]
            at += 1
    return text, at


# ---- canonical text ------------------------------------------------------------------------------------------------------


def canonical(column: Column, text: str | None, form: Form, zone: ZoneInfo | None = None) -> str | None:
    """As the sidecar's model has it; what `column` says of the type a consumer has from the schema file and its own table."""
    if text is None:
        return None
    in_csv = form.protocol == "csv"
    match column.kind:
        case "float":
            return repr(struct.unpack("f", struct.pack("f", float(text)))[0])
        case "double":
            return repr(float(text))
        case "year":
            return text.zfill(4)
        case "binary":
            raw = text.encode("latin-1") if not in_csv else binascii.unhexlify(text) if form.hex else base64.b64decode(text, validate=True)
            return raw.hex().upper()
        case "enum" if not in_csv:
            return column.elements[int(text) - 1] if text != "0" else ""
        case "set" if not in_csv:
            return ",".join(label for place, label in enumerate(column.elements) if int(text) >> place & 1)
        case "timestamp" if zone is not None and not text.startswith("0000"):
            clock, point, digits = text.partition(".")
            moment = datetime.fromisoformat(clock).replace(tzinfo=zone).astimezone(UTC)
            return f"{moment:%Y-%m-%d %H:%M:%S}{point}{digits}"
        case _:
            return text
