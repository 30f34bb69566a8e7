"""What key-values cannot do as TiCDC does, refused before anything is pulled.

- TiCDC's mounter drops rows by event filters: by type (`ignore-event` insert, update, delete), by value expressions, by the columns that
  changed. No mounter is in between here, and an expression is Go's SQL over TiDB's values. What such a filter drops would be sent.
- DDL jobs are rows of mysql.tidb_ddl_job since TiDB 6.2. In 8.0 to 8.2 with tidb_enable_fast_create_table, new tables never are.
- Of `ignore-event`, DDLs are followed (ticdc/ddl_rules.py); so are ignored start-ts, by the feed.

Source: pingcap/tiflow pkg/filter/filter.go, sql_event_filter.go, expr_filter.go; facts/tidb.md 4.3.
"""

from __future__ import annotations

import re

from sidecar.errors import FeedUnsuitable
from sidecar.ticdc.changefeed import EventFilter, FeedFilter

_ROW_EVENTS = frozenset({"insert", "update", "delete", "all dml", "all"})
_SINCE = (6, 2)
_FAST_CREATE = ((8, 0), (8, 3))


def refuse_filter(feed_filter: FeedFilter) -> None:
    """Raises FeedUnsuitable for an event filter that drops rows."""
    for one in feed_filter.event_filters:
        dropped = _drops(one)
        if dropped:
            raise FeedUnsuitable(
                f"the changefeed's event filter for {', '.join(one.matcher)} drops rows ({dropped}), which a feed of key-values cannot do",
                hint="leave rows out by table rules alone (filter.rules), or attach to a Kafka changefeed, whose TiCDC filters itself",
            )


def _drops(one: EventFilter) -> str:
    events = [event for event in one.ignore_event if event.lower().strip() in _ROW_EVENTS]
    if events:
        return f"ignore-event {', '.join(events)}"
    named = {
        "ignore-insert-value-expr": one.ignore_insert_value_expr,
        "ignore-update-old-value-expr": one.ignore_update_old_value_expr,
        "ignore-update-new-value-expr": one.ignore_update_new_value_expr,
        "ignore-delete-value-expr": one.ignore_delete_value_expr,
        "ignore-update-only-columns": ", ".join(one.ignore_update_only_columns),
    }
    return ", ".join(f"{name} {value!r}" for name, value in named.items() if value)


def refuse_old_tidb(version: str, *, fast_create_table: bool) -> None:
    """`version` as TiDB tells it: `8.0.11-TiDB-v7.5.1`, `Release Version: v9.0.0-beta.2 …`; empty: it was asked before.

    Raises FeedUnsuitable for one whose DDL cannot be followed, and for a text that tells no version.
    """
    if not version:
        return
    found = re.search(r"v(\d+)\.(\d+)", version)
    if found is None:
        raise FeedUnsuitable(f"{version!r} tells no version of TiDB", hint="check that the source is TiDB; a feed of key-values needs it")
    number = (int(found[1]), int(found[2]))
    if number < _SINCE:
        raise FeedUnsuitable(
            f"TiDB v{found[1]}.{found[2]} keeps its DDL jobs outside of tables, where a feed of key-values does not see them",
            hint="upgrade to TiDB 6.2 or later, or attach to a Kafka changefeed",
        )
    if fast_create_table and _FAST_CREATE[0] <= number < _FAST_CREATE[1]:
        raise FeedUnsuitable(
            f"TiDB v{found[1]}.{found[2]} with tidb_enable_fast_create_table makes tables without a job that a feed of key-values sees",
            hint="set global tidb_enable_fast_create_table = off, or upgrade to TiDB 8.3 or later",
        )
