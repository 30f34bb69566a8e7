"""The moment that a session carries out a DDL at, so that `DEFAULT CURRENT_TIMESTAMP` of a new column is what the source has in its rows.

TiDB keeps the value that rows from before have (`origin_default`): logs of raw key-values tell it. Where the log does not, it is
the DDL's commit_ts in whole seconds, a little after the true one, as TiCDC does it.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sidecar.shared.model.nouns import CommitTs, TableSchema, physical_ms
from spark_merge.ddl.columns import column_effects


def session_time(commit_ts: CommitTs, before: TableSchema | None, after: TableSchema | None) -> float:
    """Seconds since 1970. The schemas are the table's before and after the DDL, None where there is none."""
    known = next(iter(_origins(before, after)), None)
    return float(physical_ms(commit_ts) // 1000) if known is None else known


def _origins(before: TableSchema | None, after: TableSchema | None) -> list[float]:
    """Of the new columns whose default is the moment: a session has one clock, so the first counts."""
    if before is None or after is None or after.definition is None or not after.layout:
        return []
    moments = {column.name for column in after.definition.columns if (column.default or "").upper().startswith("CURRENT_TIMESTAMP")}
    results = [one.existing for one in column_effects(before, after, ()) if one.before is None and one.column.name in moments]
    return [
        datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() for text in results if text is not None and not text.startswith("0000")
    ]
