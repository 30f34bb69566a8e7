"""open-protocol written row by row and character by character, as TiCDC's Go does it: what encode/open_protocol.py must equal.

Type codes and flags are the encoder's own: those are held against tables made by hand, and against recordings.
"""

from __future__ import annotations

import base64
import struct
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from sidecar.shared.model.nouns import Column, TableSchema
from spark_merge.codecs.encode.messages import Architecture
from spark_merge.codecs.encode.open_columns import OpenColumn, open_columns

Image = Sequence[str | None]


def row(
    schema: TableSchema,
    commit_ts: int,
    before: Image | None,
    after: Image | None,
    *,
    architecture: Architecture,
    tz: str = "UTC",
    ptn: int | None = None,
) -> tuple[bytes, bytes]:
    places = list(zip(open_columns(schema, architecture), range(len(schema.columns)), strict=True))
    if architecture == "classic":
        places.sort(key=lambda one: one[0].column.name.encode())

    def image(texts: Image) -> str:
        cells = [f"{text_json(one.column.name, architecture)}:{cell(one, texts[place], architecture, tz)}" for one, place in places]
        return "{" + ",".join(cells) + "}"

    if after is None:
        assert before is not None
        value = f'{{"d":{image(before)}}}'
    else:
        value = f'{{"u":{image(after)}' + (f',"p":{image(before)}' if before is not None else "") + "}"
    names = f'"scm":{text_json(schema.name.schema, architecture)},"tbl":{text_json(schema.name.table, architecture)}'
    partition = "" if ptn is None else f',"ptn":{ptn}'
    if architecture == "new":
        return framed(f'{{"ts":{commit_ts},{names},"t":1{partition}}}', version=True), framed(value)
    row_id = handle(schema, after if after is not None else before)
    rid = f',"rid":{row_id}' if row_id else ""
    return framed(f'{{"ts":{commit_ts},{names}{rid}{partition},"t":1}}', version=True), framed(value)


def framed(text: str, *, version: bool = False) -> bytes:
    content = text.encode()
    return (struct.pack(">Q", 1) if version else b"") + struct.pack(">Q", len(content)) + content


def handle(schema: TableSchema, image: Image | None) -> int:
    """The signed number in the row's key, of a clustered integer key; else 0, for then it is not known."""
    assert schema.definition is not None
    assert image is not None
    for index in schema.definition.indexes:
        if index.primary and index.id == 0 and schema.definition.clustered:
            number = int(image[schema.column_names().index(index.parts[0].column)] or 0)
            return number if number < 1 << 63 else number - (1 << 64)
    return 0


def cell(open_column: OpenColumn, text: str | None, architecture: Architecture, tz: str) -> str:
    key = '"h":true,' if open_column.is_key else ""
    value = "null" if text is None else value_json(open_column, text, architecture, tz)
    return f'{{"t":{open_column.type},{key}"f":{open_column.flags},"v":{value}}}'


def value_json(open_column: OpenColumn, text: str, architecture: Architecture, tz: str) -> str:
    column, is_large = open_column.column, open_column.type in (249, 250, 251, 252)
    match column.kind:
        case "int" | "uint" | "bit" | "year":
            return str(int(text))
        case "float" | "double":
            return float_json(text, 32 if column.kind == "float" else 64, architecture)
        case "enum":
            return str(enum_number(column, text))
        case "set":
            return str(sum(1 << place for place, label in enumerate(column.elements) if label in text.split(",")))
        case "text" if is_large:
            return f'"{base64.b64encode(text.encode()).decode()}"'
        case "binary":
            data = bytes.fromhex(text)
            return f'"{base64.b64encode(data).decode()}"' if is_large else text_json(quote(data), architecture)
        case "timestamp":
            return text_json(local(text, tz), architecture)
        case _:
            return text_json(text, architecture)


def enum_number(column: Column, label: str) -> int:
    return column.elements.index(label) + 1 if label in column.elements else 0


def local(text: str, tz: str) -> str:
    if text.startswith("0000-00-00"):
        return text
    at = datetime.strptime(text[:19], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).astimezone(ZoneInfo(tz))
    return at.strftime("%Y-%m-%d %H:%M:%S") + text[19:]


def text_json(text: str, architecture: Architecture) -> str:
    return '"' + "".join(char_json(char, architecture) for char in text) + '"'


def char_json(char: str, architecture: Architecture) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
    if architecture == "classic":
        short |= {"\b": "\\b", "\f": "\\f"}
    if char in short:
        return short[char]
    if char < " " or (architecture == "classic" and char in "<>&\u2028\u2029"):
        return f"\\u{ord(char):04x}"
    return char


def float_json(text: str, bits: int, architecture: Architecture) -> str:
    """strconv.FormatFloat(v, 'f' or 'e', -1, bits) from the shortest digits that numpy finds."""
    number: Any = np.float32(text) if bits == 32 else np.float64(text)
    if 1e-6 <= abs(number) < 1e21 or number == 0:
        return np.format_float_positional(number, unique=True, trim="-")
    float_scientific = np.format_float_scientific(number, unique=True, trim="-", exp_digits=2)
    mantissa, _, exponent = float_scientific.partition("e")
    if architecture == "classic" and exponent.startswith("-0"):
        exponent = "-" + exponent[2:]
    return f"{mantissa}e{exponent}"


def quote(data: bytes) -> str:
    """strconv.Quote, without its quotes."""
    text, at = "", 0
    short = {7: "\\a", 8: "\\b", 12: "\\f", 10: "\\n", 13: "\\r", 9: "\\t", 11: "\\v", 92: "\\\\", 34: '\\"'}
    while at < len(data):
        for width in (1, 2, 3, 4):
            try:
                char = data[at : at + width].decode()
            except UnicodeDecodeError:
                continue
            break
        else:
            text += f"\\x{data[at]:02x}"
            at += 1
            continue
        code = ord(char)
        if code in short:
            text += short[code]
        elif char == " " or unicodedata.category(char)[0] in "LMNPS":
            text += char
        elif code < 0x20 or code == 0x7F:
            text += f"\\x{code:02x}"
        else:
            text += f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
        at += width
    return text
