"""Definitions by information_schema are those of the same table's TableInfo, and differences between servers stop nothing.

The fake tells information_schema as TiDB makes it of a TableInfo (tests/support/services/tidb_views.py); of a real server, MariaDB:
tests/integration/test_tidb_schema.py.
"""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from sidecar.adapters.tidb.schema import TidbSchemas
from sidecar.shared.model.nouns import ColumnDefinition, TableName, TableSchema
from sidecar.shared.mysql.flavour import Flavour
from sidecar.shared.reads.definition import definition
from sidecar.shared.rowcodec.kv_table import kv_table
from sidecar.shared.rowcodec.table_info import table_schema
from tests.support.kv_encoder import column, info
from tests.support.recordings import recording
from tests.support.services.fake_tidb import FakeTable, FakeTidb
from tests.unit.rowcodec.test_definition import NO_DEFAULT, NOT_NULL, ON_UPDATE, UNSIGNED, col, index, of_type, part, partition, table

RECORDINGS = ("demo", "shop", "shop-new", "ddl", "ddl-new", "filter")


def by_sql(infos: dict[TableName, dict[str, Any]], folder: Path) -> dict[TableName, TableSchema]:
    with FakeTidb(folder) as tidb:
        tidb.history = {0: {name: FakeTable(info["id"], info=info) for name, info in infos.items()}}
        return dict(TidbSchemas(tidb.settings()).tables())


def recorded(name: str) -> dict[TableName, dict[str, Any]]:
    """Every table at the beginning and at the end, the end's under a name of its own."""
    result = {}
    for path in (recording(name) / "schema").glob("*/*.*.json"):
        info = json.loads(path.read_bytes())
        schema = path.name.split(".")[0]
        if schema.islower() and info.get("view") is None and info.get("sequence") is None and info["name"]["O"] != "v1":
            other = info["name"]["O"] + path.parent.name
            result[TableName(schema, other)] = info | {"name": {"O": other, "L": other}}
    return result


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name == "demo" else pytest.mark.recordings) for name in RECORDINGS])
def test_a_recorded_table_is_reported_alike_by_sql_and_by_its_table_info(name: str, tmp_path: Path) -> None:
    infos = recorded(name)
    expected = {table: table_schema(info, schema=table.schema) for table, info in infos.items()}
    assert by_sql(infos, tmp_path) == expected
    assert len(expected) > 4


@pytest.mark.parametrize("setting", ["True", "False"])
def test_a_definition_says_whether_the_cluster_has_new_collations(tmp_path: Path, setting: str) -> None:
    """However the table is read."""
    infos = {TableName("shop", "t"): table(col("s", of_type(15, 20, 0, charset="utf8mb4")))}
    with FakeTidb(tmp_path) as tidb:
        tidb.variables["new_collation_enabled"] = setting
        tidb.history = {0: {name: FakeTable(one["id"], info=one) for name, one in infos.items()}}
        (by_name,) = TidbSchemas(tidb.settings()).tables().values()
    made = info([column(1, "id", "bigint", primary=True)], int_handle=True)
    decoded = kv_table(made, schema="shop", new_collation=setting == "True").schema
    assert by_name.definition is not None
    assert decoded.definition is not None
    assert (by_name.definition.new_collation, decoded.definition.new_collation) == (setting == "True", setting == "True")


