"""What watchers saw: durable with the next segment, a hole once the log is there, and none twice or never."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.pipeline import Pipeline
from sidecar.run.sightings import WAITING_MAX, SeenHoles, note_passed
from sidecar.shared.log.parked import Parked, StoppedAt
from sidecar.shared.model.hole import TEXT_MAX, Hole, HoleCause, Sighting, TablesById, WaitingHole, opened
from sidecar.shared.model.nouns import Column, CommitTs, Lane, Seq, TableName, TableSchema

A, B = TableName("s", "a"), TableName("s", "b")
TABLES = {
    A: TableSchema(A, (Column("id", "int"),), ("id",), 10, (11, 12)),
    B: TableSchema(B, (Column("id", "int"),), ("id",), 20, (20,)),
}
NOW = CommitTs(1000)


def seen_holes() -> SeenHoles:
    return SeenHoles(lambda: NOW, lambda _: None)


def hole(since_ts: int, *tables: TableName, every: bool = False, vanished: bool = False) -> Hole:
    return Hole(HoleCause.DDL, CommitTs(since_ts), None if every else tables, vanished, f"at {since_ts}")


def test_a_hole_waits_for_the_log_in_its_manifests() -> None:
    holes = seen_holes()
    holes.put(Sighting("ddl", "7", hole(500, A)))
    waiting = (WaitingHole(hole(500, A)),)
    assert holes.due(CommitTs(499)), "a segment is written for it alone"
    assert holes.take(CommitTs(499), TABLES) == ((), waiting, {"ddl": "7"})
    assert not holes.due(CommitTs(499))
    assert holes.due(CommitTs(500))
    assert holes.take(CommitTs(500), TABLES) == ((hole(500, A),), (), {"ddl": "7"})
    assert not holes.due(CommitTs(900))


def test_what_waits_is_there_for_the_next_owner() -> None:
    first, second = seen_holes(), seen_holes()
    first.put(Sighting("leases", "", hole(500, every=True)), Sighting("leases", "none is left"))
    _, waiting, seen = first.take(CommitTs(400), TABLES)
    second.resume(seen, waiting)
    assert second.seen == {"leases": "none is left"}
    assert second.take(CommitTs(600), TABLES) == ((hole(500, every=True),), (), seen)


def test_looks_that_find_nothing_take_no_segment_and_do_not_pile_up() -> None:
    holes = seen_holes()
    for number in range(1000):
        holes.put(Sighting("ddl", str(number)))
    assert not holes.due(CommitTs(1))
    assert holes.take(CommitTs(1), TABLES) == ((), (), {"ddl": "999"})


def test_none_begins_after_the_moment_at_which_it_is_put() -> None:
    """A server's clock may be ahead."""
    holes = seen_holes()
    holes.put(Sighting("imports", "", hole(5000, A)))
    assert [one.since_ts for one in holes.take(NOW, TABLES).holes] == [NOW]


def test_tables_go_by_their_ids_whatever_they_are_called() -> None:
    by_id = TablesById(TABLES)
    for ids, names in (({10}, (A,)), ({12}, (A,)), ({20, 11}, (A, B)), ({99}, None)):
        there = by_id.hole(WaitingHole(hole(1, TableName("gone", "name")), frozenset(ids)))
        assert (None if there is None else there.tables) == names
    for named, there_ in ((TableName("S", "A"), (A,)), (TableName("x", "a"), None)):
        there = by_id.hole(WaitingHole(hole(1, named)))
        assert (None if there is None else there.tables) == there_
    assert by_id.hole(WaitingHole(hole(1, every=True))) == hole(1, every=True)


def test_a_hole_of_tables_that_the_log_does_not_have_yet_waits_for_them() -> None:
    """FLASHBACK DATABASE: the feed brings no DDL, and another one shows the tables."""
    holes = seen_holes()
    holes.put(Sighting("ddl", "7", hole(5), frozenset({30})), Sighting("ddl", "", hole(5, TableName("x", "unknown"))))
    assert holes.take(CommitTs(10), TABLES).holes == ()
    assert not holes.due(CommitTs(20))
    later = TABLES | {TableName("s", "c"): TableSchema(TableName("s", "c"), (), ("id",), 30, (30,))}
    taken = holes.take(CommitTs(20), later)
    assert [one.tables for one in taken.holes] == [(TableName("s", "c"),)]
    assert taken.waiting == (), "a name that nobody has is of nobody"


