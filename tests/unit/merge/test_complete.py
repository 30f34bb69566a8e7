"""Which tables a sink has whole: every fate of a table, and every kind of dump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from random import Random

import pytest

from sidecar.core.dump_start import DumpLimits
from sidecar.core.dumps import Dumps
from sidecar.shared.log.filled import word_of
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.hole import Hole, HoleCause, OpenHole
from sidecar.shared.model.messages import Brackets, ChunkRead, ReadChunk, SegmentBuilt, StartDump
from sidecar.shared.model.nouns import Column, CommitTs, Seq, TableName, TableSchema
from sidecar.shared.model.progress import DumpState, Progress, TableProgress
from sidecar.shared.model.schema_step import steps
from sidecar.shared.model.sink_delivery import SinkTables
from spark_merge.delivery.complete import filled, followed, received

A, B, C = (TableName("shop", name) for name in "abc")
SINCE = CommitTs(150)
BEGAN = SinkTables("lake", "file:///out", Seq(3), CommitTs(300), Seq(4), CommitTs(500))
HAS_A = replace(BEGAN, complete={A: SINCE})


def schema(name: TableName, table_id: int, *physical_ids: int, key: tuple[str, ...] = ("id",)) -> TableSchema:
    return TableSchema(name, (Column("id", "int"), Column("v", "int")), key, table_id=table_id, physical_ids=physical_ids or (table_id,))


def segment(
    *, progress: Progress | None = None, query: str = "", of: TableName = A, tables: tuple[dict[TableName, TableSchema], ...] = ({}, {})
) -> tuple[Manifest, Mapping[str, Mapping[TableName, TableSchema]]]:
    """Segment 5, `(500, 600]`, which `query` ends if given; and the schemas files."""
    ddls = (DdlRecord(CommitTs(600), *of, query),) if query else ()
    after = "after" if tables[0] != tables[1] else None
    manifest = Manifest(
        Seq(5), 1, CommitTs(500), CommitTs(600), None, 0, 0, {}, "before", "canal-json", ddls, next_schemas=after,
        progress=progress.to_json() if progress else None,
    )  # fmt: skip
    return manifest, {"before": tables[0], "after": tables[1]}


def dump(table: TableProgress, *, state: DumpState = DumpState.RUNNING, sinks: tuple[str, ...] = ()) -> Progress:
    return Progress("1" * 16, state, Brackets.WATERMARK, 10, 1, 1, Seq(5), (table,), sinks=sinks)


DONE = TableProgress(A, spans=(), complete_at=CommitTs(550), since_seq=Seq(3))


def after_dump(progress: Progress, tables: SinkTables = BEGAN) -> Mapping[TableName, CommitTs]:
    manifest, schemas = segment(progress=progress)
    return followed(tables, received(manifest, "lake"), schemas.__getitem__).complete


def after_ddl(query: str, before: list[TableSchema], after: list[TableSchema], of: TableName = A, has: SinkTables = HAS_A) -> object:
    tables = tuple({one.name: one for one in each} for each in (before, after))
    manifest, schemas = segment(query=query, of=of, tables=tables)
    return followed(has, received(manifest, "lake"), schemas.__getitem__).complete


# ---- dumps ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", DumpState)
def test_a_table_that_a_dump_is_done_with_is_complete_whatever_becomes_of_the_dump(state: DumpState) -> None:
    assert after_dump(dump(DONE, state=state)) == {A: 550}


def test_a_pass_that_began_before_the_sink_did_completes_nothing() -> None:
    """Its first chunks are in segments that the sink never receives."""
    assert after_dump(dump(replace(DONE, since_seq=Seq(2)))) == {}
    assert after_dump(dump(replace(DONE, since_seq=Seq(3)))) == {A: 550}


@pytest.mark.parametrize("part", [replace(DONE, whole=False), replace(DONE, complete_at=None), replace(DONE, complete_at=CommitTs(500))])
def test_some_rows_a_table_that_is_not_done_and_one_that_was_done_before_complete_nothing(part: TableProgress) -> None:
    assert after_dump(dump(part)) == {}


def test_a_sink_receives_only_the_dumps_that_are_for_it() -> None:
    others, ours = dump(DONE, sinks=("other",)), replace(dump(replace(DONE, table=B), sinks=("lake",)), dump_id="2" * 16)
    manifest, schemas = segment(progress=others)
    manifest = replace(manifest, more_dumps=(ours.to_json(),))
    assert followed(BEGAN, received(manifest, "lake"), schemas.__getitem__).complete == {B: 550}
    assert [one["dump_id"] for one in received(manifest, "lake").dumps] == ["2" * 16]
    assert received(manifest, "third").dumps == ()
    both = replace(manifest, progress=replace(others, sinks=()).to_json())
    assert received(both, "lake") is both
    assert followed(BEGAN, both, schemas.__getitem__).complete == {A: 550, B: 550}


def test_a_dump_for_other_sinks_completes_nothing() -> None:
    assert after_dump(dump(DONE, sinks=("other",))) == {}
    assert after_dump(dump(DONE, sinks=("other", "lake"))) == {A: 550}


def test_a_table_that_was_complete_stays_so_from_the_earlier_moment_on() -> None:
    assert after_dump(dump(DONE), HAS_A) == {A: SINCE}


def test_the_segment_is_counted_in() -> None:
    manifest, schemas = segment()
    tables = followed(HAS_A, manifest, schemas.__getitem__)
    assert (tables.seq, tables.upto_ts, tables.complete, tables.began_seq) == (5, 600, {A: SINCE}, 3)


# ---- holes ----------------------------------------------------------------------------------------------------------

IMPORTED = Hole(HoleCause.IMPORT, CommitTs(560), (A,), False, "IMPORT INTO a")
OPEN_A = OpenHole(HoleCause.IMPORT, CommitTs(450), Seq(4), False, "IMPORT INTO a", SINCE, table_id=1)
LACKS_A = replace(BEGAN, holes={A: OPEN_A})


def after_hole(hole: Hole, has: SinkTables = HAS_A, progress: Progress | None = None) -> SinkTables:
    manifest, schemas = segment(progress=progress, tables=({name: schema(name, id_) for id_, name in enumerate((A, B, C), 1)},) * 2)
    return followed(has, replace(manifest, holes=(hole,)), schemas.__getitem__)


def test_a_table_with_a_hole_is_not_complete() -> None:
    tables = after_hole(IMPORTED)
    assert tables.complete == {}
    assert tables.holes == {A: OpenHole(HoleCause.IMPORT, CommitTs(560), Seq(5), False, "IMPORT INTO a", SINCE, table_id=1)}


def test_a_hole_of_every_table_is_one_of_each_that_has_rows_in_the_log() -> None:
    tables = after_hole(replace(IMPORTED, tables=None))
    assert (tables.complete, set(tables.holes)) == ({}, {A, B, C})


def test_a_dump_that_was_done_in_the_segment_of_the_hole_does_not_fill_it() -> None:
    tables = after_hole(IMPORTED, BEGAN, dump(DONE))
    assert (tables.complete, tables.holes[A].complete) == ({}, 550)


@pytest.mark.parametrize(("since_seq", "fills"), [(3, False), (4, False), (5, True)])
def test_a_pass_that_began_in_a_later_segment_fills_it(since_seq: int, fills: bool) -> None:
    manifest, schemas = segment(progress=dump(replace(DONE, since_seq=Seq(since_seq))))
    tables = followed(LACKS_A, manifest, schemas.__getitem__)
    assert (tables.complete, tables.holes) == (({A: 550}, {}) if fills else ({}, {A: OPEN_A}))


def test_a_dump_of_a_part_fills_nothing_and_one_fills_nothing_where_rows_vanished() -> None:
    for part, hole in ((replace(DONE, whole=False), OPEN_A), (DONE, replace(OPEN_A, vanished=True))):
        manifest, schemas = segment(progress=dump(replace(part, since_seq=Seq(5))))
        tables = followed(replace(BEGAN, holes={A: hole}), manifest, schemas.__getitem__)
        assert (tables.complete, tables.holes) == ({}, {A: hole})


def test_a_word_ends_the_holes_that_were_noticed_up_to_its_segment() -> None:
    vanished = replace(LACKS_A, holes={A: replace(OPEN_A, vanished=True)})
    word = word_of(vanished, A, upto_seq=Seq(4), by="alice", reason="by hand", at_ms=1)
    others = (replace(word, upto_seq=Seq(3)), replace(word, table_id=2, upto_seq=Seq(9)), replace(word, sink="other"))
    assert filled(vanished, (*others, replace(word, generation=1))) is vanished
    told = filled(vanished, (word,))
    assert (told.complete, told.holes) == ({A: SINCE}, {})
    never = filled(replace(BEGAN, holes={A: replace(OPEN_A, complete=None)}), (word,))
    assert (never.complete, never.holes) == ({}, {})


@pytest.mark.parametrize(("hole", "since_seq"), [(OPEN_A, 3), (replace(OPEN_A, vanished=True), 5)])
def test_a_dump_that_ends_with_a_rename_fills_what_it_would_without_it(hole: OpenHole, since_seq: int) -> None:
    """Records have the names after the segment's DDL, and holes those before."""
    done = replace(dump(replace(DONE, table=B, since_seq=Seq(since_seq))), seq=Seq(5))
    manifest, schemas = segment(progress=done, query="RENAME TABLE a TO b", tables=({A: schema(A, 1)}, {B: schema(B, 1)}))
    chunk = ChunkFile(A, "chunks/x.parquet", 1, 1, None, None, since_seq=Seq(since_seq))
    window = ClosedWindow("1" * 16, CommitTs(510), CommitTs(550), Seq(5), (chunk,))
    manifest = replace(manifest, windows=(window,))
    kept = followed(replace(BEGAN, holes={A: hole}), manifest, schemas.__getitem__)
    assert (kept.complete, kept.holes) == ({}, {B: hole})
    unrelated = followed(replace(BEGAN, holes={B: hole}), manifest, schemas.__getitem__)
    assert B in unrelated.complete, "the hole was another table's of that name"
    filled_ = followed(replace(BEGAN, holes={A: replace(OPEN_A, seq=Seq(2))}), manifest, schemas.__getitem__)
    assert (filled_.complete, filled_.holes) == ({B: 550}, {})