MADE = {
    "defaults": table(
        col("s", of_type(15, 20, 0, charset="utf8mb4"), default="it's a \\"),
        col("u", of_type(15, 36, 0, charset="utf8mb4"), default="uuid()", default_is_expr=True),
        col("j", of_type(245, 4294967295, 0, flag=128), default="json_object()", default_is_expr=True),
        col("n", of_type(12, 19, 0, flag=128), default="CURRENT_TIMESTAMP"),
        col("n3", of_type(7, 23, 3, flag=128 | ON_UPDATE), default="CURRENT_TIMESTAMP"),
        col("d", of_type(10, 10, 0, flag=128), default="CURRENT_DATE"),
        col("b", of_type(16, 8, 0, flag=UNSIGNED), default="\x05", default_bit=b64encode(b"\x05").decode()),
        col("i", of_type(3, 10, 0, flag=NOT_NULL | NO_DEFAULT | UNSIGNED)),
    ),
    "indexes": table(
        col("a", of_type(3, 11, 0, flag=NOT_NULL | NO_DEFAULT)),
        col("t", of_type(252, 65535, 0, charset="utf8mb4")),
        col("v", of_type(225, 3, 0, flag=128)),
        col("_V$_e_0", of_type(15, 9, 0, charset="utf8mb4"), hidden=True, generated_expr_string="lower(`t`)"),
        indexes=[
            index("e", 1, ("_V$_e_0", -1), ("a", -1), unique=False) | {"idx_cols": [
                {"name": {"O": "_V$_e_0"}, "offset": 3, "length": -1}, {"name": {"O": "a"}, "offset": 0, "length": -1}
            ]},
            index("p", 2, ("t", 10), unique=True) | {"idx_cols": [{"name": {"O": "t"}, "offset": 1, "length": 10}]},
            index("f", 3, ("t", -1), unique=False, full_text_index={"parser": "x"})
            | {"idx_cols": [{"name": {"O": "t"}, "offset": 1, "length": -1}]},
            index("v", 4, ("v", -1), unique=False, vector_index={"kind": "HNSW"})
            | {"idx_cols": [{"name": {"O": "v"}, "offset": 2, "length": -1}]},
            index("PRIMARY", 5, ("a", -1), primary=True),
        ],
    ),
    "ranges": table(
        col("c", of_type(3, 11, 0)),
        col("d", of_type(10, 10, 0, flag=128)),
        partition=partition(
            1, part(1, "p0", less=["'2020-01-01'", "10"]), part(2, "p1", less=["MAXVALUE", "MAXVALUE"]), columns=("d", "c")
        ),
    ),
    "lists": table(
        col("c", of_type(3, 11, 0)),
        col("d", of_type(10, 10, 0, flag=128)),
        partition=partition(3, part(1, "p0", among=[["1", "'2020-01-01'"], ["NULL", "NULL"]]), columns=("c", "d")),
    ),
    "list": table(
        col("c", of_type(3, 11, 0)),
        partition=partition(3, part(1, "a", among=[["1"], ["NULL"]]), part(2, "b", among=[["DEFAULT"]]), expr="`c`"),
    ),
    "keyed": table(col("c", of_type(3, 11, 0)), partition=partition(4, part(1, "p0"), part(2, "p1"), columns=("c",))),
}  # fmt: skip


@pytest.mark.parametrize("name", list(MADE))
def test_a_table_made_by_hand_is_reported_alike(name: str, tmp_path: Path) -> None:
    info = MADE[name] | {"name": {"O": name, "L": name}}
    table_name = TableName("app", name)
    assert by_sql({table_name: info}, tmp_path)[table_name].definition == table_schema(info, schema="app").definition


@pytest.mark.parametrize(
    ("text", "message"),
    [("bigint unsigned", "bigint(20) unsigned"), ("int unsigned", "int(10) unsigned"), ("tinyint(1)", "tinyint(1)"), ("int(5)", "int(5)")],
)
def test_a_width_that_the_server_hides_is_the_default(text: str, message: str) -> None:
    (column,) = definition(
        [("c", "YES", "int", text, "", None, None, None, "")], (), (True, "utf8mb4_bin"), "", flavour=Flavour.TIDB
    ).columns
    assert column == ColumnDefinition("c", message)


def test_what_mariadb_says_otherwise_is_reported_as_tidb_does() -> None:
    rows = [
        ("n", "NO", "int", "int(11)", "", "7", None, None, None),
        ("s", "YES", "varchar", "varchar(9)", "", "'it''s'", "utf8mb4", "utf8mb4_bin", None),
        ("z", "YES", "varchar", "varchar(9)", "", "NULL", "utf8mb4", "utf8mb4_bin", None),
        ("t", "NO", "timestamp", "timestamp(3)", "on update current_timestamp(3)", "current_timestamp(3)", None, None, None),
        ("d", "NO", "datetime", "datetime", "", "current_timestamp()", None, None, None),
        ("u", "YES", "varchar", "varchar(36)", "", "uuid()", "utf8mb4", "utf8mb4_bin", None),
        ("b", "NO", "bit", "bit(1)", "", "b'0'", None, None, None),
        ("j", "YES", "longtext", "longtext", "", None, "utf8mb4", "utf8mb4_bin", None),
    ]
    result = definition(rows, (), (True, "utf8mb4_bin"), "", flavour=Flavour.MARIADB, json_columns={"j"})
    assert {column.name: column.default for column in result.columns} == {
        "n": "'7'", "s": "'it''s'", "z": None, "t": "CURRENT_TIMESTAMP(3)", "d": "CURRENT_TIMESTAMP", "u": "(uuid())", "b": "b'0'",
        "j": None,
    }  # fmt: skip
    assert result.columns[3].on_update == "CURRENT_TIMESTAMP(3)"
    assert (result.columns[7].type_text, result.columns[7].charset) == ("json", "")
    assert not result.clustered, "it has no primary key"
