"""What watchers saw: written once the log is there, in each watcher's order, and none twice or never."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.pipeline import Pipeline
from sidecar.run.sightings import SeenHoles, note_passed
from sidecar.shared.log.parked import Parked, StoppedAt
from sidecar.shared.model.hole import TEXT_MAX, Hole, HoleCause, Sighting, opened
from sidecar.shared.model.nouns import Column, CommitTs, Lane, Seq, TableName, TableSchema

A, B = TableName("s", "a"), TableName("s", "b")
TABLES = {
    A: TableSchema(A, (Column("id", "int"),), ("id",), 10, (11, 12)),
    B: TableSchema(B, (Column("id", "int"),), ("id",), 20, (20,)),
}


def hole(since_ts: int, *tables: TableName, every: bool = False, vanished: bool = False) -> Hole:
    return Hole(HoleCause.DDL, CommitTs(since_ts), None if every else tables, vanished, f"at {since_ts}")


def test_a_hole_waits_for_the_log() -> None:
    holes = SeenHoles()
    holes.put(Sighting("ddl", "7", hole(500, A)))
    assert not holes.due(CommitTs(499))
    assert holes.take(CommitTs(499), TABLES) == ((), {})
    assert holes.due(CommitTs(500))
    assert holes.take(CommitTs(500), TABLES) == ((hole(500, A),), {"ddl": "7"})
    assert not holes.due(CommitTs(900))


def test_how_far_a_watcher_has_looked_is_kept_with_what_it_saw_before() -> None:
    """Or a crash in between would pass over the hole."""
    holes = SeenHoles()
    holes.put(Sighting("ddl", "7", hole(500, A)), Sighting("ddl", "9"))
    holes.put(Sighting("other", "x"))
    assert holes.take(CommitTs(1), TABLES) == ((), {"other": "x"})
    assert holes.take(CommitTs(500), TABLES) == ((hole(500, A),), {"other": "x", "ddl": "9"})


def test_looks_that_find_nothing_do_not_pile_up() -> None:
    holes = SeenHoles()
    holes.put(*(Sighting("ddl", str(number)) for number in range(1000)))
    assert len(holes._waiting) == 1
    assert not holes.due(CommitTs(1))
    assert holes.take(CommitTs(1), TABLES)[1] == {"ddl": "999"}


def test_a_watcher_goes_on_where_the_log_says() -> None:
    holes = SeenHoles()
    holes.resume({"ddl": "7"})
    assert holes.seen == {"ddl": "7"}
    assert holes.take(CommitTs(1), TABLES) == ((), {"ddl": "7"})


def test_tables_go_by_their_ids_whatever_they_are_called() -> None:
    for ids, names in (({10}, (A,)), ({12}, (A,)), ({20, 11}, (A, B)), ({99}, None)):
        among = Sighting("ddl", "", hole(1, TableName("gone", "name")), frozenset(ids)).among(TABLES)
        assert (None if among is None else among.tables) == names
    for named, there in ((TableName("S", "A"), (A,)), (TableName("x", "a"), None)):
        among = Sighting("ddl", "", hole(1, named)).among(TABLES)
        assert (None if among is None else among.tables) == there


def test_a_hole_of_every_table_stays_one_and_its_text_is_short() -> None:
    long = Hole(HoleCause.GAP, CommitTs(1), None, False, "x" * 9999)
    among = Sighting("gap", "", long).among(TABLES)
    assert among is not None
    assert (among.tables, len(among.text)) == (None, TEXT_MAX)


finds = st.lists(st.tuples(st.sampled_from(["ddl", "import"]), st.none() | st.integers(1, 9)), max_size=12)


@given(finds, st.lists(st.integers(1, 9), max_size=6))
def test_each_find_is_written_once_in_its_watchers_order(looks: list[tuple[str, int | None]], logs: list[int]) -> None:
    holes = SeenHoles()
    for number, (watcher, since) in enumerate(looks):
        holes.put(Sighting(watcher, str(number), None if since is None else Hole(HoleCause.DDL, CommitTs(since), (A,), False, str(number))))
    written: list[int] = []
    for upto in (*sorted(logs), 9):
        rows, seen = holes.take(CommitTs(upto), TABLES)
        written += [int(one.text) for one in rows]
        waiting = {one.watcher: int(one.seen) for one in reversed(holes._waiting)}
        assert all(int(place) < waiting.get(watcher, 99) for watcher, place in seen.items())
        assert all(hole.since_ts <= upto for hole in rows)
    assert sorted(written) == [number for number, (_, since) in enumerate(looks) if since is not None]
    for watcher in ("ddl", "import"):
        mine = [number for number in written if looks[number][0] == watcher]
        assert mine == sorted(mine)


@pytest.mark.parametrize("since_ts", [5, 13])
def test_of_several_holes_the_earliest_says_since_when_and_the_last_what_is_too_early(since_ts: int) -> None:
    """A watcher may notice what a later DDL has shown already."""
    first = opened([hole(since_ts, A)], {}, TABLES, Seq(3))
    then = opened([hole(9, every=True, vanished=True)], first, TABLES, Seq(4))
    assert {table: (one.since_ts, one.seq, one.vanished, one.text) for table, one in then.items()} == {
        A: (min(since_ts, 9), 4, True, f"at {since_ts}"),
        B: (9, 4, True, "at 9"),
    }


def test_a_parked_message_makes_a_hole_behind_what_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr("sidecar.run.sightings.note", lines.append)
    stopped = StoppedAt(Lane("k/0"), 7, None, b"x", "expected JSON", 1)
    pipeline = cast(Pipeline, SimpleNamespace(sequence=SimpleNamespace(after_ts=CommitTs(400))))
    for tables, names in (((A,), (A,)), (None, None)):
        holes = SeenHoles()
        note_passed(pipeline, holes, Parked(stopped, tables, "alice@db1", 2))
        ((one,), seen) = holes.take(CommitTs(400), TABLES)
        assert (one.cause, one.since_ts, one.tables, one.vanished, seen) == (HoleCause.PARKED, 400, names, True, {})
        assert "message k/0@7, parked by alice@db1: expected JSON" in one.text
    assert "s.a may lack" in lines[0]
    assert "every table may lack" in lines[1]
