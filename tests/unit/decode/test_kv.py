"""The columnar decoder of key-values: shapes of batches, what it leaves to the slow decoder, and which error it gives."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from sidecar.shared.columns import kv
from sidecar.shared.columns.kv import decode_rows
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from tests.support.kv_encoder import (
    NOT_NULL,
    Json,
    Stored,
    column,
    common_handle,
    info,
    memcomparable_bytes,
    memcomparable_int,
    row_1,
    row_2,
    row_2_checked,
    row_key,
)

COLUMNS = {
    1: column(1, "id", "bigint", primary=True),
    2: column(2, "a", "int", flag=NOT_NULL, origin_default="7"),
    3: column(3, "b", "varchar", collation="utf8mb4_bin"),
    300: column(300, "c", "decimal", flen=10, decimal=2),
}
TABLE = kv_table(info(list(COLUMNS.values()), int_handle=True), schema="s")
NARROW = kv_table(info([COLUMNS[1], COLUMNS[2], COLUMNS[3]], int_handle=True), schema="s")


def binaries(values: Sequence[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary())


def key(number: int) -> bytes:
    return row_key(memcomparable_int(number))


def rows_of(batch: pa.RecordBatch) -> list[list[str | None]]:
    batch.validate(full=True)
    return [list(row) for row in zip(*(item.to_pylist() for item in batch.columns), strict=True)]


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Values of the rows that are left to the slow decoder."""
    values: list[bytes] = []

    def slow(table: KvTable, key: bytes, value: bytes, *, at_rest: bool = False) -> list[str | None]:
        values.append(value)
        return decode_row(table, key, value, at_rest=at_rest)

    monkeypatch.setattr(kv, "decode_row", slow)
    return values


def test_a_batch_without_rows_has_the_columns() -> None:
    rows = decode_rows(TABLE, binaries([]), binaries([]))
    assert (rows.num_rows, rows.schema) == (0, pa.schema([(name, pa.string()) for name in ("id", "a", "b", "c")]))


def test_rows_of_any_mix_of_layouts_are_read_at_once(left: list[bytes]) -> None:
    values = [
        row_2(COLUMNS, {2: 1, 3: b"x", 300: Stored(123, 10, 2)}),
        row_2(COLUMNS, {}),
        row_2(COLUMNS, {2: -5}),
        row_2(COLUMNS, {2: 70_000, 3: None}),
        row_2(COLUMNS, {3: "中".encode(), 300: None}),
        row_2(COLUMNS | {9: column(9, "gone", "json")}, {2: 4, 9: Json([])}, large=True),
    ]
    rows = decode_rows(TABLE, binaries([key(n) for n in range(-2, 4)]), binaries(values))
    assert rows_of(rows) == [
        ["-2", "1", "x", "1.23"],
        ["-1", "7", None, None],
        ["0", "-5", None, None],
        ["1", "70000", None, None],
        ["2", "7", "中", None],
        ["3", "4", None, None],
    ]
    assert left == []


def test_slices_of_arrays_are_read_where_they_are() -> None:
    values = [row_2(COLUMNS, {2: n, 3: b"text" * n}) for n in range(9)]
    keys = [key(n) for n in range(9)]
    rows = decode_rows(NARROW, binaries(keys).slice(3, 4), binaries(values).slice(3, 4))
    assert rows_of(rows) == [[str(n), str(n), "text" * n] for n in range(3, 7)]


def test_checksums_over_bytes_are_verified_in_columns(left: list[bytes]) -> None:
    values = [row_2_checked(COLUMNS, {2: n}, covered, version=version) for n, (version, covered) in enumerate(
        [(2, key(0)[11:]), (1, key(1)), (1, key(2)[11:])]
    )]  # fmt: skip
    keys = [key(0), b"x\0\0\7" + key(1), key(2)]
    assert rows_of(decode_rows(NARROW, binaries(keys), binaries(values))) == [[str(n), str(n), None] for n in range(3)]
    assert left == [values[2]]  # version 1 over the handle: rare enough for the slow way


def test_rare_rows_are_left_to_the_slow_decoder(left: list[bytes]) -> None:
    rare = [row_1(COLUMNS, {2: 1}), row_2(COLUMNS, {1: 2, 2: 2}), row_2(COLUMNS, {2: 3, 300: Stored(12345, 10, 3)})]
    plain = row_2(COLUMNS, {2: 4})
    rows = decode_rows(TABLE, binaries([key(n) for n in range(1, 5)]), binaries([*rare, plain]))
    assert rows_of(rows) == [["1", "1", None, None], ["2", "2", None, None], ["3", "3", None, "12.35"], ["4", "4", None, None]]
    assert left == rare


def test_the_first_broken_row_is_the_one_in_the_error() -> None:
    good, broken = row_2(COLUMNS, {2: 1}), row_2(COLUMNS, {2: 1}) + b"\0"
    with pytest.raises(MessageUnreadable) as caught:
        decode_rows(NARROW, binaries([key(n) for n in range(4)]), binaries([good, broken, good, broken[:-2]]))
    with pytest.raises(MessageUnreadable) as expected:
        decode_row(NARROW, key(1), broken)
    assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize("value", [None, b""])
