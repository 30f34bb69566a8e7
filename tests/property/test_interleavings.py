"""Whatever the lanes' interleaving, batching and repeats, the released order is one and the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.model.nouns import Change, Lane, Rank
from tests.support.changes import accept, put, release, resolved, sequence

LANES = ("a", "b", "c")
END = 1000


@st.composite
def histories(draw: st.DrawFn) -> list[Change]:
    """Distinct changes; those of equal commit_ts in one lane have different ranks, so that arrival decides nothing."""
    points = draw(st.lists(st.tuples(st.integers(1, 40), st.sampled_from(LANES)), unique=True, max_size=40))
    ranks = draw(st.lists(st.sampled_from([Rank.DELETE, Rank.PUT]), min_size=len(points), max_size=len(points)))
    seen: set[tuple[int, Rank]] = set()
    changes = []
    for number, ((ts, lane), rank) in enumerate(zip(points, ranks, strict=True)):
        if (ts, rank) not in seen:
            seen.add((ts, rank))
            changes.append(put(ts, f"k{number}", lane=lane, rank=rank))
    return changes


@st.composite
def plays(draw: st.DrawFn, changes: list[Change]) -> list[tuple[str, list[Change | int]]]:
    """One legal play: each lane its own changes in any order between resolved marks that never pass one still to come,
    some of them twice; lanes in any interleaving, in batches of any size, with releases in between."""
    lanes: dict[str, list[Change | int]] = {}
    for lane in LANES:
        own = draw(st.permutations([change for change in changes if change.lane == lane]))
        repeated = [change for change in own for _ in range(2 if draw(st.booleans()) else 1)]
        stream: list[Change | int] = []
        for at, change in enumerate(repeated):
            stream.append(change)
            if draw(st.booleans()):
                stream.append(min((later.commit_ts for later in repeated[at + 1 :]), default=END) - 1)
        lanes[lane] = [*stream, END]
    script: list[tuple[str, list[Change | int]]] = []
    while any(lanes.values()):
        lane = draw(st.sampled_from([lane for lane in LANES if lanes[lane]]))
        size = draw(st.integers(1, len(lanes[lane])))
        script.append((lane, lanes[lane][:size]))
        lanes[lane] = lanes[lane][size:]
    return script


@given(data=st.data(), changes=histories(), held_bytes_max=st.sampled_from([1, 1000, 1 << 20]))
def test_lanes_that_end_and_come_back_under_their_names_change_nothing_of_the_order(
    data: st.DataObject, changes: list[Change], held_bytes_max: int
) -> None:
    """A lane ends at any message and comes back with the next one, at position 0. One that stays resolves what can come no more. Below the
    positions of a segment there is nothing that the log has not, in any lane that is there."""
    expected = sorted(changes, key=lambda change: (change.commit_ts, change.rank))
    s = sequence(held_bytes_max=held_bytes_max)
    released: list[Change] = []
    there: dict[str, list[Change]] = {}
    left = data.draw(st.permutations(changes))
    while left:
        change, *left = left
        lives = there.setdefault(change.lane, [])
        at = len(lives)
        resolved_ts = min((later.commit_ts for later in left), default=END) - 1
        lives.append(change)
        accept(s, change._replace(position=at), resolved(resolved_ts, lane=change.lane, position=at))
        accept(s, resolved(resolved_ts, lane="stays"))
        for lane in data.draw(st.sets(st.sampled_from(sorted(there)))):
            del there[lane]
        s.forget_ended({Lane("stays"), *map(Lane, there)})
        for segment, rows in release(s, {"stays"}):
            released += rows
            assert segment.positions.keys() <= {"stays", *there}
            for lane, lives in there.items():
                assert all(one.commit_ts <= segment.upto_ts for one in lives[: segment.positions[Lane(lane)]])
        assert {*s.resolved, *s.positions, *s._read} <= {"stays", *there}
    assert [(c.commit_ts, c.rank, c.key) for c in released] == [(c.commit_ts, c.rank, c.key) for c in expected]


@given(data=st.data(), changes=histories(), held_bytes_max=st.sampled_from([1, 1000, 1 << 20]))
def test_any_legal_interleaving_gives_one_order(data: st.DataObject, changes: list[Change], held_bytes_max: int) -> None:
    expected = sorted(changes, key=lambda change: (change.commit_ts, change.rank))
    s = sequence(held_bytes_max=held_bytes_max)
    released: list[Change] = []
    for lane, items in data.draw(plays(changes)):
        for item in items:
            accept(s, resolved(item, lane=lane) if isinstance(item, int) else item)
        released += [change for _, rows in release(s, set(LANES)) for change in rows]
    assert [(c.commit_ts, c.rank, c.key) for c in released] == [(c.commit_ts, c.rank, c.key) for c in expected]
    assert s.resolved.keys() == {Lane(lane) for lane in LANES}
