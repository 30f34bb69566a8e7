"""Tables of a changefeed with column selectors, before and after DDLs, where a log ends, and single rows: as it carries them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import pytest

from sidecar.adapters.tidb.follow import FollowedSchemas
from sidecar.adapters.tidb.selected import SelectedTables
from sidecar.feeds.encoded.checks import settings
from sidecar.feeds.encoded.make import schemas_of
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Column, CommitTs, TableName, TableSchema
from sidecar.shared.model.schema_step import SchemaFate, TableStep, rewritten, steps
from sidecar.shared.process.checks import CheckFinding
from sidecar.shared.reads.row import KeyOf, RowImage
from sidecar.shared.ticdc.changefeed import Changefeed, ColumnSelector, EventFilter, FeedFilter
from sidecar.shared.ticdc.scope import LiveScope
from sidecar.shared.ticdc.selected_columns import SelectedColumns
from tests.unit.adapters.test_tidb_follow import History, T, U, ddl, table, tables
from tests.unit.ticdc.test_scope import changefeed

A, SECRET, HIDDEN, NOTE = Column("a", "int"), Column("secret", "int"), Column("hidden", "int"), Column("note", "text")
FEED = replace(changefeed(), column_selectors=(ColumnSelector(("shop.t",), ("*", "!secret", "!hidden")),))
WHOLE = table(T, 1, A, SECRET)
NARROWED = replace(table(T, 1, A), omitted=(SECRET,))


@dataclass
class WholeTables(History):
    """`TablesAndRows`."""

    image: RowImage | None = None
    keys: list[object] = field(default_factory=list)

    def row(self, table: TableName, at_ts: CommitTs, columns: Collection[str], key_of: KeyOf) -> RowImage | None:
        self.keys.append((table, at_ts, key_of(())))
        return self.image


class Narrowed:
    """The schemas of one term of `feed`."""

    def __init__(self, history: WholeTables, feed: Changefeed = FEED) -> None:
        self.notes: list[str] = []
        self.history, self.scope = history, LiveScope(server_tz="UTC")
        self.schemas: FollowedSchemas = schemas_of(history, self.scope, feed, self.notes.append)


def of(at: Mapping[int, TableSchema], **more: object) -> Narrowed:
    return Narrowed(WholeTables({ts: tables(one) for ts, one in at.items()}, **more))  # type: ignore[arg-type]


def test_a_term_begins_with_what_is_carried() -> None:
    term = of({0: WHOLE})
    assert term.schemas.begin() == tables(NARROWED)
    assert set(term.scope.omits(T)) == {"secret"}
    assert not term.scope.omits(U)


CASES = {
    "ADD COLUMN hidden": (WHOLE, table(T, 1, A, SECRET, HIDDEN), replace(NARROWED, omitted=(SECRET, HIDDEN)), SchemaFate.KEPT, False),
    "ADD COLUMN hidden before others": (
        WHOLE, table(T, 1, HIDDEN, A, SECRET), replace(NARROWED, omitted=(HIDDEN, SECRET)), SchemaFate.KEPT, False
    ),
    "DROP COLUMN secret": (WHOLE, table(T, 1, A), table(T, 1, A), SchemaFate.KEPT, False),
    "DROP COLUMN a": (WHOLE, table(T, 1, SECRET), replace(table(T, 1), omitted=(SECRET,)), SchemaFate.KEPT, False),
    "ADD COLUMN note": (
        WHOLE, table(T, 1, A, SECRET, NOTE), replace(table(T, 1, A, NOTE), omitted=(SECRET,)), SchemaFate.KEPT, False
    ),
    "CHANGE secret": (
        WHOLE, table(T, 1, A, replace(SECRET, kind="text")), replace(NARROWED, omitted=(replace(SECRET, kind="text"),)), SchemaFate.KEPT,
        False,
    ),
    "RENAME COLUMN secret TO note": (
        WHOLE, table(T, 1, A, replace(SECRET, name="note")), table(T, 1, A, replace(SECRET, name="note")), SchemaFate.AGAIN, True
    ),
    "RENAME COLUMN a TO hidden": (
        WHOLE, table(T, 1, replace(A, name="hidden"), SECRET), replace(table(T, 1), omitted=(replace(A, name="hidden"), SECRET)),
        SchemaFate.KEPT, False,
    ),
    "RENAME TO u": (WHOLE, table(U, 1, A, SECRET), table(U, 1, A, SECRET), SchemaFate.AGAIN, True),
    "RENAME u TO t": (table(U, 1, A, SECRET), WHOLE, NARROWED, SchemaFate.KEPT, False),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("resumed", [False, True])
def test_each_ddl_of_a_column_that_is_omitted_is_followed(case: str, resumed: bool) -> None:
    before, after, narrowed, fate, again = CASES[case]
    term = of({0: before, 1100: after})
    was = term.schemas.begin()
    if resumed:
        (logged,) = was.values()
        term = of({0: before, 1100: after})
        assert term.schemas.resume(tables(logged), upto_ts=CommitTs(1000)) == was
        assert not term.notes
    now = term.schemas.after([ddl(1100, before.name, query=f"ALTER TABLE t {case}".replace("CHANGE", "…"))])
    assert now == tables(narrowed)
    assert steps(was, now, named={before.name}) == (TableStep(before.name, after.name, fate),)
    assert bool(rewritten(was, now, [ddl(1100, before.name, query="")])) is again


def test_a_server_shows_a_ddl_of_such_a_column_and_one_that_is_behind_does_not() -> None:
    """What shows it is narrowed too, before and after."""
    term = of({0: WHOLE, 1100: table(T, 1, A, SECRET, HIDDEN), 1200: table(T, 1, A, SECRET, HIDDEN)}, behind=(1050, 1050))
    term.schemas.begin()
    term.schemas.after([ddl(1100)])
    assert term.history.shown == 0, "the table before the DDL is no answer"
    term.history.behind = (1200,)
    term.schemas.after([ddl(1200, query="ADD INDEX …")])
    assert term.history.shown == 0, "nothing can be seen of it"


def test_a_table_that_another_ddl_overtakes_keeps_what_is_omitted_of_it() -> None:
    """SQL shows amid a DDL what the feed does not have yet; the column stays known as one that is omitted."""
    other = table(U, 2)
    history = WholeTables({0: tables(WHOLE, other), 1100: tables(table(T, 1, A), table(U, 2, NOTE))})
    term = Narrowed(history)
    term.schemas.begin()
    assert term.schemas.after([ddl(1100, U)]) == tables(NARROWED, table(U, 2, NOTE))


def test_where_a_log_ends_the_tables_are_compared_as_they_are_carried() -> None:
    term = of({0: WHOLE})
    assert term.schemas.resume(tables(NARROWED), upto_ts=CommitTs(900)) == tables(NARROWED)
    assert not term.notes
    amid = of({0: table(T, 1, A)}, amid=frozenset({1}))
    assert amid.schemas.resume(tables(NARROWED), upto_ts=CommitTs(900)) == tables(NARROWED), "SQL hides what is being dropped"
    behind = of({0: table(T, 1, A, SECRET, HIDDEN)})
    more = replace(NARROWED, omitted=(SECRET, HIDDEN))
    assert behind.schemas.resume(tables(NARROWED), upto_ts=CommitTs(900)) == tables(more)


def test_other_selectors_than_those_of_the_log_are_reported() -> None:
    term = Narrowed(WholeTables({0: tables(WHOLE)}), changefeed())
    assert term.schemas.resume(tables(NARROWED), upto_ts=CommitTs(900)) == tables(WHOLE)
    assert "shop.t" in term.notes[0]


def test_a_table_that_comes_with_a_key_that_is_omitted_stops_the_feed() -> None:
    term = of({0: table(T, 1, A), 1100: replace(table(T, 1, A, SECRET), key=("secret",))})
    term.schemas.begin()
    with pytest.raises(FeedUnsuitable, match=r"shop.t come without secret, of its handle key"):
        term.schemas.after([ddl(1100)])


def test_an_event_filter_may_ask_for_a_column_that_is_omitted() -> None:
    """TiCDC's filters see the whole row, and so does the dump's SELECT."""
    events = (EventFilter(("shop.t",), ignore_insert_value_expr="secret > 5"),)
    feed = replace(FEED, filter=FeedFilter(FEED.filter.rules, event_filters=events))
    term = Narrowed(WholeTables({0: tables(WHOLE)}), feed)
    term.schemas.begin()
    assert "`secret` > 5" in term.scope.through(T)[1]


# ---- single rows ----------------------------------------------------------------------------------------------------


def selected(image: RowImage | None) -> SelectedTables:
    return SelectedTables(WholeTables({}, image=image), SelectedColumns.of(FEED))


def test_a_row_that_is_read_by_its_key_has_the_columns_that_are_carried() -> None:
    image = RowImage(WHOLE.columns, ["1", "2", "3"])
    assert selected(image).row(T, CommitTs(5), {"id"}, lambda _: ("1",)) == RowImage(list(NARROWED.columns), ["1", "2"])
    assert selected(image).row(U, CommitTs(5), {"id"}, lambda _: ("1",)) == image
    assert selected(None).row(T, CommitTs(5), {"id"}, lambda _: ("1",)) is None


# ---- the preflight --------------------------------------------------------------------------------------------------


def findings(existing: Mapping[TableName, TableSchema]) -> list[str]:
    return [one.what for one in settings(FEED, existing) if isinstance(one, CheckFinding)]


def test_check_names_the_columns_that_are_omitted() -> None:
    assert "not either: shop.t (secret, hidden)" in findings(tables(table(T, 1, A, SECRET, HIDDEN), table(U, 2, SECRET)))[1]
    assert len(findings(tables(table(U, 2, SECRET)))) == 1