def test_nothing_of_a_text_is_carried_out_by_a_terminal() -> None:
    """Who may run a DDL writes it."""
    holes = seen_holes()
    holes.put(Sighting("ddl", "", replace(hole(5, A), text="ALTER\n TABLE \x1b[2J é")))
    assert [one.text for one in holes.take(CommitTs(5), TABLES).holes] == ["ALTER TABLE ?[2J é"]


def test_the_text_is_short_and_of_too_many_one_is_left() -> None:
    holes = seen_holes()
    holes.put(*(Sighting("ddl", "", Hole(HoleCause.RESTORE, CommitTs(9 + n % 7), (A,), n == 5, "x" * 9999)) for n in range(WAITING_MAX)))
    assert len(holes.take(CommitTs(1), TABLES).waiting) == WAITING_MAX
    holes.put(Sighting("ddl", "7", hole(800, B)))
    (one,) = holes.take(CommitTs(100), TABLES).holes
    assert (one.tables, one.since_ts, one.vanished, one.cause) == (None, 9, True, HoleCause.RESTORE)
    assert f"{WAITING_MAX:,} causes more" in one.text
    assert len(one.text) <= TEXT_MAX


finds = st.lists(st.tuples(st.sampled_from(["ddl", "import"]), st.none() | st.integers(1, 9)), max_size=12)


@given(finds, st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=6))
def test_each_hole_is_written_once_in_whatever_terms(looks: list[tuple[str, int | None]], logs: list[tuple[int, bool]]) -> None:
    holes = seen_holes()
    for number, (watcher, since) in enumerate(looks):
        holes.put(Sighting(watcher, str(number), None if since is None else Hole(HoleCause.DDL, CommitTs(since), (A,), False, str(number))))
    written: list[int] = []
    for upto, dies in (*sorted(logs), (9, False)):
        rows, waiting, seen = holes.take(CommitTs(upto), TABLES)
        written += [int(one.text) for one in rows]
        assert all(one.since_ts <= upto for one in rows)
        if dies:
            holes = seen_holes()
            holes.resume(seen, waiting)
    assert sorted(written) == [number for number, (_, since) in enumerate(looks) if since is not None]


@pytest.mark.parametrize("since_ts", [5, 13])
def test_of_several_holes_the_earliest_says_since_when_and_the_last_what_is_too_early(since_ts: int) -> None:
    """A watcher may notice what a later DDL has shown already."""
    ids = {A: 10, B: 20}
    first = opened([hole(since_ts, A)], {}, ids, Seq(3))
    then = opened([hole(9, every=True, vanished=True)], first, ids, Seq(4))
    assert {table: (one.since_ts, one.seq, one.vanished, one.text, one.table_id) for table, one in then.items()} == {
        A: (min(since_ts, 9), 4, True, f"at {since_ts}", 10),
        B: (9, 4, True, "at 9", 20),
    }


def test_a_parked_message_makes_a_hole_behind_what_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr("sidecar.run.sightings.note", lines.append)
    stopped = StoppedAt(Lane("k/0"), 7, None, b"x", "expected JSON", 1)
    pipeline = cast(Pipeline, SimpleNamespace(sequence=SimpleNamespace(after_ts=CommitTs(400)), tables=TABLES))
    for tables, names in (((A,), (A,)), (None, None)):
        holes = seen_holes()
        note_passed(pipeline, holes, Parked(stopped, tables, "alice@db1", 2))
        ((one,), _, seen) = holes.take(CommitTs(400), TABLES)
        assert (one.cause, one.since_ts, one.tables, one.vanished, seen) == (HoleCause.PARKED, 400, names, True, {})
        assert one.text == "message k/0@7, parked by alice@db1", "none of its bytes, which an error may show"
    assert "s.a may lack" in lines[0]
    assert "every table may lack" in lines[1]


def test_the_hole_of_a_parked_message_is_its_tables_whatever_it_is_called_by_then() -> None:
    """A DDL that renames it may end the segment, and give its name to another one."""
    stopped = StoppedAt(Lane("k/0"), 7, None, b"x", "expected JSON", 1)
    pipeline = cast(Pipeline, SimpleNamespace(sequence=SimpleNamespace(after_ts=CommitTs(400)), tables=TABLES))
    holes = seen_holes()
    note_passed(pipeline, holes, Parked(stopped, (A,), "alice@db1", 2))
    swapped = {A: TABLES[B], B: TABLES[A]}
    assert [one.tables for one in holes.take(CommitTs(400), swapped).holes] == [(B,)]
