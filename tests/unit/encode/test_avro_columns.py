"""Avro's binary form by columns: fastavro reads what was written, and has written the same bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from random import Random
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from spark_merge.codecs.encode.avro_columns import (
    NULL_FIRST,
    NULL_LAST,
    AvroWriter,
    Branches,
    Part,
    arrays,
    booleans,
    floats,
    long_bytes,
    longs,
    nested,
    record,
    text_bytes,
    texts,
)
from tests.lanes import examples

_EDGES = [edge for bits in range(0, 64, 7) for edge in ((1 << bits) - 1, 1 << bits, -(1 << bits), -(1 << bits) - 1)]
_LONGS = [edge for edge in [*_EDGES, (1 << 63) - 1, -(1 << 63), 1 << 62] if -(1 << 63) <= edge < 1 << 63]
_TEXTS = ["", "a", "ü", "中😀", "\0", "x" * 63, "x" * 64, "x" * 8191, "x" * 8192]


def _floats_of(items: pa.Array, union: Branches | None) -> list[Part]:
    return floats(items, union)


def _arrays_of_floats(values: pa.Array, union: Branches | None) -> list[Part]:
    return arrays(values, _floats_of, union)


_KINDS: dict[str, tuple[Any, AvroWriter, pa.DataType, list[Any]]] = {
    "int": ("int", longs, pa.int32(), [value for value in _LONGS if -(1 << 31) <= value < 1 << 31]),
    "long": ("long", longs, pa.int64(), _LONGS),
    "boolean": ("boolean", booleans, pa.bool_(), [True, False]),
    "float": ("float", floats, pa.float32(), [0.0, -0.0, 1.5, float(np.float32(3.4e38)), float(np.float32(1e-45))]),
    "double": ("double", floats, pa.float64(), [0.0, -0.0, 0.1, 1.7976931348623157e308, 5e-324]),
    "string": ("string", texts, pa.string(), _TEXTS),
    "bytes": ("bytes", texts, pa.binary(), [text.encode() for text in _TEXTS] + [b"\xff\x00"]),
    "array": ({"type": "array", "items": "float"}, _arrays_of_floats, pa.list_(pa.float32()), [[], [1.5], [0.0, -2.0, 3.0], [1.0] * 65]),
}


def _written(schema: Any, rows: Sequence[Any]) -> list[bytes]:
    parsed, made = fastavro.parse_schema(schema), []
    for row in rows:
        file = io.BytesIO()
        fastavro.schemaless_writer(file, parsed, row)
        made.append(file.getvalue())
    return made


def _read(schema: Any, data: bytes) -> Any:
    file = io.BytesIO(data)
    value = fastavro.schemaless_reader(file, fastavro.parse_schema(schema), None)
    assert not file.read()
    return value


@pytest.mark.parametrize("seed", range(examples(40)))
def test_a_record_of_random_columns_is_fastavros(seed: int) -> None:
    random = Random(seed)
    rows, fields, columns, parts = random.choice([1, 7, 200]), [], [], list[Part]()
    for number in range(random.randint(1, 12)):
        avro, write, arrow, values = _KINDS[random.choice(list(_KINDS))]
        union = random.choice([None, NULL_FIRST, NULL_LAST])
        column = [None if union and random.random() < 0.3 else random.choice(values) for _ in range(rows)]
        of_union = avro if union is None else ["null", avro] if union is NULL_FIRST else [avro, "null"]
        fields.append({"name": f"f{number}", "type": of_union})
        columns.append(column)
        array = pa.array([None, *column, None], arrow).slice(1, rows)  # an array may begin anywhere in its buffers
        parts += write(array, union)
    schema = {"type": "record", "name": "r", "fields": fields}
    contents = [{f"f{number}": column[row] for number, column in enumerate(columns)} for row in range(rows)]
    result = record(parts).to_pylist()
    assert result == _written(schema, contents)
    assert [_read(schema, data) for data in result] == contents


@pytest.mark.parametrize("name", _KINDS)
def test_each_value_at_its_limits(name: str) -> None:
    avro, write, arrow, values = _KINDS[name]
    for union, schema in ((None, avro), (NULL_FIRST, ["null", avro]), (NULL_LAST, [avro, "null"])):
        given = values if union is None else [*values, None]
        assert record(write(pa.array(given, arrow), union)).to_pylist() == _written(schema, given)
        assert record([*write(pa.array([], arrow), union), pa.array([], pa.binary())]).to_pylist() == []


def test_bytes_by_hand() -> None:
    assert record(longs(pa.array([0, -1, 1, 63, 64, -64, -65]))).to_pylist() == [
        b"\x00", b"\x01", b"\x02", b"\x7e", b"\x80\x01", b"\x7f", b"\x81\x01",
    ]  # fmt: skip
    assert record(texts(pa.array(["ab", None]), NULL_FIRST)).to_pylist() == [b"\x02\x04ab", b"\x00"]
    assert record([b"\x01", *booleans(pa.array([True, False])), b"\x05", b"\x06"]).to_pylist() == [b"\x01\x01\x05\x06", b"\x01\x00\x05\x06"]
    assert long_bytes(-(1 << 63)) == b"\xff" * 9 + b"\x01"
    assert text_bytes("ü") == b"\x04\xc3\xbc"


def test_a_record_in_a_union_is_written_where_it_is() -> None:
    fields = [*longs(pa.array([1, 2, 3])), *texts(pa.array(["a", None, "c"]), NULL_FIRST)]
    result = record(nested(pa.array([True, False, True]), fields, NULL_FIRST)).to_pylist()
    assert result == [b"\x02\x02\x02\x02a", b"\x00", b"\x02\x06\x02\x02c"]


def test_an_unsigned_number_that_no_long_holds_is_refused() -> None:
    assert record(longs(pa.array([(1 << 63) - 1], pa.uint64()))).to_pylist() == [b"\xfe" + b"\xff" * 8 + b"\x01"]
    with pytest.raises(pa.ArrowInvalid):
        longs(pa.array([1 << 63], pa.uint64()))