def test_a_hole_follows_its_table_and_ends_with_its_rows() -> None:
    def after(query: str, before: list[TableSchema], now: list[TableSchema]) -> Mapping[TableName, OpenHole]:
        tables = tuple({one.name: one for one in each} for each in (before, now))
        manifest, schemas = segment(query=query, tables=tables)
        return followed(LACKS_A, manifest, schemas.__getitem__).holes

    assert after("RENAME TABLE a TO b", [schema(A, 1)], [schema(B, 1)]) == {B: OPEN_A}
    assert after("DROP TABLE a", [schema(A, 1)], []) == {}
    assert after("TRUNCATE TABLE a", [schema(A, 1)], [schema(A, 2)]) == {}
    assert after("ALTER TABLE b ADD x INT", [schema(A, 1), schema(B, 2)], [schema(A, 1), schema(B, 2)]) == {A: OPEN_A}
    again = after("ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b", [schema(A, 1, 5)], [schema(A, 1, 6)])
    assert again == {A: replace(OPEN_A, seq=Seq(5))}, "from the first of them on, until a pass after the last"


# ---- DDLs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["CREATE TABLE a (id INT PRIMARY KEY)", "create /* c */ table if not exists shop.a like b"])
def test_a_table_that_is_created_is_complete(query: str) -> None:
    assert after_ddl(query, [], [schema(A, 1)], has=BEGAN) == {A: 600}


