"""Which tables there are after a DDL: asked of the source at its commit_ts, and of nobody where that is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from sidecar.adapters.memory.log import MemoryLog
from sidecar.adapters.tidb.follow import FollowedSchemas
from sidecar.core.model import Column, CommitTs, Ddl, Lane, Rank, TableName, TableSchema
from sidecar.core.schema_step import Fate, TableStep, steps
from sidecar.errors import SourceError, SourceLost, UnsupportedDdl
from tests.support.changes import put, resolved
from tests.unit.test_pipeline import SCHEMAS, TABLE, Stage

T, U = TableName("shop", "t"), TableName("shop", "u")
ID, NOTE, GONE = Column("id", "int", nullable=False), Column("note", "text"), Column("gone", "text")
LANE = Lane("kafka/topic/0")


def table(name: TableName, number: int, *columns: Column, physical: tuple[int, ...] = ()) -> TableSchema:
    return TableSchema(name, (ID, *columns), ("id",), number, physical or (number,))


def tables(*found: TableSchema) -> dict[TableName, TableSchema]:
    return {one.name: one for one in found}


@dataclass
class History:
    """`TablesInTime`: tables from a ts on. `keeps_time` False: as a server that is no TiDB."""

    at: dict[int, Mapping[TableName, TableSchema]]
    now: int = 1000
    keeps_time: bool = True
    collected_below: int = 0
    fails: Exception | None = None
    asked: list[int | None] = field(default_factory=list)

    def tables(self, at_ts: CommitTs | None = None) -> Mapping[TableName, TableSchema]:
        self.asked.append(at_ts)
        if self.fails is not None:
            raise self.fails
        if at_ts is not None and at_ts < self.collected_below:
            raise SourceError(f"{at_ts} is garbage-collected", hint="raise tidb_gc_life_time")
        assert self.keeps_time or at_ts is None
        return self.at[max(since for since in self.at if since <= (self.now if at_ts is None else at_ts))]

    def now_ts(self) -> CommitTs | None:
        return CommitTs(self.now) if self.keeps_time else None


class Followed:
    def __init__(self, history: History, *, ddls_hidden: bool = False, carried: tuple[TableName, ...] = (T, U)) -> None:
        self.notes: list[str] = []
        self.narrowed: list[Mapping[TableName, TableSchema]] = []
        self.carried = carried
        self.schemas = FollowedSchemas(history, narrow=self.narrow, ddls_hidden=ddls_hidden, note=self.notes.append)

    def narrow(self, found: Mapping[TableName, TableSchema]) -> Mapping[TableName, TableSchema]:
        self.narrowed.append({name: one for name, one in found.items() if name in self.carried})
        return self.narrowed[-1]


def ddl(ts: int, name: TableName = T, query: str = "ALTER TABLE t …") -> Ddl:
    return Ddl(CommitTs(ts), Rank.DDL, name.schema, name.table, query, LANE, 0)


OLD, NEW = tables(table(T, 1), table(U, 2)), tables(table(T, 1, NOTE), table(U, 2))


def test_a_new_log_begins_with_the_tables_of_a_known_moment() -> None:
    history = History({0: OLD})
    followed = Followed(history, carried=(T,))
    assert followed.schemas.begin() == tables(table(T, 1)) == followed.schemas.tables
    assert history.asked == [1000]


def test_a_ddl_older_than_that_moment_is_contained_and_nobody_is_asked() -> None:
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


def test_ddls_of_one_moment_are_asked_for_once() -> None:
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
    assert steps(before, after, named={T}) == (TableStep(T, T, Fate.AGAIN), TableStep(U, U, Fate.AGAIN))


def test_a_table_that_is_renamed_out_of_the_rules_is_gone_and_within_them_it_is_the_same() -> None:
    renamed = tables(replace(table(T, 1), name=U))
    for carried, expected in (((T,), TableStep(T, None, Fate.GONE)), ((T, U), TableStep(T, U, Fate.KEPT))):
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


def test_a_table_that_came_into_the_rules_is_there_and_is_told() -> None:
    followed = Followed(History({0: OLD}))
    assert followed.schemas.resume(tables(table(T, 1)), upto_ts=CommitTs(800)) == OLD
    assert len(followed.notes) == 1
    assert "shop.u" in followed.notes[0]
    assert "shop.t" not in followed.notes[0]


def test_a_log_without_ids_gets_them_and_that_is_no_news() -> None:
    followed = Followed(History({0: OLD}))
    without = {name: replace(one, table_id=0, physical_ids=()) for name, one in OLD.items()}
    assert followed.schemas.resume(without, upto_ts=CommitTs(800)) == OLD
    assert followed.notes == []


def test_a_table_that_was_made_after_the_logs_end_waits_for_its_ddl() -> None:
    followed = Followed(History({0: tables(table(T, 1)), 900: OLD}))
    assert followed.schemas.resume(tables(table(T, 1)), upto_ts=CommitTs(800)) == tables(table(T, 1))
    assert followed.schemas.after([ddl(900, U, "CREATE TABLE u …")]) == OLD


def test_a_log_that_ends_before_what_is_garbage_collected_goes_on_with_its_own_tables() -> None:
    history = History({0: OLD, 900: NEW}, collected_below=850)
    followed = Followed(history)
    assert followed.schemas.resume(OLD, upto_ts=CommitTs(800)) == OLD
    assert followed.schemas.after([ddl(900)]) == NEW
    history.collected_below = 990
    with pytest.raises(SourceError, match="garbage-collected"):
        followed.schemas.after([ddl(950)])


def test_where_ddls_are_filtered_the_present_tables_count_and_are_told() -> None:
    history = History({0: OLD, 900: NEW})
    followed = Followed(history, ddls_hidden=True)
    assert followed.schemas.resume(OLD, upto_ts=CommitTs(800)) == NEW
    assert "shop.t" in followed.notes[0]
    assert followed.schemas.after([ddl(900)]) == NEW
    assert history.asked == [1000]


def test_where_ddls_are_filtered_a_ddl_that_passes_brings_what_others_hid() -> None:
    followed = Followed(History({0: OLD, 1100: NEW}), ddls_hidden=True)
    followed.schemas.begin()
    assert followed.schemas.after([ddl(1100, U)]) == NEW


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


def test_after_an_outage_the_ddl_is_asked_for_again() -> None:
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
