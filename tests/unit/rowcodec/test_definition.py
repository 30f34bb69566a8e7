"""Definitions by TableInfo: of the recorded tables, and of ones made by hand for what no recording has."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import ColumnDefinition, IndexDefinition, IndexPart, TableDefinition
from sidecar.shared.rowcodec.definition import definition_of, type_text
from sidecar.shared.rowcodec.table_info import table_schema
from tests.support.recordings import recording

NOT_NULL, PRIMARY, UNSIGNED, ZEROFILL, NO_DEFAULT, ON_UPDATE = 1, 2, 32, 64, 4096, 8192


def of_type(tp: int, flen: int = -1, decimal: int = -1, *, flag: int = 0, charset: str = "binary", elems: list[str] | None = None) -> Any:
    return {"Tp": tp, "Flag": flag, "Flen": flen, "Decimal": decimal, "Charset": charset, "Collate": charset, "Elems": elems}


def col(name: str, field_type: Any, **value: Any) -> dict[str, Any]:
    made = {"generated_expr_string": "", "generated_stored": False, "default": None, "default_bit": None, "default_is_expr": False}
    return {"id": 1, "name": {"O": name}, "offset": 0, "state": 5, "hidden": False, "type": field_type} | made | value


def index(name: str, id_: int, *parts: tuple[str, int], unique: bool = True, primary: bool = False, **value: Any) -> dict[str, Any]:
    columns = [{"name": {"O": column}, "offset": 0, "length": length} for column, length in parts]
    return {"id": id_, "idx_name": {"O": name}, "idx_cols": columns, "state": 5, "is_unique": unique, "is_primary": primary} | value


def table(*cols: dict[str, Any], indexes: list[dict[str, Any]] | None = None, **value: Any) -> dict[str, Any]:
    numbered = [one | {"offset": number} for number, one in enumerate(cols)]
    about = {"charset": "utf8mb4", "collate": "utf8mb4_bin", "pk_is_handle": False, "is_common_handle": False, "partition": None}
    return {"id": 9, "name": {"O": "t"}, "cols": numbered, "index_info": indexes} | about | value


def default_of(field_type: Any, **value: Any) -> str | None:
    return definition_of(table(col("c", field_type, **value))).columns[0].default


def recorded(name: str, table_name: str) -> TableDefinition:
    folder = recording(name)
    start = json.loads((folder / "recording.json").read_bytes())["start_ts"]
    definition = table_schema(json.loads((folder / "schema" / start / f"shop.{table_name}.json").read_bytes()), schema="shop").definition
    assert definition is not None
    return definition


# ---- of a real cluster ----------------------------------------------------------------------------------------------


def test_types_of_a_real_table_are_those_that_it_was_made_with() -> None:
    types = {column.name: column.type_text for column in recorded("demo", "kinds").columns}
    assert types == types | {
        "c_tiny": "tinyint(4)", "c_utiny": "tinyint(3) unsigned", "c_bool": "tinyint(1)", "c_med": "mediumint(9)", "c_int": "int(11)",
        "c_ubig": "bigint(20) unsigned", "c_float": "float", "c_ufloat": "float unsigned", "c_dec": "decimal(10,0)",
        "c_dec65": "decimal(65,30)", "c_udec": "decimal(12,2) unsigned", "c_date": "date", "c_time": "time", "c_time6": "time(6)",
        "c_dt6": "datetime(6)", "c_ts": "timestamp", "c_ts3": "timestamp(3)", "c_year": "year(4)", "c_char": "char(10)",
        "c_gbk": "varchar(50)", "c_bin": "binary(6)", "c_varbin": "varbinary(40)", "c_tinytext": "tinytext", "c_longblob": "longblob",
        "c_enum": "enum('a','','B b','ü')", "c_set": "set('x','y','z w')", "c_bit64": "bit(64)", "c_json": "json",
    }  # fmt: skip


def test_a_real_table_is_reported_as_it_was_made() -> None:
    definition = recorded("demo", "customer")
    columns = {column.name: column for column in definition.columns}
    assert columns["email"] == ColumnDefinition("email", "varchar(100)", False, "utf8mb4", "utf8mb4_general_ci")
    assert columns["level"].default == "'bronze'"
    assert columns["created"].default == "CURRENT_TIMESTAMP(6)"
    assert columns["balance"].default == "'0'"
    assert definition.indexes == (
        IndexDefinition("PRIMARY", (IndexPart("id"),), unique=True, primary=True),
        IndexDefinition("uk_email", (IndexPart("email"),), unique=True, id=1),
    )
    assert (definition.clustered, definition.charset, definition.collation, definition.partitioning) == (True, "utf8mb4", "utf8mb4_bin", "")


def test_generated_columns_are_reported_virtual_ones_too() -> None:
    columns = {column.name: column for column in recorded("demo", "item").columns}
    assert (columns["price_with_tax"].generated, columns["price_with_tax"].stored) == ("`price` * 1.19", False)
    assert (columns["title_len"].generated, columns["title_len"].stored) == ("char_length(`title`)", True)


@pytest.mark.recordings
def test_partitions_of_real_tables() -> None:
    assert recorded("shop", "event_log").partitioning == "PARTITION BY HASH (`id`) PARTITIONS 4"
    ledger = recorded("shop", "ledger")
    assert ledger.partitioning == (
        "PARTITION BY RANGE (`y`) (PARTITION `p2024` VALUES LESS THAN (2025), PARTITION `p2025` VALUES LESS THAN (2026),"
        " PARTITION `pmax` VALUES LESS THAN (MAXVALUE))"
    )
    assert not ledger.clustered


# ---- made by hand ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field_type", "text"),
    [
        (of_type(8, 20, flag=UNSIGNED | ZEROFILL), "bigint(20) unsigned zerofill"),
        (of_type(3), "int(11)"),
        (of_type(3, 5), "int(5)"),
        (of_type(5, 10, 2), "double(10,2)"),
        (of_type(4, 12, -1), "float"),
        (of_type(13, 4, 0, flag=UNSIGNED | ZEROFILL), "year(4)"),
        (of_type(225, 3), "vector(3)"),
        (of_type(225), "vector"),
        (of_type(246), "decimal(10,0)"),
        (of_type(253, 9, charset="utf8mb4"), "varchar(9)"),
        (of_type(247, charset="utf8mb4", elems=["it's", "a,b"]), "enum('it''s','a,b')"),
    ],
)
def test_types(field_type: Any, text: str) -> None:
    assert type_text(field_type) == text


def test_a_default_is_sql() -> None:
    text = of_type(15, 20, charset="utf8mb4")
    assert default_of(text, default="it's a \\") == "'it''s a \\\\'"
    assert default_of(text, default="uuid()", default_is_expr=True) == "(uuid())"
    assert default_of(text, default="CURRENT_TIMESTAMP") == "'CURRENT_TIMESTAMP'"
    assert default_of(of_type(12, 19, 0), default="CURRENT_TIMESTAMP") == "CURRENT_TIMESTAMP"
    assert default_of(of_type(10, 10, 0), default="CURRENT_DATE") == "(CURRENT_DATE)"
    assert default_of(of_type(16, 8), default="\x05", default_bit=b64encode(b"\x05").decode()) == "b'101'"
    assert default_of(of_type(3, flag=NOT_NULL | NO_DEFAULT)) is None
    assert default_of(of_type(3), default="7", generated_expr_string="1 + 6") is None


def test_what_an_update_writes_is_reported() -> None:
    (column,) = definition_of(table(col("c", of_type(7, 23, 3, flag=ON_UPDATE)))).columns
    assert column.on_update == "CURRENT_TIMESTAMP(3)"


def test_an_index_over_an_expression_has_no_column_of_its_own() -> None:
    hidden = col("_V$_i_0", of_type(3), hidden=True, generated_expr_string="lower(`a`)")
    definition = definition_of(
        table(col("a", of_type(15, 9, charset="utf8mb4")), hidden, indexes=[index("i", 2, ("_V$_i_0", -1), ("a", 4))])
    )
    assert [column.name for column in definition.columns] == ["a"]
    assert definition.indexes == (IndexDefinition("i", (IndexPart(expression="lower(`a`)"), IndexPart("a", 4)), unique=True, id=2),)


def test_the_primary_key_comes_first_and_what_is_no_index_of_all_rows_not_at_all() -> None:
    indexes = [
        index("u", 1, ("a", -1)),
        index("PRIMARY", 2, ("a", -1), primary=True),
        index("half", 3, ("a", -1), condition_expr_string="a > 1"),
        index("v", 4, ("a", -1), unique=False, vector_index={"kind": "HNSW"}),
        index("coming", 5, ("a", -1), state=3),
    ]
    assert [one.name for one in definition_of(table(col("a", of_type(3)), indexes=indexes)).indexes] == ["PRIMARY", "u"]


def partition(kind: int, *definitions: dict[str, Any], expr: str = "", columns: tuple[str, ...] = ()) -> dict[str, Any]:
    named = [{"O": name} for name in columns]
    return {"type": kind, "expr": expr, "columns": named or None, "enable": True, "num": len(definitions), "definitions": list(definitions)}


def part(id_: int, name: str, *, less: list[str] | None = None, among: list[list[str]] | None = None) -> dict[str, Any]:
    return {"id": id_, "name": {"O": name}, "less_than": less, "in_values": among}


@pytest.mark.parametrize(
    ("value", "clause"),
    [
        (
            partition(1, part(1, "p`x", less=["'2020-01-01'", "10"]), part(2, "p1", less=["MAXVALUE", "MAXVALUE"]), columns=("d", "a`b")),
            "PARTITION BY RANGE COLUMNS (`d`,`a``b`) (PARTITION `p``x` VALUES LESS THAN ('2020-01-01',10),"
            " PARTITION `p1` VALUES LESS THAN (MAXVALUE,MAXVALUE))",
        ),
        (
            partition(3, part(1, "a", among=[["1"], ["NULL"]]), part(2, "b", among=[["DEFAULT"]]), expr="`c`"),
            "PARTITION BY LIST (`c`) (PARTITION `a` VALUES IN (1,NULL), PARTITION `b` VALUES IN (DEFAULT))",
        ),
        (
            partition(3, part(1, "a", among=[["1", "'x'"], ["2", "'y'"]]), columns=("c", "d")),
            "PARTITION BY LIST COLUMNS (`c`,`d`) (PARTITION `a` VALUES IN ((1,'x'),(2,'y')))",
        ),
        (partition(4, part(1, "p0"), part(2, "p1"), columns=("c",)), "PARTITION BY KEY (`c`) PARTITIONS 2"),
        (partition(2, part(1, "p0"), part(2, "other"), expr="`c`"), "PARTITION BY HASH (`c`) (PARTITION `p0`, PARTITION `other`)"),
        (
            partition(1, part(1, "p0", less=["'\x01'"]), columns=("c",)),
            "PARTITION BY RANGE COLUMNS (`c`) (PARTITION `p0` VALUES LESS THAN (0x01))",
        ),
        (partition(1, part(1, "p0", less=["5"]), {"id": 2, "name": {"O": ""}}, expr="`c`"), ""),
    ],
)
def test_partitions(value: dict[str, Any], clause: str) -> None:
    assert definition_of(table(col("c", of_type(3)), partition=value)).partitioning == clause


@pytest.mark.parametrize("broken", [{"partition": partition(9, part(1, "p0"))}, {"partition": [1]}, {"index_info": [{}]}])
def test_what_is_no_table_info_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(FeedUnsuitable, match="lacks or breaks a field"):
        table_schema(table(col("c", of_type(3)), **broken), schema="s")