@pytest.mark.parametrize(
    "query", ["RENAME TABLE other.x TO shop.a", "RECOVER TABLE a", "FLASHBACK TABLE a", "ALTER TABLE a ADD PRIMARY KEY (id)", ""]
)
def test_a_table_that_arrives_with_rows_is_not_complete(query: str) -> None:
    """An empty statement: the changefeed hides it."""
    assert after_ddl(query, [], [schema(A, 1)], has=BEGAN) == {}


@pytest.mark.parametrize(
    ("query", "of", "vanished"),
    [
        ("CREATE TABLE c (id INT PRIMARY KEY)", C, True),
        ("ALTER TABLE c EXCHANGE PARTITION p0 WITH TABLE d", C, True),
        ("ALTER TABLE c EXCHANGE PARTITION p0 WITH TABLE A", C, False),
        ("ALTER TABLE a EXCHANGE PARTITION p0 WITH TABLE other.x", A, False),
        ("", A, False),
    ],
)
@pytest.mark.parametrize("open_already", [False, True])
def test_where_no_ddl_is_of_a_table_with_other_rows_they_vanished(query: str, of: TableName, *, vanished: bool, open_already: bool) -> None:
    """An exchange with a table outside the changefeed: the next DDL of any table shows it, and no sink carries it out."""
    has = LACKS_A if open_already else HAS_A
    manifest, schemas = segment(query=query, of=of, tables=({A: schema(A, 1, 11, 12)}, {A: schema(A, 1, 2, 12), C: schema(C, 3)}))
    hole = followed(has, manifest, schemas.__getitem__).holes[A]
    assert (hole.vanished, hole.seq, hole.since_ts) == (vanished, 5, OPEN_A.since_ts if open_already else 600)


