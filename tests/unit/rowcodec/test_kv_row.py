"""Whole rows: literal vectors of tikv codec/row/v2 and TiSpark's TableCodecV2Test, where a column's value
comes from, and what is refused."""

from __future__ import annotations

import struct
from base64 import b64decode
from typing import Any
from zlib import crc32

import pytest

from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.rowcodec.kv_checksum import OVER_HANDLE
from sidecar.shared.rowcodec.kv_row import decode_row
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from tests.support.kv_encoder import (
    NOT_NULL,
    Json,
    Plain,
    Stored,
    cell,
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

KEY = row_key(memcomparable_int(1))


def table(*columns: dict[str, Any], **more: Any) -> KvTable:
    return kv_table(info(columns, **more), schema="s")


def refusal(of: KvTable, value: bytes, *, key: bytes = KEY, at_rest: bool = False) -> str:
    with pytest.raises(MessageUnreadable) as caught:
        decode_row(of, key, value, at_rest=at_rest)
    return str(caught.value).splitlines()[0]


TWELVE = table(
    column(1, "a", "int"), column(3, "b", "int", unsigned=True), column(6, "c", "double"),
    column(7, "d", "varchar", collation="utf8mb4_bin"), column(8, "e", "int"), column(9, "f", "double"), column(12, "g", "int"),
    column(13, "h", "datetime"), column(14, "i", "decimal", flen=10), column(15, "j", "json"), column(16, "k", "time"),
    column(33, "l", "int"),
)  # fmt: skip
TIKVS_ROW = bytes.fromhex(
    "80000b000100 0103060708090c0d0e0f1021 02000300 0b000e0010001800190021002400410045 00e803034003333333333332616263ff7fbffccccccccccccd02"
    "00000087 33e69e19 010081 01010000001c000000130000000300 0c160000006b6579 0576616c7565 00ca9a3b".replace(" ", "")
)


def test_the_row_of_tikvs_encoder_test() -> None:
    assert decode_row(TWELVE, KEY, TIKVS_ROW) == [
        "1000", "3", "-1.8", "abc", "32767", "1.8", "2", "2018-01-19 03:14:07", "1", '{"key": "value"}', "00:00:01", None,
    ]  # fmt: skip


def test_the_large_row_of_tikvs_encoder_test() -> None:
    value = bytes([128, 1, 4, 0, 1, 0, 1, 0, 0, 0, 3, 0, 0, 0, 8, 0, 0, 0, 12, 0, 0, 0, 79, 1, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0])
    value += bytes([5, 0, 0, 0, 6, 0, 0, 0, 232, 3, 3, 255, 127, 2])
    of = table(*(column(id_, f"c{id_}", "int") for id_ in (1, 3, 8, 12, 335)))
    assert decode_row(of, KEY, value) == ["1000", "3", "32767", "2", None]


def test_unsigned_and_signed_of_tikvs_encoder_test() -> None:
    value = bytes([128, 0, 2, 0, 0, 0, 1, 2, 8, 0, 9, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255])
    of = table(column(1, "a", "bigint", unsigned=True), column(2, "b", "bigint"))
    assert decode_row(of, KEY, value) == ["18446744073709551615", "-1"]


def test_the_null_row_of_tispark() -> None:
    value = bytes.fromhex("8000 0100 0100 02 01 0100 02".replace(" ", ""))
    assert decode_row(table(column(1, "a", "int"), column(2, "b", "int")), KEY, value) == [None, "2"]


def test_one_row_in_both_formats_of_tidb_issue_21391() -> None:
    of = table(
        column(1, "id", "int", primary=True), column(2, "a", "varchar", collation="utf8mb4_bin"),
        column(3, "b", "varchar", collation="utf8mb4_bin"), int_handle=True,
    )  # fmt: skip
    assert decode_row(of, KEY, b64decode("gAABAAAAAgMAMTIz")) == ["1", "123", None]
    assert decode_row(of, KEY, b64decode("CAQCBjEyMwgCCAIIBgIGMTIz")) == ["1", "123", "123"]
    assert "the key's '2'" in refusal(of, b64decode("CAQCBjEyMwgCCAIIBgIGMTIz"), key=row_key(memcomparable_int(2)))


COLUMNS = {
    1: column(1, "id", "int", primary=True),
    2: column(2, "a", "int", flag=NOT_NULL, origin_default="7"),
    3: column(3, "b", "decimal", flen=10, decimal=2),
    4: column(4, "c", "json"),
    5: column(5, "d", "time", decimal=3),
}
MIXED = table(*COLUMNS.values(), int_handle=True)


@pytest.mark.parametrize("encode", [row_2, row_1])
def test_absent_columns_null_columns_and_the_handle(encode: Any) -> None:
    assert decode_row(MIXED, KEY, encode(COLUMNS, {})) == ["1", "7", None, None, None]
    values = {2: 3, 3: Stored(-150, 5, 2), 4: Json([1]), 5: None}
    assert decode_row(MIXED, KEY, encode(COLUMNS, values)) == ["1", "3", "-1.50", "[1]", None]


@pytest.mark.parametrize("encode", [row_2, row_1])
def test_columns_that_the_table_lacks_are_passed_over(encode: Any) -> None:
    columns = COLUMNS | {9: column(9, "gone", "json"), 300: column(300, "soon", "int")}
    values = {2: 3, 9: Json({"a": [1.5]}), 300: 4}
    assert decode_row(MIXED, KEY, encode(columns, values)) == ["1", "3", None, None, None]
    assert decode_row(MIXED, KEY, encode(columns, {2: 3, 9: None})) == ["1", "3", None, None, None]


def test_columns_that_are_not_public_are_not_output() -> None:
    of = table(COLUMNS[2], column(3, "changing", "int", state=3))
    assert decode_row(of, KEY, row_2(COLUMNS | {3: column(3, "changing", "int")}, {2: 1, 3: 2})) == ["1"]


def test_a_clustered_string_key_comes_from_the_value() -> None:
    ci = column(1, "ci", "varchar", collation="utf8mb4_general_ci", flag=NOT_NULL)
    of = table(ci, COLUMNS[3], primary=[("ci", -1)])
    key = row_key(b"\x01" + memcomparable_bytes(b"\x00A\x00B"))
    assert decode_row(of, key, row_2({1: ci}, {1: b"aB "})) == ["aB ", None]
    assert "of which the key has but its sort key" in refusal(of, row_2({}, {}), key=key)


def test_a_clustered_number_comes_from_the_key() -> None:
    result = column(1, "d", "datetime", decimal=3, flag=NOT_NULL)
    packed = ((2024 * 13 + 2) << 5 | 29) << 41 | 5_000
    of = table(result, COLUMNS[3], primary=[("d", -1)])
    assert decode_row(of, row_key(common_handle([(result, packed)])), row_2({}, {})) == ["2024-02-29 00:00:00.005", None]
    assert "key byte 11" in refusal(of, row_2({}, {}), key=row_key(common_handle([(result, packed + 1)])))


def test_rows_of_any_partition_are_the_tables() -> None:
    partition = {"enable": True, "definitions": [{"id": 7}, {"id": 9}]}
    of = table(COLUMNS[2], partition=partition)
    assert decode_row(of, row_key(memcomparable_int(1), table_id=9), row_2(COLUMNS, {2: 1})) == ["1"]
    assert "key byte 1: expected a table id of [7, 9]; got 104" in refusal(of, row_2(COLUMNS, {2: 1}))
    many = table(COLUMNS[2], partition={"enable": True, "definitions": [{"id": id_} for id_ in range(200, 300)]})
    assert "expected one of 100 table ids from 200 to 299; got 104" in refusal(many, row_2(COLUMNS, {2: 1}))


# ---- broken rows ----------------------------------------------------------------------------------------------------

GOOD = row_2(COLUMNS, {2: 300, 3: None, 5: 0})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", "row byte 0: expected a row"),
        (GOOD[:5], "6 bytes of a row's head"),
        (b"\x80\x04" + GOOD[2:], "row byte 1: expected flags of 0 to 3; got 4"),
        (b"\x80\x00\xff\xff" + GOOD[4:], "row byte 2"),
        (GOOD[:6] + b"\x05\x02" + GOOD[8:], "not-null column ids that rise"),
        (GOOD[:6] + b"\x00\x02" + GOOD[8:], "not-null column ids that rise"),
        (GOOD[:6] + b"\x02\x03" + GOOD[8:], "either null or not"),
        (GOOD[:9] + b"\x03\x00\x02\x00" + GOOD[13:], "an end offset of 3 to 3; got 2"),
        (GOOD[:9] + b"\x02\x00\x09\x00" + GOOD[13:], "an end offset of 2 to 3; got 9"),
        (GOOD + b"\0", "row byte 16: expected the end of the row; got 1 bytes more"),
        (GOOD[:-1], "an end offset"),
        (GOOD[:9] + b"\x03\x00\x03\x00" + GOOD[13:], "column a: an integer of 1, 2, 4 or 8 bytes"),
        (b"\x80\x02" + GOOD[2:], "the header of a checksum"),
        (b"\x07", "format 2 (128), or the flag 8 of a column id of format 1; got 7"),
        (b"\x08\x04", "column a"),
        (b"\x08\x04\x08\x02\x08\x04\x08\x02", "a column id of format 1 that is new"),
        (b"\x08\x01\x08\x02", "a column id of format 1 that is new"),
        (b"\x08\x12\xfa", "the flag of a value"),
        (b"\0\0", "format 2 (128)"),
        (b"\x08\x04\x02\x02a", "column a: a value of kind int (flag 8); got flag 2"),
    ],
)
def test_a_broken_row_is_refused_with_the_place(value: bytes, expected: str) -> None:
    text = refusal(MIXED, value)
    assert text.startswith(f"table s.t (id 104), key {KEY.hex()}: row byte ")
    assert expected in text


