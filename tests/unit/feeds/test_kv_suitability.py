"""What a feed of key-values refuses because it could not do it as TiCDC does."""

from __future__ import annotations

import pytest

from sidecar.feeds.kv.suitability import refuse_filter, refuse_old_tidb
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, EventFilter, FeedFilter

ALL = ("*.*",)


def changefeed(*filters: EventFilter) -> Changefeed:
    feed_filter = FeedFilter(rules=("shop.*",), event_filters=filters, ignore_txn_start_ts=(5,))
    return Changefeed(ChangefeedName("default", "default", "cf"), "1", "custom://sink", filter=feed_filter)


@pytest.mark.parametrize(
    ("event_filter", "text"),
    [
        (EventFilter(ALL, ignore_insert_value_expr="abs(id) > 5"), r"ignore-insert-value-expr, \(abs\(id\) > 5\)"),
        (EventFilter(ALL, ignore_update_old_value_expr="a"), "number 2, ignore-update-old-value-expr"),
        (EventFilter(ALL, ignore_update_new_value_expr="a like 'x%'"), "ignore-update-new-value-expr"),
        (EventFilter(ALL, ignore_delete_value_expr="a = now()"), "ignore-delete-value-expr"),
        (EventFilter(ALL, ignore_update_only_columns=("a", "b")), "ignore-update-only-columns a, b"),
        (EventFilter(ALL, ignore_event=("Insert",)), "ignores 'Insert'"),
    ],
)
def test_an_event_filter_that_cannot_be_followed_exactly_is_refused_by_name(event_filter: EventFilter, text: str) -> None:
    with pytest.raises(FeedUnsuitable, match=text):
        refuse_filter(changefeed(EventFilter(ALL, ignore_event=("drop table",)), event_filter))


def test_types_comparisons_table_rules_ignored_ddls_and_ignored_transactions_are_followed() -> None:
    types = EventFilter(ALL, ignore_event=("truncate table", "all ddl", "insert", "update", "all dml"))
    values = EventFilter(ALL, ignore_delete_value_expr="id > 5 and name in ('a', 'b')")
    refuse_filter(changefeed(types, values))


@pytest.mark.parametrize(
    "version", ["", "8.0.11-TiDB-v6.2.0", "8.0.11-TiDB-v7.5.1-serverless", "Release Version: v9.0.0-beta.2\nEdition: Community"]
)
def test_a_tidb_whose_jobs_are_rows_is_followed(version: str) -> None:
    refuse_old_tidb(version, fast_create_table=False)


@pytest.mark.parametrize(("version", "refused"), [("v7.6.0", False), ("v8.0.0", True), ("v8.2.1", True), ("v8.3.0", False)])
def test_fast_create_table_is_refused_where_it_writes_no_job_row(version: str, refused: bool) -> None:
    refuse_old_tidb(version, fast_create_table=False)
    if not refused:
        refuse_old_tidb(version, fast_create_table=True)
        return
    with pytest.raises(FeedUnsuitable, match="tidb_enable_fast_create_table"):
        refuse_old_tidb(version, fast_create_table=True)


@pytest.mark.parametrize("version", ["5.7.25-TiDB-v5.4.3", "8.0.11-TiDB-v6.1.0"])
def test_an_older_tidb_is_refused(version: str) -> None:
    with pytest.raises(FeedUnsuitable, match=r"upgrade to TiDB 6\.2"):
        refuse_old_tidb(version, fast_create_table=False)
