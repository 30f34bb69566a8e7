"""What an operator's predicate may ask: its own row, by harmless means. All that an attacker tried is here."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sidecar.control.predicate import DEEP_MAX, NAMED_MAX, PREDICATE_BYTES_MAX, predicate
from sidecar.core.model import Column, TableName, TableSchema
from sidecar.errors import RefusedRequest

COLUMNS = (
    Column("id", "int"),
    Column("amount", "int"),
    Column("name", "text"),
    Column("at", "datetime"),
    Column("doc", "json"),
    Column("we;ird)", "int"),
    Column("left", "int"),
)
SCHEMA = TableSchema(TableName("shop", "account"), COLUMNS, ("id",))


@pytest.mark.parametrize(
    "text",
    [
        "exists(select 1 from hr.salary where who = 'ceo' and amount > 900000)",
        "id in (select id from hr.salary)",
        "id in (table hr.salary)",
        "(1, 2) in (values row(1, 2))",
        "values(id) = 1",
        "id = any (with x as (select 1) select * from x)",
        "extractvalue(1, concat(0x7e, name))",
        "updatexml(1, concat(0x7e, name), 1)",
        "bin_to_uuid(name) = 1",
        "sleep(10)",
        "benchmark(100000000, md5('x'))",
        "get_lock('x', 60)",
        "release_all_locks()",
        "is_used_lock('x')",
        "load_file('/etc/passwd')",
        "user() = 'root'",
        "current_user = 'root'",
        "session_user() = 1",
        "database() = 'x'",
        "version() > 1",
        "connection_id() = 1",
        "last_insert_id(5)",
        "found_rows()",
        "nextval(s)",
        "next value for s",
        "tidb_decode_key(name) = 1",
        "tidb_is_ddl_owner()",
        "name = @@version",
        "@x := 1",
        "id = ?",
        "name regexp concat('(', name)",
        "regexp_like('x', name)",
        "repeat('x', 1000000000) = name",
        "f(id) = 1",
        "other.f(id) = 1",
        "`f`(id) = 1",
        "salary.amount > 1",
        "hr.salary.amount > 1",
        "secret > 1",
        "`secret` > 1",
        "account.secret > 1",
        "name = 'x' into outfile '/tmp/x'",
        "id = 1 for update",
        "id = 1 order by id",
        "id = 1 union all",
        "name collate f(id)",
        "match (name) against ('x')",
        "id = 1; drop table account",
        "id = 1 -- x",
        "id = 1 # x",
        "id /* x */ = 1",
        "id /*! or 1 */ = 1",
        "id) or (id",
        "(id",
        "name = 'x",
        "name = 'x\\'",
        'name = "',
        "`id = 1",
        "{d '2026-01-01'}",
        "id = 1\0",
        "",
        "  ",
    ],
)
def test_whatever_is_not_of_the_row_is_refused(text: str) -> None:
    with pytest.raises(RefusedRequest, match=re.escape("the predicate of shop.account")) as told:
        predicate(text, SCHEMA)
    assert "created_at" in told.value.hint


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("amount > 5 OR amount IS NULL", "`t`.`amount` > 5 OR `t`.`amount` IS NULL"),
        ("account.amount between 1 and 2", "`t`.`amount` between 1 and 2"),
        ("Account . `id` = 0x1F", "  `t`.`id` = 0x1F"),
        ("name = 'a;b)' and (name <> \"--\")", "`t`.`name` = 'a;b)' and (`t`.`name` <> \"--\")"),
        (r"name = 'a\'b#' or name = 'it''s ('", r"`t`.`name` = 'a\'b#' or `t`.`name` = 'it''s ('"),
        ("`we;ird)` > 5 - -1", "`t`.`we;ird)` > 5 - -1"),
        ("left > 3 and left(name, 2) = 'ab'", "`t`.`left` > 3 and left(`t`.`name`, 2) = 'ab'"),
        ("at >= date '2026-01-01' - interval 1 day", "`t`.`at` >= date '2026-01-01' - interval 1 day"),
        ("case when id in (1, 2) then 1 else 0 end = 1", "case when `t`.`id` in (1, 2) then 1 else 0 end = 1"),
        ("cast(name as unsigned) % 16 = 3", "cast(`t`.`name` as unsigned) % 16 = 3"),
        ("convert(name using utf8mb4) collate utf8mb4_bin = 'x'", "convert(`t`.`name` using utf8mb4) collate utf8mb4_bin = 'x'"),
        ("doc->>'$.a' = 'x' and not json_valid(name)", "`t`.`doc`->>'$.a' = 'x' and not json_valid(`t`.`name`)"),
        ("name regexp '^a' or name rlike 'b$'", "`t`.`name` regexp '^a' or `t`.`name` rlike 'b$'"),
        ("extract(year from at) = 2026", "extract(year from `t`.`at`) = 2026"),
        ("at < now() and name like _utf8mb4'x%'", "`t`.`at` < now() and `t`.`name` like _utf8mb4'x%'"),
        ("id = true xor name is not null", "`t`.`id` = true xor `t`.`name` is not null"),
    ],
)
def test_what_people_ask_for_is_passed_on_with_its_columns_qualified(text: str, sql: str) -> None:
    assert predicate(text, SCHEMA) == sql


def test_what_is_refused_is_named_with_its_place() -> None:
    with pytest.raises(RefusedRequest, match="has secret at character 11, which is neither a column of the table as the feed carries it"):
        predicate("id = 1 or secret > 1", SCHEMA)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id = 1 or select", "has 'select' at character 11, which an expression may not use"),
        ("id = ?", "has '?' at character 6, which begins nothing"),
        ("amuont > 1", "did you mean amount?"),
        ("`amuont` > 1", "did you mean amount?"),
        ("AMUONT > 1", "did you mean amount?"),
    ],
)
def test_a_refusal_is_a_sentence_and_names_the_columns_of_the_table(text: str, says: str) -> None:
    with pytest.raises(RefusedRequest) as told:
        predicate(text, SCHEMA)
    assert says in told.value.message
    assert ", ".join(column.name for column in SCHEMA.columns) in told.value.hint


def test_of_many_columns_the_first_are_named() -> None:
    many = replace(SCHEMA, columns=tuple(replace(SCHEMA.columns[0], name=f"c{number}") for number in range(NAMED_MAX + 5)))
    with pytest.raises(RefusedRequest, match=f"c{NAMED_MAX - 1} and 5 more") as told:
        predicate("nothing = 1", many)
    assert f"c{NAMED_MAX}" not in told.value.hint


def test_parentheses_and_length_are_bounded() -> None:
    deep = "(" * DEEP_MAX
    assert predicate(f"{deep}id{')' * DEEP_MAX}", SCHEMA)
    with pytest.raises(RefusedRequest, match=f"more than {DEEP_MAX} parentheses"):
        predicate(f"({deep}id{')' * DEEP_MAX})", SCHEMA)
    with pytest.raises(RefusedRequest, match="bytes of SQL"):
        predicate("id > " + "1" * PREDICATE_BYTES_MAX, SCHEMA)
