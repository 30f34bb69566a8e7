"""The DDLs that end a segment, as statements on the tables of the log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sidecar.shared.errors import UnsupportedDdl
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.sql.text import for_servers
from sidecar.shared.ticdc.ddl_text import keeps_rows
from spark_merge.ddl.names import of_the_log
from spark_merge.ddl.parser import parsed
from spark_merge.ddl.reader import TokenReader
from spark_merge.ddl.statement import Statement, StatementKind
from spark_merge.port.contract import Head


@dataclass(frozen=True, slots=True)
class LoggedDdl:
    """`problem`: why the text is not understood. Then `statement` has no tables, and its kind only where the first words say it. A text
    that is not understood and that keeps the rows whatever its options are is no problem."""

    record: DdlRecord
    statement: Statement
    problem: UnsupportedDdl | None = None


def query_of(record: DdlRecord, head: Head) -> str:
    """Its text for a server that reads backslashes as escapes. Logs of key-values and of TiDB-Binlog have the text of its author (TiDB's
    job.Query), all others have what TiCDC restored."""
    by_author = any(schema.layout for schema in head.schemas.values())
    return record.query if by_author else for_servers(record.query)


def logged_ddls(head: Head, records: Iterable[DdlRecord]) -> list[LoggedDdl]:
    """Of `records`, which are `head`'s, those that have a text."""
    return [_logged(record, head) for record in records if record.query]


def _logged(record: DdlRecord, head: Head) -> LoggedDdl:
    try:
        return LoggedDdl(record, of_the_log(parsed(query_of(record, head), record.schema), record, head))
    except UnsupportedDdl as error:
        if keeps_rows(record.query):
            return LoggedDdl(record, Statement(StatementKind.NOTHING, record.query))
        return LoggedDdl(record, Statement(_kind(record), record.query), error)


def _kind(record: DdlRecord) -> StatementKind:
    try:
        reader = TokenReader(record.query, record.schema)
    except UnsupportedDdl:
        return StatementKind.UNREAD
    first = {"CREATE TABLE": StatementKind.CREATE_TABLE, "TRUNCATE": StatementKind.TRUNCATE, "ALTER TABLE": StatementKind.ALTER_TABLE}
    return next((kind for words, kind in first.items() if reader.sees(words)), StatementKind.UNREAD)
