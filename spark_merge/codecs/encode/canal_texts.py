"""A column's canonical texts to the texts that canal-json has for them, a column at a time: decode/canal_json.py the other way round.

    int, uint, bit, decimal, date, time, datetime, vector   as they are; an unsigned integer's type depends on it, so it must be one
    timestamp      in the zone of TiCDC's server
    year           without leading zeros
    float, double  the shortest digits without an exponent (Go's FormatFloat(v, 'f', -1, bits))
    enum, set      a label's number from 1, 0 for none; a bit mask
    binary         bytes read as ISO-8859-1
    text, json     as they are

Source: tiflow pkg/sink/codec/canal/canal_entry.go, ticdc pkg/sink/codec/canal/helper.go. What can need it is escaped for JSON.

Two values have one canonical text where a label is empty: an enum's empty text is the label's number if there is such a label, else 0; a
set's is the mask 0.
"""

from __future__ import annotations

from typing import Any, NoReturn
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.columns.values import UnfitValue
from sidecar.shared.model.nouns import Column
from spark_merge.codecs.encode.easy_json import escaped
from spark_merge.codecs.encode.local_time import local_texts


def canal_texts(texts: pa.Array, column: Column, zone: ZoneInfo) -> pa.Array:
    """pa.string, null where null. Raises UnfitValue for what is no canonical text of the column's kind."""
    match column.kind:
        case "text" | "json":
            return escaped(texts)
        case "binary":
            return escaped(_latin1(texts))
        case "float" | "double":
            return _positional(texts, column)
        case "enum":
            return _numbers(texts, column)
        case "set":
            return _masks(texts, column)
        case "uint":
            _cast(texts, pa.uint64(), "is not an unsigned integer")
            return texts
        case "year":
            return _cast(texts, pa.int16(), "is not a year").cast(pa.string())
        case "timestamp":
            return _local(texts, zone)
        case _:
            return texts


def _local(texts: pa.Array, zone: ZoneInfo) -> pa.Array:
    try:
        return local_texts(texts, zone)
    except pa.ArrowInvalid:
        _refuse(texts, pa.timestamp("us"), "is not a timestamp")


def _cast(texts: pa.Array, kind: Any, reason: str) -> pa.Array:
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        _refuse(texts, kind, reason)


def _refuse(texts: pa.Array, kind: Any, reason: str) -> NoReturn:
    """Name the first value that cannot be cast."""
    for index, text in enumerate(texts):
        try:
            text.cast(kind)
        except pa.ArrowInvalid:
            raise UnfitValue(index, text.as_py(), reason) from None
    raise UnfitValue(0, None, f"is in a column of which no value {reason}")


def _positional(texts: pa.Array, column: Column) -> pa.Array:
    """Arrow writes the same digits, but large and small numbers with an exponent."""
    numbers = _cast(texts, pa.float64(), "is not a number")
    if column.kind == "float":
        numbers = numbers.cast(pa.float32(), safe=False)
    shortest = numbers.cast(pa.string())
    other = pc.match_substring(shortest, "e")
    if not pc.any(other).as_py():
        return shortest
    values = numbers.filter(other).to_numpy(zero_copy_only=False)
    return pc.replace_with_mask(shortest, other, pa.array([np.format_float_positional(value, unique=True, trim="-") for value in values]))


def _numbers(texts: pa.Array, column: Column) -> pa.Array:
    labels = column.elements if "" in column.elements else (*column.elements, "")
    places = pc.index_in(texts, pa.array(labels, pa.string()))
    if places.null_count != texts.null_count:
        index = pc.index(pc.and_(places.is_null(), texts.is_valid()), True).as_py()
        raise UnfitValue(index, texts[index].as_py(), "is no label of the enum")
    if labels is column.elements:
        return pc.add(places, 1).cast(pa.string())
    return pc.if_else(pc.equal(places, len(column.elements)), 0, pc.add(places, 1)).cast(pa.string())


def _masks(texts: pa.Array, column: Column) -> pa.Array:
    """A label is a value of few: each combination is looked at once."""
    bits = {label: 1 << place for place, label in reversed(list(enumerate(column.elements)))}
    encoded = texts.dictionary_encode()
    try:
        masks = [str(sum(bits[label] for label in text.split(","))) if text else "0" for text in encoded.dictionary.to_pylist()]
    except KeyError as unknown:
        index = next(i for i, text in enumerate(texts.to_pylist()) if text is not None and unknown.args[0] in text.split(","))
        raise UnfitValue(index, texts[index].as_py(), "holds what is no label of the set") from None
    return pa.array(masks, pa.string()).take(encoded.indices)


def _latin1(hexes: pa.Array) -> pa.Array:
    """Upper-case hex to the text that has a code point for each byte: two bytes of UTF-8 from 0x80 on. Buffers as decode's `from_bytes`."""
    if len(hexes) == hexes.null_count:
        return hexes
    _, offsets_buffer, data = hexes.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[hexes.offset : hexes.offset + len(hexes) + 1].astype(np.int64)
    digits = b"" if data is None else bytes(memoryview(data)[offsets[0] : offsets[-1]])
    starts = (offsets - offsets[0]) // 2
    try:
        values = bytes.fromhex(digits.decode())
        if len(values) != starts[-1] or ((offsets - offsets[0]) % 2).any():
            raise ValueError
    except ValueError:
        _refuse_hex(hexes)
    high = np.concatenate([[0], np.cumsum(np.frombuffer(values, np.uint8) >= 0x80)])
    validity = pa.array(hexes.is_valid()).buffers()[1] if hexes.null_count else None
    places = (starts + high[starts]).astype(np.int32)
    text = values.decode("iso-8859-1").encode()
    return pa.StringArray.from_buffers(len(hexes), pa.py_buffer(places), pa.py_buffer(text), validity, hexes.null_count)


def _refuse_hex(hexes: pa.Array) -> NoReturn:
    for index, text in enumerate(hexes.to_pylist()):
        try:
            bytes.fromhex(text or "")
        except ValueError:
            raise UnfitValue(index, text, "is not hexadecimal") from None
    raise UnfitValue(0, hexes[0].as_py(), "is in a column that is not hexadecimal")
