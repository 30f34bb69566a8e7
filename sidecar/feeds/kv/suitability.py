"""What key-values cannot do as TiCDC does, refused before anything is pulled.

- TiCDC's mounter drops rows by event filters. No mounter is in between here, so they are dropped by us (row_filter.py): by type, and by
  value expressions that can be evaluated exactly (shared/ticdc/value_expr.py). Updates that change only some columns look like
  all others.
- DDL jobs are rows of mysql.tidb_ddl_job since TiDB 6.2. In 8.0 to 8.2 with tidb_enable_fast_create_table, new tables never are.
- Of `ignore-event`, DDLs are followed (shared/ticdc/ddl_rules.py); so are ignored start-ts, by the feed.

Source: pingcap/tiflow pkg/filter/filter.go, sql_event_filter.go, expr_filter.go, cdc/entry/schema.
"""

from __future__ import annotations

import re

from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.ticdc.changefeed import Changefeed
from sidecar.shared.ticdc.event_filter import FilterRules, RowEvent
from sidecar.shared.ticdc.value_expr import check_form

_SINCE = (6, 2)
_FAST_CREATE = ((8, 0), (8, 3))


def refuse_filter(changefeed: Changefeed) -> None:
    """Raises FeedUnsuitable for an event filter that drops rows by something that cannot be judged here. What depends on the tables is
    judged when they are known."""
    rules = FilterRules.of(changefeed)
    for rule in rules.rules:
        if columns := rule.event_filter.ignore_update_only_columns:
            raise FeedUnsuitable(
                f"{rule.name}, ignore-update-only-columns {', '.join(columns)}: a feed of key-values cannot tell such updates",
                hint="leave rows out by another setting of the filter, or attach to a Kafka changefeed, whose TiCDC filters itself",
            )
        for event in RowEvent:
            for expr in rule.exprs(event):
                check_form(expr)


def refuse_old_tidb(version: str, *, fast_create_table: bool) -> None:
    """`version` as TiDB reports it: `8.0.11-TiDB-v7.5.1`, `Release Version: v9.0.0-beta.2 …`; empty: it was checked before.

    Raises FeedUnsuitable for one whose DDL cannot be followed, and for a text that has no version.
    """
    if not version:
        return
    number = version_of(version)
    if number < _SINCE:
        raise FeedUnsuitable(
            f"TiDB v{number[0]}.{number[1]} keeps its DDL jobs outside of tables, where a feed of key-values does not see them",
            hint="upgrade to TiDB 6.2 or later, or attach to a Kafka changefeed",
        )
    if fast_create_table and _FAST_CREATE[0] <= number < _FAST_CREATE[1]:
        raise FeedUnsuitable(
            f"TiDB v{number[0]}.{number[1]} with tidb_enable_fast_create_table makes tables without a job that a feed of key-values sees",
            hint="set global tidb_enable_fast_create_table = off, or upgrade to TiDB 8.3 or later",
        )


def version_of(version: str) -> tuple[int, int]:
    """Raises FeedUnsuitable for a text that has no version."""
    match = re.search(r"v(\d+)\.(\d+)", version)
    if match is None:
        raise FeedUnsuitable(f"{version!r} has no version of TiDB", hint="check that the source is TiDB; this feed needs it")
    return int(match[1]), int(match[2])