@pytest.mark.parametrize("query", ["RECOVER TABLE a", "RENAME TABLE other.x TO shop.a"])
def test_a_claim_that_is_left_of_an_earlier_table_of_the_name_says_nothing(query: str) -> None:
    """As 0.4 left one where a dump finished in the segment that a DROP ends."""
    assert after_ddl(query, [], [schema(A, 1)]) == {}


def test_nor_does_it_of_a_table_that_gets_the_name() -> None:
    assert after_ddl("RENAME TABLE b TO a", [schema(B, 2)], [schema(A, 2)]) == {}


def test_a_create_of_another_table_says_nothing() -> None:
    assert after_ddl("CREATE TABLE b (id INT)", [], [schema(A, 1), schema(B, 2)], of=B, has=BEGAN) == {B: 600}


def test_a_dropped_table_is_gone_and_is_complete_when_it_is_created_again() -> None:
    assert after_ddl("DROP TABLE a", [schema(A, 1)], []) == {}
    assert after_ddl("CREATE TABLE a (id INT)", [], [schema(A, 2)], has=BEGAN) == {A: 600}


@pytest.mark.parametrize("has", [BEGAN, HAS_A])
def test_a_truncated_table_is_complete(has: SinkTables) -> None:
    assert after_ddl("TRUNCATE TABLE a", [schema(A, 1)], [schema(A, 2)], has=has) == {A: 600}


def test_a_table_that_is_renamed_keeps_what_it_was_also_where_names_are_swapped() -> None:
    before, after = [schema(A, 1), schema(B, 2)], [schema(C, 1), schema(A, 2)]
    assert after_ddl("RENAME TABLE a TO c, b TO a", before, after) == {C: SINCE}
    assert after_ddl("RENAME TABLE a TO c, b TO a", before, after, has=replace(HAS_A, complete={B: SINCE})) == {A: SINCE}


@pytest.mark.parametrize("query", ["ALTER TABLE a ADD COLUMN w INT", "ALTER TABLE a ADD PARTITION (PARTITION p2 VALUES LESS THAN (9))"])
def test_columns_and_more_partitions_leave_a_table_as_it_was(query: str) -> None:
    assert after_ddl(query, [schema(A, 1, 11)], [replace(schema(A, 1, 11, 12), columns=(Column("id", "int"),))]) == {A: SINCE}