def test_a_row_that_is_not_there_is_refused(value: bytes | None) -> None:
    with pytest.raises(MessageUnreadable, match="expected a row; got no bytes"):
        decode_rows(NARROW, binaries([key(1)]), binaries([value]))


@pytest.mark.parametrize("broken", [b"", b"t", key(1)[:-1], key(1) + b"\0", row_key(memcomparable_int(1), table_id=5)])
def test_a_key_of_something_else_is_refused(broken: bytes) -> None:
    good = row_2(COLUMNS, {2: 1})
    with pytest.raises(MessageUnreadable, match="key byte"):
        decode_rows(NARROW, binaries([key(1), broken]), binaries([good, good]))


def test_columns_of_common_handles_come_from_the_keys(left: list[bytes]) -> None:
    columns = [
        column(1, "a", "varchar", flag=NOT_NULL),
        column(2, "b", "decimal", flen=20, decimal=3, flag=NOT_NULL),
        column(3, "c", "time", flag=NOT_NULL),
        column(4, "d", "double", flag=NOT_NULL),
        column(5, "e", "varchar", collation="utf8mb4_general_ci", flag=NOT_NULL),
        column(6, "f", "bigint", unsigned=True, flag=NOT_NULL),
    ]
    table = kv_table(info(columns, primary=[(name, -1) for name in "abcdef"]), schema="s")
    handles = [
        common_handle(list(zip(columns, parts, strict=True)))
        for parts in [
            (b"", Stored(0, 20, 3), 0, -0.5, b"\0A", 1 << 63),
            (b"12345678", Stored(-1, 20, 3), -(10**9), 1e300, b"", 0),
            (bytes(range(21)), Stored(10**19, 20, 3), 10**9, 0.0, b"\0A" * 9, 5),
        ]
    ]
    values = [row_2({5: columns[4]}, {5: text}) for text in (b"a", b"", b"A" * 9)]
    assert rows_of(decode_rows(table, binaries([row_key(handle) for handle in handles]), binaries(values))) == [
        ["", "0.000", "00:00:00", "-0.5", "a", "9223372036854775808"],
        ["3132333435363738", "-0.001", "-00:00:01", "1e+300", "", "0"],
        [bytes(range(21)).hex().upper(), "10000000000000000.000", "00:00:01", "0.0", "A" * 9, "5"],
    ]
    assert left == []


def test_padded_and_transcoded_handles_are_left_to_the_slow_decoder(left: list[bytes]) -> None:
    short = column(1, "a", "decimal", flen=4, decimal=2, flag=NOT_NULL)
    table = kv_table(info([short], primary=[("a", -1)]), schema="s")
    rows = decode_rows(table, binaries([row_key(common_handle([(short, Stored(-123, 4, 2))]))]), binaries([row_2({}, {})]))
    assert rows_of(rows) == [["-1.23"]]
    gbk = kv_table(info([column(1, "a", "char", collation="gbk_bin", flag=NOT_NULL)], primary=[("a", -1)]), schema="s")
    handle = b"\x01" + memcomparable_bytes("中".encode("gbk"))
    assert rows_of(decode_rows(gbk, binaries([row_key(handle)]), binaries([row_2({}, {})]))) == [["中"]]
    assert len(left) == 2


GOOD = row_2(COLUMNS | {8: column(8, "gone", "int"), 9: column(9, "gone", "int")}, {2: 300, 8: 1, 3: None, 9: None})


@pytest.mark.parametrize(
    "broken",
    [
        GOOD[:6] + b"\x02\x08\x02\x09" + GOOD[10:],
        GOOD[:6] + b"\x02\x08\x03\x08" + GOOD[10:],
        GOOD[:6] + b"\x08\x02\x03\x09" + GOOD[10:],
        GOOD[:6] + b"\x02\x08\x09\x03" + GOOD[10:],
        GOOD[:6] + b"\x00\x08\x03\x09" + GOOD[10:],
        GOOD[:6] + b"\x02\x08\x00\x09" + GOOD[10:],
        GOOD[:10] + b"\x04\x00\x03\x00" + GOOD[14:],
        GOOD[:10] + b"\x02\x00\xff\xff" + GOOD[14:],
        GOOD[:-1],
        GOOD + b"\0",
        b"\x80\x03" + GOOD[2:],
        b"\x80\x01" + GOOD[2:],
        b"\x80\x00\xff\xff\xff\xff" + GOOD[6:],
    ],
    ids=[
        "known column null and not", "unknown column null and not", "ids fall", "null ids fall", "id 0", "null id 0", "offsets fall",
        "offset beyond", "cut", "longer", "no checksum", "not large", "counts beyond",
    ],
)  # fmt: skip
def test_broken_structures_are_refused_among_good_rows(broken: bytes) -> None:
    assert rows_of(decode_rows(NARROW, binaries([key(1)]), binaries([GOOD]))) == [["1", "300", None]]
    with pytest.raises(MessageUnreadable) as caught:
        decode_rows(NARROW, binaries([key(1), key(2), key(3)]), binaries([GOOD, broken, GOOD]))
    with pytest.raises(MessageUnreadable) as expected:
        decode_row(NARROW, key(2), broken)
    assert str(caught.value) == str(expected.value)
