"""Keys of rows: literal vectors of tikv components/codec and TiSpark's TableCodecV2Test, and what is refused."""

from __future__ import annotations

import pytest

from sidecar.shared.rowcodec.kv_error import Broken
from sidecar.shared.rowcodec.kv_key import record_key, values_of_handle
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from tests.support.kv_encoder import NOT_NULL, Stored, column, common_handle, info, memcomparable_bytes, memcomparable_int, row_key

INT_KEY = bytes.fromhex("7480000000000000685f728000000000000001")
COMMON_KEY = bytes.fromhex("748000000000000068" + "5f72" + "016162000000000000f9" + "038000000000000005")
WRAPPED = bytes.fromhex("7480000000000000FF3B5F728000000000FF1DE3F10000000000FA")


def clustered(*columns: tuple[str, dict[str, object]], new_collation: bool = True) -> KvTable:
    made = [column(number, f"c{number}", type_, flag=NOT_NULL, **more) for number, (type_, more) in enumerate(columns, 1)]  # type: ignore[arg-type]
    table_info = info(made, primary=[(item["name"]["O"], -1) for item in made])
    return kv_table(table_info, schema="s", new_collation=new_collation)


def with_int_handle(*, unsigned: bool = False) -> KvTable:
    return kv_table(info([column(1, "id", "bigint", primary=True, unsigned=unsigned)], int_handle=True), schema="s")


def test_int_handle_of_tiflows_codec_test() -> None:
    key = record_key(INT_KEY)
    assert (key.table_id, key.keyspace) == (104, None)
    assert values_of_handle(with_int_handle(), key.handle) == {0: 1}


def test_the_wrapped_key_of_tidbs_documentation_once_unwrapped() -> None:
    bare = b"".join(WRAPPED[at : at + 9][: 8 - (0xFF - WRAPPED[at + 8])] for at in range(0, len(WRAPPED), 9))
    key = record_key(bare)
    assert (key.table_id, int.from_bytes(key.handle, "big") - (1 << 63)) == (59, 1958897)


def test_common_handle_of_two_columns() -> None:
    key = record_key(COMMON_KEY)
    table = clustered(("char", {"collation": "utf8mb4_bin"}), ("int", {}))
    assert values_of_handle(table, key.handle) == {0: b"ab", 1: 5}


@pytest.mark.parametrize("number", [0, -1, (1 << 63) - 1, -(1 << 63)])
def test_signed_handles(number: int) -> None:
    assert values_of_handle(with_int_handle(), memcomparable_int(number)) == {0: number}


def test_handles_of_an_unsigned_key_beyond_the_signed_range() -> None:
    assert values_of_handle(with_int_handle(unsigned=True), memcomparable_int(-1)) == {0: (1 << 64) - 1}


def test_a_hidden_handle_reports_no_column() -> None:
    assert values_of_handle(kv_table(info([column(1, "a", "int")]), schema="s"), memcomparable_int(7)) == {}


def test_the_keyspace_is_stripped() -> None:
    key = record_key(row_key(memcomparable_int(1), keyspace=0x010203))
    assert (key.table_id, key.keyspace, key.bare) == (104, 0x010203, INT_KEY)


def test_short_handles_are_padded_to_nine_bytes() -> None:
    table = clustered(("decimal", {"flen": 4, "decimal": 2}))
    handle = common_handle([(column(1, "c1", "decimal"), Stored(-123, 4, 2))])
    assert len(handle) == 9
    assert values_of_handle(table, handle) == {0: (-123, 2)}


def test_sort_keys_are_no_values() -> None:
    """Of 'Ab ' under general_ci the key holds 0041 0062; under a _bin collation a varchar's trailing spaces are gone."""
    for collation in ("utf8mb4_general_ci", "utf8mb4_bin"):
        table = clustered(("varchar", {"collation": collation}))
        assert values_of_handle(table, b"\x01" + memcomparable_bytes(b"\x00A\x00b")) == {}


@pytest.mark.parametrize(
    ("type_", "collation"), [("char", "utf8mb4_bin"), ("char", "latin1_bin"), ("varchar", "utf8mb4_0900_bin"), ("varchar", "binary")]
)
def test_keys_that_are_the_value(type_: str, collation: str) -> None:
    table = clustered((type_, {"collation": collation}))
    assert values_of_handle(table, b"\x01" + memcomparable_bytes(b"12345678")) == {0: b"12345678"}


def test_under_the_old_collation_every_key_is_the_value() -> None:
    table = clustered(("varchar", {"collation": "utf8mb4_general_ci"}), new_collation=False)
    assert values_of_handle(table, b"\x01" + memcomparable_bytes(b"Ab ")) == {0: b"Ab "}


def test_a_gbk_sort_key_is_in_gbk() -> None:
    table = clustered(("char", {"collation": "gbk_bin"}))
    assert values_of_handle(table, b"\x01" + memcomparable_bytes("中文".encode("gbk"))) == {0: "中文".encode()}
    with pytest.raises(Broken, match="gbk text"):
        values_of_handle(table, b"\x01" + memcomparable_bytes(b"\xff\xff"))


def test_a_prefix_of_a_column_is_no_value() -> None:
    table = kv_table(info([column(1, "a", "varchar", flag=NOT_NULL)], primary=[("a", 4)]), schema="s")
    assert values_of_handle(table, b"\x01" + memcomparable_bytes(b"abcd")) == {}


@pytest.mark.parametrize(
    ("key", "at"),
    [
        (b"", 0),
        (b"m" + INT_KEY[1:], 0),
        (INT_KEY[:9] + b"_i" + INT_KEY[11:], 9),
        (INT_KEY[:9], 9),
        (INT_KEY[:18], 11),
        (b"x\0\0\1" + INT_KEY[:12], 15),
    ],
)
def test_what_is_no_key_of_a_row(key: bytes, at: int) -> None:
    with pytest.raises(Broken) as caught:
        record_key(key)
    assert caught.value.at == at


_BYTES = b"\x01" + memcomparable_bytes(b"ab")


@pytest.mark.parametrize(
    ("handle", "expected"),
    [
        (COMMON_KEY[11:] + b"\0", "the end of the handle"),
        (COMMON_KEY[11:-1], "8 bytes of a number"),
        (_BYTES, "the flag of a value"),
        (_BYTES + b"\x04" + bytes(8), r"a value of kind int \(flag 3\)"),
        (_BYTES + b"\x08\x02" + bytes(9), r"a value of kind int \(flag 3\)"),
        (_BYTES + bytes(9), r"a value of kind int \(flag 3\)"),
        (b"\x01ab\0\0\0\0\0\0\xf6" + COMMON_KEY[21:], "a marker of at least 0xf7"),
        (b"\x01ab\0\0\0\0\0\1\xf9" + COMMON_KEY[21:], "6 zeros of padding"),
        (b"\x01abcdefgh\xff" + bytes(5), "a group of 9 bytes"),
        (bytes(8), "a common handle of at least 9 bytes"),
        (b"\x63" + bytes(20), "the flag of a value"),
    ],
)
def test_broken_common_handles(handle: bytes, expected: str) -> None:
    table = clustered(("char", {"collation": "utf8mb4_bin"}), ("int", {}))
    with pytest.raises(Broken, match=expected):
        values_of_handle(table, handle)


def test_a_common_handle_is_no_int_handle() -> None:
    with pytest.raises(Broken, match="an int handle of 8 bytes"):
        values_of_handle(with_int_handle(), COMMON_KEY[11:])