def test_a_key_in_an_error_is_bounded() -> None:
    assert "ff… (1000 bytes): key byte 0: expected" in refusal(MIXED, GOOD, key=b"\xff" * 1000)


# ---- checksums ------------------------------------------------------------------------------------------------------

VALUES: dict[int, Plain | None] = {2: 300, 3: Stored(-150, 10, 2), 4: Json({"k": [1, 2.5]}), 5: 1_000_000}
TEXTS = ["1", "300", "-1.50", '{"k": [1, 2.5]}', "00:00:00.001"]


def over_columns(*parts: bytes) -> bytes:
    return struct.pack("<I", crc32(b"".join(parts)))


def with_length(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode()


OVER_ALL = over_columns(struct.pack("<QQ", 1, 300), *map(with_length, TEXTS[2:]))


def test_checksums_over_columns_cover_the_handle_and_the_texts() -> None:
    assert decode_row(MIXED, KEY, row_2(COLUMNS, VALUES, checksum=b"\0" + OVER_ALL)) == TEXTS
    assert "a row with the checksum" in refusal(MIXED, row_2(COLUMNS, VALUES, checksum=b"\0" + bytes(4)))
    assert "a row with the checksum" in refusal(MIXED, row_2(COLUMNS, VALUES | {2: 301}, checksum=b"\0" + OVER_ALL))


def test_numbers_floats_bytes_and_vectors_under_a_checksum_over_columns() -> None:
    columns = {
        1: column(1, "a", "int"), 2: column(2, "b", "float", decimal=-1), 3: column(3, "c", "blob"), 4: column(4, "d", "vector"),
        5: column(5, "e", "enum", elems=["x", "y"]), 6: column(6, "f", "bit", flen=9), 7: column(7, "g", "year"),
    }  # fmt: skip
    vector = struct.pack("<I2f", 2, 1.0, 2.0)
    made = over_columns(
        struct.pack("<q", -2), struct.pack("<d", 1.5), struct.pack("<I", 2) + b"\xff\0", vector, struct.pack("<QQQ", 2, 257, 2020)
    )
    value = row_2(columns, {1: -2, 2: 1.5, 3: b"\xff\0", 4: vector, 5: 2, 6: 257, 7: 2020}, checksum=b"\0" + made)
    assert decode_row(table(*columns.values()), KEY, value) == ["-2", "1.5", "FF00", "[1,2]", "y", "257", "2020"]


def test_either_checksum_may_be_the_schemas_while_it_changes() -> None:
    assert decode_row(MIXED, KEY, row_2(COLUMNS, VALUES, checksum=b"\x08" + bytes(4) + OVER_ALL)) == TEXTS
    assert decode_row(MIXED, KEY, row_2(COLUMNS, VALUES, checksum=b"\x08" + OVER_ALL + bytes(4))) == TEXTS
    assert "a row with the checksum" in refusal(MIXED, row_2(COLUMNS, VALUES, checksum=b"\x08" + bytes(8)))


DROPPED = COLUMNS | {9: column(9, "dropped", "int")}
AMID = table(*(COLUMNS | {2: COLUMNS[2] | {"successor": column(9, "b2", "bigint")}}).values(), int_handle=True)
ZEROS = {number: column(number, f"c{number}", "datetime", decimal=6) for number in (2, 3, 4)}
WHOLE_SECOND = over_columns(struct.pack("<QQ", 1, 300), *map(with_length, [*TEXTS[2:4], "00:00:00"]))
SUCCEEDED = over_columns(struct.pack("<Q", 1), *map(with_length, TEXTS[2:]), struct.pack("<Q", 300))
WRONG = bytes(4)


@pytest.mark.parametrize(
    ("of", "value", "new", "at_rest"),
    [
        pytest.param(MIXED, row_2(COLUMNS, VALUES, checksum=b"\0" + WRONG), False, False, id="the same layout"),
        pytest.param(MIXED, row_2(COLUMNS, VALUES, checksum=b"\x08" + 2 * WRONG), False, False, id="the same layout amid a ddl"),
        pytest.param(MIXED, row_2(DROPPED, VALUES | {9: 1}, checksum=b"\0" + WRONG), False, True, id="a dropped column"),
        pytest.param(MIXED, row_2(DROPPED, VALUES | {9: None}, checksum=b"\0" + WRONG), False, False, id="NULL of a dropped column"),
        pytest.param(MIXED, row_2(DROPPED, VALUES | {9: None}, checksum=b"\0" + OVER_ALL), True, True, id="NULL adds nothing"),
        pytest.param(MIXED, row_2(COLUMNS, VALUES | {5: 0}, checksum=b"\0" + WHOLE_SECOND), False, True, id="a smaller scale"),
        pytest.param(MIXED, row_2(COLUMNS, VALUES | {5: 0}, checksum=b"\0" + WRONG), False, False, id="no smaller scale"),
        pytest.param(MIXED, row_2(COLUMNS, VALUES, checksum=b"\0" + WHOLE_SECOND), False, False, id="digits that no smaller scale has"),
        pytest.param(
            table(COLUMNS[1], *ZEROS.values(), int_handle=True),
            row_2(ZEROS, dict.fromkeys(ZEROS, 0), checksum=b"\0" + WRONG), False, True, id="too many scales",
        ),
        pytest.param(AMID, row_2(DROPPED, {3: VALUES[3], 4: VALUES[4], 5: VALUES[5], 9: 300}, checksum=b"\0" + SUCCEEDED), True, True,
            id="a column that takes another's place"),
        pytest.param(MIXED, row_2_checked(COLUMNS, VALUES, KEY[:-1] + b"\2", version=1), False, True, id="another key"),
        pytest.param(MIXED, row_2_checked(COLUMNS, VALUES, KEY[11:-1] + b"\2", version=2), False, False, id="another handle"),
        pytest.param(
            table(COLUMNS[2]), row_2_checked(COLUMNS, {2: 1}, KEY[11:-1] + b"\2", version=2), False, True, id="another hidden handle"
        ),
    ],
)  # fmt: skip
def test_a_checksum_proves_damage_unless_an_earlier_layout_of_a_row_at_rest_explains_it(
    of: KvTable, value: bytes, new: bool, at_rest: bool
) -> None:
    for accepted, is_at_rest in ((new, False), (at_rest, True)):
        if accepted:
            assert len(decode_row(of, KEY, value, at_rest=is_at_rest)) == len(of.columns)
        else:
            assert "a row with the checksum" in refusal(of, value, at_rest=is_at_rest)


def test_the_way_out_of_a_row_at_rest_is_not_to_read_it_at_rest_again() -> None:
    value = row_2(COLUMNS, VALUES, checksum=b"\0" + WRONG)
    hints = []
    for at_rest in (False, True):
        with pytest.raises(MessageUnreadable) as caught:
            decode_row(MIXED, KEY, value, at_rest=at_rest)
        hints.append(caught.value.hint)
    assert "a new dump of the table reads it again" in hints[0]
    assert "dump of the table" not in hints[1]
    assert "an UPDATE that changes a value writes the row again" in hints[1]


@pytest.mark.parametrize(("version", "covered"), [(1, KEY), (1, KEY[11:]), (2, KEY[11:])])
def test_checksums_over_bytes(version: int, covered: bytes) -> None:
    value = row_2_checked(COLUMNS, VALUES, covered, version=version)
    assert decode_row(MIXED, KEY, value) == TEXTS
    assert decode_row(MIXED, b"x\0\0\1" + KEY, value)[1:] == TEXTS[1:]
    assert "a row with the checksum" in refusal(MIXED, value, key=row_key(memcomparable_int(2)))
    for at_rest in (False, version == OVER_HANDLE):
        assert "a row with the checksum" in refusal(MIXED, value[:-1] + bytes([value[-1] ^ 1]), at_rest=at_rest)


@pytest.mark.parametrize("header", [3, 7, 9, 10, 16])
def test_a_checksum_of_an_unknown_version_is_refused(header: int) -> None:
    assert "a checksum of version 0 to 2" in refusal(MIXED, row_2(COLUMNS, VALUES, checksum=bytes([header]) + bytes(4)))


def test_a_checksum_of_another_length_is_refused() -> None:
    for checksum in (b"\0", b"\0" + OVER_ALL + b"\0", b"\x08" + OVER_ALL):
        assert "bytes of a checksum" in refusal(MIXED, row_2(COLUMNS, VALUES, checksum=checksum))


def test_a_large_cell_makes_a_large_row() -> None:
    blob = column(1, "b", "longblob", flen=1 << 32)
    value = row_2({1: blob}, {1: b"\xab" * 70_000})
    assert value[1] == 1
    assert decode_row(table(blob), KEY, value) == ["AB" * 70_000]
    assert cell(blob, b"\xab") == b"\xab"
