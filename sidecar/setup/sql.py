"""The SQL that an administrator runs in TiDB once: the watermark table and the sidecar's account.

`make pages` writes deploy/sql/ with these functions, so that a page, `init` and `check` name the same statements. No password is here:
the account is created with PASSWORD, and the administrator replaces it. The password is in two places, that statement and the file of
source.password_file: each text that asks for one names the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.adapters.tidb.source import MARK_SCHEMA_DDL, MARK_TABLE_DDL
from sidecar.shared.model.nouns import MARK_TABLE
from sidecar.shared.process.printable import one_line
from sidecar.shared.sql.text import quoted

ACCOUNT = "ticdc_dump"
PASSWORD = "change-me"

_DDL_JOBS = ("mysql.tidb_ddl_job", "mysql.tidb_ddl_history")
_COLLATIONS = ("mysql.tidb",)
_IMPORTS = ("mysql.tidb_import_jobs", "mysql.tidb_pitr_id_map", "mysql.tidb_restore_registry")


def watermark_sql() -> str:
    return f"""\
-- The watermark table, for dumps with marks only. Run it once in the upstream TiDB, as an account that may create databases. The
-- changefeed must let {MARK_TABLE} through: deploy/FIRST-DAY.md, "Marks".

{MARK_SCHEMA_DDL};

{MARK_TABLE_DDL};
"""


def account_sql(
    user: str,
    databases: Sequence[str],
    *,
    unnamed: Sequence[str] = (),
    ddl_jobs: bool = False,
    key_values: bool = False,
    marks: bool = True,
) -> str:
    """`databases`: those that the changefeed's rules name. `unnamed`: rules that may match others. `ddl_jobs`: the filter leaves DDLs
    out. `key_values`: the feed is raw key-values. `marks`: it lets the watermark table through. Grants that none of them asks for are
    comments."""
    grants = [f"{select_grant(f'{quoted(name)}.*', user)};\n" for name in databases]
    for rule in unnamed:
        grants.append(f"-- The rule {one_line(rule)} names no database: add a line for each database that it matches.\n")
    jobs = [_optional(table, user, needed=ddl_jobs or key_values) for table in _DDL_JOBS]
    collations = [_optional(table, user, needed=key_values or not marks) for table in _COLLATIONS]
    mark = f"{mark_grant(user)};" if marks else "-- Dumps have snapshot brackets: the account reads only."
    return f"""\
-- The sidecar's account. Replace {PASSWORD} with a password, and write the same password, on one line, to the file that
-- source.password_file of the sidecar's settings names. Grant SELECT on each database that the changefeed replicates, a line for each,
-- and never on all databases: what this account may not read, nobody can read through the sidecar. It needs no DDL, no write to any
-- replicated table, and no administrative right; it ends its own statements, for which TiDB asks no right.

CREATE USER IF NOT EXISTS {_account(user)} IDENTIFIED BY '{PASSWORD}';

{"".join(grants)}
{mark}

-- For feed = "push" and feed = "tikv", and where DDLs do not come by the feed (event filters, target-schema): the DDL jobs.
{"".join(jobs)}
-- For dumps without marks: which cluster this is (TiDB 8.5 and later). For feed = "push" and feed = "tikv": its collation framework.
{"".join(collations)}
-- To see what changes rows without a change in the feed (deploy/HOLES.md): the DDL jobs too, and of these tables those that this TiDB has.
{"".join(_optional(table, user, needed=False) for table in _IMPORTS)}"""


def mark_grant(user: str) -> str:
    return f"GRANT SELECT, INSERT, UPDATE ON {MARK_TABLE.schema}.* TO {_account(user)}"


def select_grant(what: str, user: str) -> str:
    """`what`: as SQL has it, quoted where it needs to be."""
    return f"GRANT SELECT ON {what} TO {_account(user)}"


def _optional(table: str, user: str, *, needed: bool) -> str:
    grant = f"{select_grant(table, user)};"
    return f"{grant}\n" if needed else f"-- {one_line(grant)}\n"


def _account(user: str) -> str:
    text = user.replace("\\", "\\\\").replace("'", "''")
    return f"'{text}'@'%'"
