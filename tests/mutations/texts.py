"""Text of TiDB in quotes, names of tables and columns, defaults and changes of type."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

SQL_TEXT = "sidecar/schema/sql_text.py"
OF_SQL_TEXT = "tests/unit/schema/test_sql_text.py"

TEXTS = [
    Mutation(
        "TiDB's labels are read as MySQL shows them",
        SQL_TEXT,
        "    if shows is Shows.MYSQL:\n",
        "    if shows in Shows:\n",
        f"{OF_SQL_TEXT}::test_labels_that_tidb_shows_are_read_as_they_are_or_not_at_all",
    ),
    Mutation(
        "a backslash of a DDL goes to a server as TiCDC has it",
        SQL_TEXT,
        'token if token.startswith("`") else',
        'token if token.startswith(("`", "\'")) else',
        f"{OF_SQL_TEXT}::test_a_server_reads_the_text_of_a_ddl_as_ticdc_does",
    ),
]