@pytest.mark.parametrize(
    ("query", "now"),
    [
        ("ALTER TABLE a EXCHANGE PARTITION p0 WITH TABLE b", schema(A, 1, 2, 12)),
        ("ALTER TABLE a TRUNCATE PARTITION p0", schema(A, 1, 13, 12)),
        ("ALTER TABLE a PARTITION BY HASH (id)", schema(A, 3, 14, 15)),
        ("ALTER TABLE a DROP PRIMARY KEY, ADD PRIMARY KEY (v)", schema(A, 1, 11, 12, key=("v",))),
    ],
)
def test_rows_that_no_change_brings_take_completeness_away_until_a_dump_has_read_them(query: str, now: TableSchema) -> None:
    assert after_ddl(query, [schema(A, 1, 11, 12)], [now]) == {}
    assert after_dump(dump(DONE), BEGAN) == {A: 550}


def test_a_statement_that_is_not_known_empties_nothing() -> None:
    assert after_ddl("CREATE SOMETHING a", [], [schema(A, 1)], has=BEGAN) == {}


# ---- what a sink receives -------------------------------------------------------------------------------------------


def test_a_sink_receives_neither_windows_nor_progress_of_a_dump_for_others() -> None:
    for_all, for_other = (ClosedWindow("1" * 16, CommitTs(500), CommitTs(600), Seq(5), (), sinks) for sinks in ((), ("other",)))
    manifest = replace(segment(progress=dump(DONE, sinks=("other",)))[0], windows=(for_all, for_other))
    assert received(manifest, "other") is manifest
    assert received(manifest, "lake") == replace(manifest, windows=(for_all,), progress=None)


# ---- dumps and DDLs, by the ids of tables ----------------------------------------------------------------------------


