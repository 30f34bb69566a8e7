"""Which tables there are after a DDL: asked of the source at its commit_ts, and of nobody where that is known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

import pytest

from sidecar.adapters.memory.log import MemoryLog
from sidecar.adapters.tidb.follow import FollowedSchemas
from sidecar.shared.errors import FeedUnsuitable, SourceError, SourceLost, UnsupportedDdl
from sidecar.shared.model.nouns import (
    Column,
    ColumnDefinition,
    CommitTs,
    Ddl,
    IndexDefinition,
    Lane,
    Rank,
    TableDefinition,
    TableName,
    TableSchema,
)
from sidecar.shared.model.schema_step import SchemaFate, TableStep, steps
from tests.support.changes import put, resolved
from tests.unit.test_pipeline import SCHEMAS, TABLE, Stage

T, U = TableName("shop", "t"), TableName("shop", "u")
ID, NOTE, GONE = Column("id", "int", nullable=False), Column("note", "text"), Column("gone", "text")
LANE = Lane("kafka/topic/0")


def table(name: TableName, number: int, *columns: Column, physical: tuple[int, ...] = ()) -> TableSchema:
    return TableSchema(name, (ID, *columns), ("id",), number, physical or (number,))


def tables(*schema: TableSchema) -> dict[TableName, TableSchema]:
    return {one.name: one for one in schema}


@dataclass
class History:
    """`TablesInTime`: tables from a ts on. `keeps_time` False: as a server that is no TiDB."""

    at: dict[int, Mapping[TableName, TableSchema]]
    now: int = 1000
    keeps_time: bool = True
    collected_below: int = 0
    fails: Exception | None = None
    asked: list[int | None] = field(default_factory=list)
    behind: tuple[int, ...] = ()
    shown: int = 0
    amid: frozenset[int] = frozenset()

    def tables(
        self, at_ts: CommitTs | None = None, *, shown: Callable[[Mapping[TableName, TableSchema]], bool] = lambda _: False
    ) -> Mapping[TableName, TableSchema]:
        """A server that is behind answers again and again with what it has loaded, until that is enough or it is not behind any more."""
        for loaded in self.behind:
            if shown(self.at[max(since for since in self.at if since <= min(loaded, at_ts or self.now))]):
                self.shown += 1
                break
        self.asked.append(at_ts)
        if self.fails is not None:
            raise self.fails
        if at_ts is not None and at_ts < self.collected_below:
            raise SourceError(f"{at_ts} is garbage-collected", hint="raise tidb_gc_life_time")
        assert self.keeps_time or at_ts is None
        return self.at[max(since for since in self.at if since <= (self.now if at_ts is None else at_ts))]

    def changing(self, table_ids: Collection[int], at_ts: CommitTs) -> frozenset[int]:
        return self.amid & frozenset(table_ids)

    def now_ts(self) -> CommitTs | None:
        return CommitTs(self.now) if self.keeps_time else None


class Followed:
    def __init__(self, history: History, *, carried: tuple[TableName, ...] = (T, U), from_now: bool = True) -> None:
        self.notes: list[str] = []
        self.narrowed: list[Mapping[TableName, TableSchema]] = []
        self.carried = carried
        self.schemas = FollowedSchemas(history, narrow=self.narrow, note=self.notes.append, from_now=from_now)

    def narrow(self, value: Mapping[TableName, TableSchema]) -> Mapping[TableName, TableSchema]:
        self.narrowed.append({name: one for name, one in value.items() if name in self.carried})
        return self.narrowed[-1]


def ddl(ts: int, name: TableName = T, query: str = "ALTER TABLE t …") -> Ddl:
    return Ddl(CommitTs(ts), Rank.DDL, name.schema, name.table, query, LANE, 0)


OLD, NEW = tables(table(T, 1), table(U, 2)), tables(table(T, 1, NOTE), table(U, 2))


def test_a_new_log_begins_with_the_tables_of_a_known_moment() -> None:
    history = History({0: OLD})
    followed = Followed(history, carried=(T,))
    assert followed.schemas.begin() == tables(table(T, 1)) == followed.schemas.tables
    assert history.asked == [1000]


def test_what_a_new_log_has_begins_at_that_moment_unless_the_operator_or_the_source_has_it_otherwise() -> None:
    now, topic, timeless = (
        Followed(History({0: OLD})),
        Followed(History({0: OLD}), from_now=False),
        Followed(History({0: OLD}, keeps_time=False)),
    )
    for followed in (now, topic, timeless):
        assert followed.schemas.began is None
        followed.schemas.begin()
    assert (now.schemas.since_ts, topic.schemas.since_ts, timeless.schemas.since_ts) == (1000, 0, 0)
    resumed = Followed(History({0: OLD}))
    resumed.schemas.resume(OLD, upto_ts=CommitTs(800))
    assert resumed.schemas.began is None


def test_a_ddl_older_than_that_moment_is_contained_and_nobody_is_queried() -> None:
    history = History({0: NEW})
    followed = Followed(history)
    followed.schemas.begin()
    assert followed.schemas.after([ddl(1000)]) == NEW
    assert history.asked == [1000]


def test_the_tables_after_a_ddl_are_those_of_its_commit_ts_whatever_followed() -> None:
    history = History({0: OLD, 1100: NEW, 1200: tables(table(U, 2))})
    followed = Followed(history)
    followed.schemas.begin()
    assert followed.schemas.after([ddl(1100)]) == NEW == followed.schemas.tables
    assert followed.schemas.after([ddl(1200, query="DROP TABLE t")]) == tables(table(U, 2))
    assert history.asked == [1000, 1100, 1200]
    assert followed.narrowed[-1] == tables(table(U, 2)), "the scope follows"


def test_an_answer_that_shows_the_ddl_need_not_wait_for_other_servers_and_one_that_does_not_is_none() -> None:
    history = History({0: OLD, 1100: NEW, 1200: NEW, 1300: tables(table(U, 2))}, behind=(1050, 1100))
    followed = Followed(history)
    followed.schemas.begin()
    assert history.shown == 0, "nothing tells which DDLs are contained where a log begins"
    history.behind = (1050, 1050)
    followed.schemas.after([ddl(1100)])
    assert history.shown == 0, "the tables before the DDL are no answer"
    history.behind = (1100, 1200)
    followed.schemas.after([ddl(1200, query="ALTER TABLE t ADD INDEX …")])
    assert history.shown == 0, "nothing can be seen of it, whoever has loaded it"
    history.behind = (1200, 1300)
    assert T not in followed.schemas.after([ddl(1300, query="DROP TABLE t")])
    assert history.shown == 1


def test_ddls_of_one_moment_are_queried_once() -> None:
    history = History({0: OLD, 1100: NEW})
    followed = Followed(history)
    followed.schemas.begin()
    followed.schemas.after([ddl(1100), ddl(1100, U)])
    followed.schemas.after([ddl(1100)])
    assert history.asked == [1000, 1100]


def test_a_table_amid_a_ddl_of_its_own_keeps_what_the_feed_still_carries() -> None:
    """SQL hides a column that is being dropped before the feed brings the DDL."""
    before = tables(table(T, 1), table(U, 2, GONE))
    history = History({0: before, 1100: tables(table(T, 1, NOTE), table(U, 2)), 1200: tables(table(T, 1, NOTE), table(U, 2))})
    followed = Followed(history)
    followed.schemas.begin()
    assert followed.schemas.after([ddl(1100)]) == tables(table(T, 1, NOTE), table(U, 2, GONE))
    assert followed.schemas.after([ddl(1200, U)])[U] == table(U, 2)


def test_of_an_exchange_both_tables_are_seen_though_the_ddl_names_one() -> None:
    parts, other = table(T, 1, physical=(11, 12)), table(U, 2)
    exchanged = replace(parts, physical_ids=(2, 12)), replace(other, table_id=11, physical_ids=(11,))
    followed = Followed(History({0: tables(parts, other), 1100: tables(*exchanged)}))
    before = followed.schemas.begin()
    after = followed.schemas.after([ddl(1100, T, "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u")])
    assert steps(before, after, named={T}) == (TableStep(T, T, SchemaFate.AGAIN), TableStep(U, U, SchemaFate.AGAIN))


def test_a_table_that_is_renamed_out_of_the_rules_is_gone_and_within_them_it_is_the_same() -> None:
    renamed = tables(replace(table(T, 1), name=U))
    for carried, expected in (((T,), TableStep(T, None, SchemaFate.GONE)), ((T, U), TableStep(T, U, SchemaFate.KEPT))):
        followed = Followed(History({0: tables(table(T, 1)), 1100: renamed}), carried=carried)
        before = followed.schemas.begin()
        assert steps(before, followed.schemas.after([ddl(1100)]), named={T}) == (expected,)


def test_a_ddl_of_a_view_changes_no_table() -> None:
    """Not even one that is amid a DDL of its own."""
    history = History({0: tables(table(U, 2, GONE)), 1100: tables(table(U, 2))})
    followed = Followed(history)
    before = followed.schemas.begin()
    assert followed.schemas.after([ddl(1100, TableName("shop", "view"), "CREATE VIEW …")]) == before


# ---- where the log ends ---------------------------------------------------------------------------------------------


def test_the_logs_tables_hold_where_it_ends() -> None:
    history = History({0: OLD, 900: NEW})
    followed = Followed(history)
    assert followed.schemas.resume(OLD, upto_ts=CommitTs(800)) == OLD
    assert followed.notes == []
    assert followed.schemas.after([ddl(900)]) == NEW


def test_columns_that_sql_hides_amid_a_ddl_are_the_logs() -> None:
    dropping = tables(table(T, 1, GONE), table(U, 2))
    history = History({0: OLD}, amid=frozenset({1}))
    assert Followed(history).schemas.resume(dropping, upto_ts=CommitTs(800)) == dropping


def test_what_the_log_got_from_a_server_that_was_behind_is_mended_where_it_continues() -> None:
    """The log has the tables before the DDL that it ends with, and no DDL runs any more."""
    followed = Followed(History({0: OLD, 700: NEW}))
    assert followed.schemas.resume(OLD, upto_ts=CommitTs(800)) == NEW
    assert "shop.t" in followed.notes[0]


def test_a_table_that_came_into_the_rules_is_there_and_is_reported() -> None:
    followed = Followed(History({0: OLD}))
    assert followed.schemas.resume(tables(table(T, 1)), upto_ts=CommitTs(800)) == OLD
    assert len(followed.notes) == 1
    assert "shop.u" in followed.notes[0]
    assert "shop.t" not in followed.notes[0]


def test_a_log_without_ids_gets_them_and_that_is_no_event() -> None:
    followed = Followed(History({0: OLD}))
    without = {name: replace(one, table_id=0, physical_ids=()) for name, one in OLD.items()}
    assert followed.schemas.resume(without, upto_ts=CommitTs(800)) == OLD
    assert followed.notes == []


def test_a_table_that_was_made_after_the_logs_end_waits_for_its_ddl() -> None:
    followed = Followed(History({0: tables(table(T, 1)), 900: OLD}))
    assert followed.schemas.resume(tables(table(T, 1)), upto_ts=CommitTs(800)) == tables(table(T, 1))
    assert followed.schemas.after([ddl(900, U, "CREATE TABLE u …")]) == OLD


def defined(schema: TableSchema, *indexes: str) -> TableSchema:
    """As TiDB tells it: with what it was made of."""
    columns = tuple(ColumnDefinition(column.name, "text") for column in schema.columns)
    return replace(schema, definition=TableDefinition(columns, tuple(IndexDefinition(name, ()) for name in indexes)))


def test_a_log_without_definitions_gets_them_and_that_is_no_event() -> None:
    """Of 0.3.0 and before."""
    history = History({0: tables(defined(table(T, 10)), defined(table(U, 20, NOTE)))})
    followed = Followed(history)
    taken = followed.schemas.resume(tables(table(T, 10), table(U, 20, NOTE, GONE)), upto_ts=CommitTs(700))
    assert taken[T] == defined(table(T, 10))
    assert taken[U] == defined(table(U, 20, NOTE)), "told by a server that was behind: SQL has other columns, and no DDL says why"
    assert len(followed.notes) == 1
    assert "1 tables are not what they were" in followed.notes[0]


def test_a_definition_that_does_not_fit_the_logs_columns_waits() -> None:
    """Amid a DDL, SQL hides a column that the feed still carries."""
    history = History({0: tables(defined(table(T, 10)))}, amid=frozenset({10}))
    followed = Followed(history)
    assert followed.schemas.resume(tables(table(T, 10, GONE)), upto_ts=CommitTs(700))[T] == table(T, 10, GONE)
    assert followed.notes == []


def test_an_index_that_is_added_is_reported_after_its_ddl_and_other_tables_stay() -> None:
    before, after = (defined(table(T, 10)), defined(table(U, 20))), (defined(table(T, 10), "i"), defined(table(U, 20), "coming"))
    followed = Followed(History({0: tables(*before), 500: tables(*after)}, now=400))
    started = followed.schemas.begin()
    taken = followed.schemas.after([ddl(500, T, "ALTER TABLE t ADD INDEX i (id)")])
    assert taken == tables(after[0], before[1]), "what no DDL has named yet is as the log has it"
    assert taken != started, "so the log writes a schemas file"
    assert steps(started, taken, named={T}) == (TableStep(T, T, SchemaFate.KEPT),)


def test_an_answer_with_another_definition_alone_does_not_show_a_ddl() -> None:
    """A server that has not loaded it may tell for the first time what the table was made of."""
    history = History({0: tables(defined(table(T, 10))), 500: tables(defined(table(T, 10), "i"))}, now=1000, behind=(499,))
    followed = Followed(history)
    followed.schemas.resume(tables(table(T, 10)), upto_ts=CommitTs(300))
    followed.schemas.after([ddl(500, T, "ALTER TABLE t ADD INDEX i (id)")])
    assert history.shown == 0


def test_a_definition_that_came_to_be_known_is_no_step_of_a_table() -> None:
    assert steps(tables(table(T, 10)), tables(defined(table(T, 10))), named=()) == ()


def test_a_log_that_ends_before_what_is_garbage_collected_goes_on_with_its_own_tables() -> None:
    history = History({0: OLD, 900: NEW}, collected_below=850)
    followed = Followed(history)
    assert followed.schemas.resume(OLD, upto_ts=CommitTs(800)) == OLD
    assert followed.schemas.after([ddl(900)]) == NEW
    history.collected_below = 990
    with pytest.raises(SourceError, match="garbage-collected"):
        followed.schemas.after([ddl(950)])


CALLS: Mapping[str, Callable[[FollowedSchemas], object]] = {
    "begin": lambda schemas: schemas.begin(),
    "resume": lambda schemas: schemas.resume(OLD, upto_ts=CommitTs(800)),
    "after": lambda schemas: schemas.after([ddl(1100)]),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_outage_is_one_that_a_retry_can_help(call: str) -> None:
    history = History({0: OLD})
    followed = Followed(history)
    if call == "after":
        followed.schemas.begin()
    history.fails = SourceLost("no answer", hint="wait")
    with pytest.raises(SourceLost):
        CALLS[call](followed.schemas)


def test_after_an_outage_the_ddl_is_queried_again() -> None:
    history = History({0: OLD, 1100: NEW})
    followed = Followed(history)
    followed.schemas.begin()
    history.fails = SourceLost("no answer", hint="wait")
    with pytest.raises(SourceLost):
        followed.schemas.after([ddl(1100)])
    history.fails = None
    assert followed.schemas.after([ddl(1100)]) == NEW


# ---- a source that keeps no time ------------------------------------------------------------------------------------


def test_a_server_that_is_no_tidb_stops_at_a_ddl_and_not_at_that_of_the_watermark_table() -> None:
    followed = Followed(History({0: OLD}, keeps_time=False))
    assert followed.schemas.begin() == OLD
    watermark = TableName("changefeed_dump", "changefeed_dump_event")
    assert followed.schemas.after([ddl(1100, watermark, "CREATE TABLE …")]) == OLD
    with pytest.raises(UnsupportedDdl, match=r"no TiDB.*"):
        followed.schemas.after([ddl(1200)])


def test_a_log_on_such_a_server_keeps_its_tables() -> None:
    followed = Followed(History({0: NEW}, keeps_time=False))
    assert followed.schemas.resume(tables(table(T, 1)), upto_ts=CommitTs(800)) == OLD


# ---- in the pipeline ------------------------------------------------------------------------------------------------


def test_the_log_names_the_tables_after_each_ddl_and_a_new_owner_goes_on_with_them() -> None:
    stage = Stage()
    grown = {TABLE: replace(SCHEMAS[TABLE], columns=(*SCHEMAS[TABLE].columns, NOTE), table_id=7, physical_ids=(7,))}
    history = History({0: {TABLE: replace(SCHEMAS[TABLE], table_id=7, physical_ids=(7,))}, 20: grown}, now=5)
    stage.schemas = Followed(history, carried=(TABLE,)).schemas
    pipeline = stage.attach()
    stage.feed.say(put(10, "x"), ddl(20, TABLE)._replace(lane=Lane("a")), put(25, "y"), resolved(30))
    pipeline.step(poll_s=0)
    _, before, after = stage.manifests()
    log = MemoryLog(stage.disk)
    assert before.next_schemas == after.schemas
    assert log.read_schemas(before.schemas) == history.at[0]
    assert log.read_schemas(after.schemas) == grown == pipeline.tables
    stage.schemas = Followed(history, carried=(TABLE,)).schemas
    assert stage.attach(epoch=2).tables == grown


def test_a_ddl_that_names_its_table_in_another_case_changes_its_columns() -> None:
    """Finding 3: the ALTER after a RENAME, of a TiCDC that still has the schema in lower case."""
    own = TableName("Shop", "t")
    history = History({0: tables(table(own, 1)), 2000: tables(table(own, 1, NOTE))}, now=1000)
    followed = Followed(history, carried=(own,))
    followed.schemas.begin()
    after = followed.schemas.after([ddl(2000, TableName("shop", "t"))])
    assert after[own].columns == (ID, NOTE)
    (step,) = steps(tables(table(own, 1)), tables(table(own, 1)), named={TableName("shop", "T")})
    assert (step.after, step.fate) == (own, SchemaFate.KEPT)


def test_a_table_that_comes_back_without_a_ddl_stops_by_name() -> None:
    """Finding 14j: FLASHBACK DATABASE sends nothing, and TiCDC nothing of its tables ever after."""
    back = table(U, 2)
    history = History({0: tables(table(T, 1)), 2000: tables(table(T, 1, NOTE), back)}, now=1000)
    followed = Followed(history)
    followed.schemas.begin()
    with pytest.raises(FeedUnsuitable, match=r"(?s)there at commit_ts 2000: shop\.u; .*FLASHBACK DATABASE.*re-create the changefeed"):
        followed.schemas.after([ddl(2000)])


def test_who_takes_over_after_that_stop_warns_of_it() -> None:
    """A standby does so at once; for all that it can know the changefeed's rules may have let the table in."""
    heir = Followed(History({0: tables(table(T, 1)), 1500: OLD, 2000: NEW}))
    assert heir.schemas.resume(tables(table(T, 1)), upto_ts=CommitTs(1999)) == OLD
    (note,) = heir.notes
    assert "shop.u" in note
    assert "FLASHBACK DATABASE" in note
    changed = Followed(History({0: OLD, 700: NEW}))
    changed.schemas.resume(OLD, upto_ts=CommitTs(800))
    assert "FLASHBACK" not in changed.notes[0]


@pytest.mark.parametrize(
    ("came", "ddl"),
    [
        (table(U, 2), ddl(2000, TableName("SHOP", "U"), "CREATE TABLE u …")),
        (replace(table(U, 2), key=()), ddl(2000)),
        (table(U, 1), ddl(2000)),
    ],
    ids=["told in another case", "without a key", "renamed"],
)
def test_a_table_that_a_ddl_names_or_that_ticdc_does_not_report_is_followed(came: TableSchema, ddl: Ddl) -> None:
    followed = Followed(History({0: tables(table(T, 1)), 2000: tables(came)}, now=1000))
    followed.schemas.begin()
    assert followed.schemas.after([ddl]) == tables(came)
