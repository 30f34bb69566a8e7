"""What a feed of key-values refuses because it could not do it as TiCDC does."""

from __future__ import annotations

import pytest

from sidecar.errors import FeedUnsuitable
from sidecar.feeds.kv.suitability import refuse_filter, refuse_old_tidb
from sidecar.ticdc.changefeed import EventFilter, FeedFilter

ALL = ("*.*",)


@pytest.mark.parametrize(
    ("event_filter", "text"),
    [
        (EventFilter(ALL, ignore_event=("add column", "Insert")), "ignore-event Insert"),
        (EventFilter(ALL, ignore_event=("update", "delete")), "ignore-event update, delete"),
        (EventFilter(ALL, ignore_event=("all dml",)), "ignore-event all dml"),
        (EventFilter(ALL, ignore_insert_value_expr="id > 5"), "ignore-insert-value-expr 'id > 5'"),
        (EventFilter(ALL, ignore_update_old_value_expr="a"), "ignore-update-old-value-expr"),
        (EventFilter(ALL, ignore_update_new_value_expr="a"), "ignore-update-new-value-expr"),
        (EventFilter(ALL, ignore_delete_value_expr="a"), "ignore-delete-value-expr"),
        (EventFilter(ALL, ignore_update_only_columns=("a", "b")), "ignore-update-only-columns 'a, b'"),
    ],
)
def test_an_event_filter_that_drops_rows_is_refused(event_filter: EventFilter, text: str) -> None:
    with pytest.raises(FeedUnsuitable, match="drops rows") as refused:
        refuse_filter(FeedFilter(event_filters=(EventFilter(ALL, ignore_event=("drop table",)), event_filter)))
    assert text in str(refused.value)


def test_table_rules_ignored_ddls_and_ignored_transactions_are_followed() -> None:
    event_filter = EventFilter(ALL, ignore_event=("truncate table", "all ddl"))
    refuse_filter(FeedFilter(rules=("shop.*",), event_filters=(event_filter,), ignore_txn_start_ts=(5,)))


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