class Lives:
    """Tables that are dumped by real dumps, and changed by DDLs; `claims`: from where on each table has all rows, by its ids, slow and
    obvious: a table has one chunk, which completes it at its high_ts; rows that come with other ids complete nothing."""

    def __init__(self, seed: int, *, ends_first: bool) -> None:
        """`ends_first`: a dump finishes before the DDL of the segment, as up to 0.4."""
        self.random, self.ends_first, self.ids, self.seq = Random(seed), ends_first, count(1), 5
        self.tables = {name: schema(name, next(self.ids), next(self.ids)) for name in (A, B, C)}
        self.dropped: list[TableSchema] = []
        self.claims: dict[tuple[int, ...], CommitTs] = {}
        self.dumps = self.new_dumps()
        self.dump_ids = (f"{number:016d}" for number in count(1))

    def new_dumps(self) -> Dumps:
        return Dumps(changefeed_id="cf", epoch=1, limits=DumpLimits(readers=3), after_ts=CommitTs(500), next_seq=Seq(5))

    def step(self) -> tuple[Manifest, dict[str, dict[TableName, TableSchema]]]:
        """The next segment, with its schemas files."""
        after_ts, upto_ts = CommitTs(100 * self.seq), CommitTs(100 * (self.seq + 1))
        if (last := self.dumps.progress) is None or (last.state is DumpState.FINISHED and self.random.random() < 0.5):
            names = self.random.sample(sorted(self.tables), self.random.randint(1, len(self.tables))) if self.tables else []
            if names:
                self.dumps.request(StartDump(next(self.dump_ids), tuple(names), Brackets.SNAPSHOT, 10))
        for number, command in enumerate(self.dumps.next()):
            assert isinstance(command, ReadChunk)
            read = CommitTs(after_ts + 1 + number)
            file = ChunkFile(command.table, f"{self.seq}-{number}", 1, 1, None, ("1",), read)
            self.dumps.handle(ChunkRead(command.number, file, exhausted=True))
        before, (query, of, after) = self.tables, self.random_ddl()
        ddl = bool(query)
        windows = self.dumps.segment(SegmentBuilt(Seq(self.seq), after_ts, upto_ts, ddl and not self.ends_first), [])
        claimed = {ids(before[chunk.table]): window.high_ts for window in windows for chunk in window.chunks}
        self.claims = claimed | self.claims
        if ddl:
            self.dumps.changed(steps(before, after, named={of}))
            self.pass_ddl(query, before, after, upto_ts)
        self.tables = after
        record = self.dumps.progress
        manifest = Manifest(
            Seq(self.seq), 1, after_ts, upto_ts, None, 0, 0, {}, "before", "canal-json",
            (DdlRecord(upto_ts, *of, query),) if ddl else (), windows, next_schemas="after" if before != after else None,
            progress=record.to_json() if record else None,
        )  # fmt: skip
        self.seq += 1
        return manifest, {"before": before, "after": after}

    def random_ddl(self) -> tuple[str, TableName, dict[TableName, TableSchema]]:
        """Its text, the table that it names, and the tables after it."""
        names, after, at = sorted(self.tables), dict(self.tables), self.random.random()
        free = [name for name in (A, B, C, TableName("shop", "d")) if name not in after]
        name = self.random.choice(names) if names else A
        table = after.get(name)
        if at < 0.3 or table is None:
            if not free or at < 0.2:
                return "", A, after
            name = self.random.choice(free)
            after[name] = schema(name, next(self.ids), next(self.ids))
            return f"CREATE TABLE {name.table} (id INT PRIMARY KEY)", name, after
        if at < 0.45:
            self.dropped.append(after.pop(name))
            return f"DROP TABLE {name.table}", name, after
        if at < 0.6:
            after[name] = replace(table, physical_ids=(next(self.ids),))
            return f"ALTER TABLE {name.table} EXCHANGE PARTITION p0 WITH TABLE other.x", name, after
        if at < 0.7:
            after[name] = schema(name, next(self.ids), next(self.ids))
            return f"TRUNCATE TABLE {name.table}", name, after
        if at < 0.8 and self.dropped and self.dropped[-1].name in free:
            back = self.dropped.pop()
            after[back.name] = back
            return f"RECOVER TABLE {back.name.table}", back.name, after
        if at < 0.9 and len(names) > 1:
            other = self.random.choice([one for one in names if one != name])
            after[name], after[other] = replace(after[other], name=name), replace(table, name=other)
            return f"RENAME TABLE {name.table} TO x, {other.table} TO {name.table}, x TO {other.table}", name, after
        if not free:
            return "", A, after
        to = self.random.choice(free)
        after[to] = replace(after.pop(name), name=to)
        return f"RENAME TABLE {name.table} TO {to.table}", name, after

    def pass_ddl(self, query: str, before: dict[TableName, TableSchema], after: dict[TableName, TableSchema], upto_ts: CommitTs) -> None:
        there, now = {ids(table) for table in before.values()}, {ids(table) for table in after.values()}
        for gone in there - now:
            self.claims.pop(gone, None)
        if query.startswith(("CREATE", "TRUNCATE")):
            self.claims |= dict.fromkeys(now - there, upto_ts)

    def expected(self) -> dict[TableName, CommitTs]:
        return {name: self.claims[ids(table)] for name, table in self.tables.items() if ids(table) in self.claims}


def ids(table: TableSchema) -> tuple[int, ...]:
    return (table.table_id, *table.physical_ids)


@pytest.mark.parametrize("ends_first", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_a_claim_is_of_the_rows_that_a_table_has_after_the_ddl_of_the_segment(seed: int, ends_first: bool) -> None:
    """In a log of 0.4 a claim can be missing, and is never wrong."""
    lives, has = Lives(seed, ends_first=ends_first), replace(BEGAN, seq=Seq(4))
    for _ in range(60):
        manifest, schemas = lives.step()
        has = followed(has, received(manifest, "lake"), schemas.__getitem__)
        if ends_first:
            assert has.complete.keys() <= lives.expected().keys(), f"after segment {manifest.seq}: {manifest.ddls}"
            lives.claims = {ids(table): has.complete[name] for name, table in lives.tables.items() if name in has.complete}
            continue
        assert has.complete == lives.expected(), f"after segment {manifest.seq}: {manifest.ddls}"
