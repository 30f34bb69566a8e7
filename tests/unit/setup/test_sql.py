"""The SQL for TiDB: one text, in deploy/sql (tests/unit/test_deploy.py), in what `init` prints and in what `check` advises."""

from __future__ import annotations

import re

from sidecar.setup.sql import account_sql, mark_grant


def granted(sql: str) -> list[str]:
    """What is not a comment, a statement each."""
    return [text.strip() for text in re.sub(r"^--.*\n", "", sql, flags=re.MULTILINE).split(";") if text.strip()]


def test_each_database_is_granted_and_no_other() -> None:
    created, *grants = granted(account_sql("u", ["shop", "we`ird", "order"]))
    assert created == "CREATE USER IF NOT EXISTS 'u'@'%' IDENTIFIED BY 'change-me'"
    assert grants == [
        "GRANT SELECT ON `shop`.* TO 'u'@'%'",
        "GRANT SELECT ON `we``ird`.* TO 'u'@'%'",
        "GRANT SELECT ON `order`.* TO 'u'@'%'",
        mark_grant("u"),
    ]


def test_a_rule_that_names_no_database_grants_nothing_and_is_named_on_one_line() -> None:
    sql = account_sql("u", [], unnamed=["*.*", "/a\n;DROP DATABASE shop;/.*"])
    assert granted(sql)[1:] == [mark_grant("u")]
    assert "-- The rule *.* names no database" in sql
    assert "-- The rule /a ;DROP DATABASE shop;/.* names no database" in sql


def test_raw_key_values_and_hidden_ddls_need_more_tables() -> None:
    jobs = ["GRANT SELECT ON mysql.tidb_ddl_job TO 'u'@'%'", "GRANT SELECT ON mysql.tidb_ddl_history TO 'u'@'%'"]
    assert granted(account_sql("u", [], ddl_jobs=True))[2:] == jobs
    assert granted(account_sql("u", [], key_values=True))[2:] == [*jobs, "GRANT SELECT ON mysql.tidb TO 'u'@'%'"]


def test_a_users_name_is_a_text_of_sql_also_in_a_comment() -> None:
    sql = account_sql("it's\n; DROP USER root; \\", ["shop"])
    assert "CREATE USER IF NOT EXISTS 'it''s\n; DROP USER root; \\\\'@'%' IDENTIFIED" in sql
    comments = [line for line in sql.splitlines() if "GRANT SELECT ON mysql" in line]
    assert len(comments) == 6
    assert all(line.startswith("-- GRANT") for line in comments)
