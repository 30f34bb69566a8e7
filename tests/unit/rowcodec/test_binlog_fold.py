"""Several changes of one row in one transaction become the one that TiCDC would send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.codecs.binlog import BinlogCodec
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Message, Rank
from sidecar.shared.rowcodec.binlog_event import event_value
from sidecar.shared.rowcodec.binlog_fold import folded
from sidecar.shared.rowcodec.binlog_row import decode_event
from sidecar.shared.rowcodec.binlog_table import BinlogTable
from sidecar.shared.rowcodec.kv_table import KvTable, kv_table
from tests.property.test_kv_decoders import mutations
from tests.support.binlog_encoder import Event, common_handle, deleted, inserted, int_handle, transaction, updated
from tests.support.binlog_recordings import unmarked
from tests.support.kv_encoder import NOT_NULL, Plain, column, info

LANE = Lane("pump/a")
Row = dict[int, Plain | None]
Checking = tuple[list[str | None] | None, list[str | None] | None]


class Kind:
    """A table with a key column and another, and the events of its rows. `rowid`: where it is not as the key."""

    def __init__(self, key: dict[str, Any], **more: Any) -> None:
        self.columns = {1: key, 2: column(2, "v", "varchar", flen=9, collation="utf8mb4_bin")}
        self.table = kv_table(info(list(self.columns.values()), **more), schema="s")
        self._is_common, self._is_hidden = bool(more.get("primary")), not more

    def insert(self, key: int, v: bytes | None, rowid: int | None = None) -> Event:
        handle = common_handle([(self.columns[1], key)]) if self._is_common else int_handle(key if rowid is None else rowid)
        return inserted(handle, self.columns, ({1: key} if self._is_hidden else {}) | {2: v})

    def update(self, key: int, v: bytes | None, new_key: int, new: bytes | None, rowid: int | None = None) -> Event:
        return updated(self.columns, {1: key, 2: v}, {1: new_key, 2: new}, rowid=self._rowid(key, rowid))

    def delete(self, key: int, v: bytes | None, rowid: int | None = None) -> Event:
        return deleted(self.columns, {1: key, 2: v}, rowid=self._rowid(key, rowid))

    def _rowid(self, key: int, rowid: int | None) -> int | None:
        return (key if rowid is None else rowid) if self._is_hidden else None


INT = Kind(column(1, "id", "bigint", primary=True), int_handle=True)
UNSIGNED = Kind(column(1, "id", "bigint", primary=True, unsigned=True), int_handle=True)
COMMON = Kind(column(1, "id", "year", flen=4, flag=NOT_NULL), primary=[("id", -1)])
HIDDEN = Kind(column(1, "code", "bigint", flag=NOT_NULL))
KINDS = [INT, UNSIGNED, COMMON, HIDDEN]


def changes(*events: Event, commit_ts: int = 9, table_id: int = 7) -> list[Change]:
    """In the sequence's order: deletes before puts."""
    envelopes = BinlogCodec(unmarked).envelopes(Message(LANE, commit_ts, None, transaction(commit_ts, {table_id: events})))
    return sorted((one for one in envelopes if isinstance(one, Change)), key=lambda change: change.rank)


def checkings(table: KvTable, value: Sequence[Change]) -> list[Checking]:
    for change in value:
        before, after = decode_event(BinlogTable(table), change.value)
        assert (change.rank is Rank.DELETE) == (after is None)
        assert before is not None or after is not None
    return [tuple(decode_event(BinlogTable(table), change.value)) for change in value]  # type: ignore[misc]  # of two


def fold(kind: Kind, *events: Event) -> list[Checking]:
    results = list(folded(changes(*events), lambda _: kind.table))
    assert [change.rank for change in results] == sorted(change.rank for change in results)
    return checkings(kind.table, results)


def test_the_transaction_of_the_design() -> None:
    """Insert, Insert, Update, Update, DeleteRow, Insert in one sequence, by their bytes: 1 is new and changed, 2 comes and goes and comes
    again, and 3 is changed."""
    columns = {1: column(1, "id", "int", primary=True), 2: column(2, "v", "varchar", flen=9, collation="utf8mb4_bin")}
    table = kv_table(info(list(columns.values()), int_handle=True), schema="s")
    payload = bytes.fromhex(
        "080110041809 220174 2a60"  # Commit, start_ts 4, commit_ts 9, prewrite_key t, prewrite_value
        "0801 125c 0807"  # schema_version 1, a TableMutation of table 7
        "1207 0802 0804020261"  # inserted 1: a
        "1207 0804 0804020262"  # inserted 2: b
        "1207 0804 0804020264"  # inserted 2: d
        "1a12 08020802 0804020261 08020802 0804020263"  # updated 1: a to c
        "1a12 08020806 0804020278 08020806 0804020279"  # updated 3: x to y
        "3209 08020804 0804020262"  # deleted 2: b
        "3800 3800 3801 3801 3804 3800"  # Insert Insert Update Update DeleteRow Insert
    )  # fmt: skip
    envelopes = BinlogCodec(unmarked).envelopes(Message(LANE, 9, None, payload))
    results = sorted((one for one in envelopes if isinstance(one, Change)), key=lambda change: change.rank)
    assert [(change.value[3], chr(change.value[4])) for change in results] == [(4, "d"), (0, "i"), (1, "i"), (2, "u"), (3, "u"), (5, "i")]
    net = list(folded(results, lambda _: table))
    assert checkings(table, net) == [(None, ["1", "c"]), (["3", "x"], ["3", "y"]), (None, ["2", "d"])]


@pytest.mark.parametrize("kind", KINDS)
def test_chains(kind: Kind) -> None:
    k = 2001
    a, b, c = b"a", b"b", b"c"
    for events, expected in (
        ([kind.insert(k, a), kind.delete(k, a)], []),
        ([kind.insert(k, a), kind.update(k, a, k, b)], [(None, ["2001", "b"])]),
        ([kind.insert(k, a), kind.delete(k, a), kind.insert(k, b)], [(None, ["2001", "b"])]),
        ([kind.update(k, a, k, b), kind.update(k, b, k, c)], [(["2001", "a"], ["2001", "c"])]),
        ([kind.update(k, a, k, b), kind.delete(k, b)], [(["2001", "a"], None)]),
        ([kind.delete(k, a), kind.insert(k, b)], [(["2001", "a"], ["2001", "b"])]),
        ([kind.delete(k, a), kind.insert(k, b), kind.update(k, b, k, None)], [(["2001", "a"], ["2001", None])]),
        ([kind.delete(k, a), kind.insert(k, b), kind.delete(k, b)], [(["2001", "a"], None)]),
        ([kind.update(k, a, k, b), kind.delete(k, b), kind.insert(k, c)], [(["2001", "a"], ["2001", "c"])]),
        ([kind.update(k, a, k, b), kind.update(k + 1, a, k + 1, b)], [(["2001", "a"], ["2001", "b"]), (["2002", "a"], ["2002", "b"])]),
        ([kind.delete(k, a), kind.insert(k + 1, b)], [(["2001", "a"], None), (None, ["2002", "b"])]),
    ):
        assert fold(kind, *events) == expected


def test_a_key_that_is_no_handle_may_change_along_the_way() -> None:
    first, second = HIDDEN.update(1, b"x", 2, b"x", rowid=100), HIDDEN.update(2, b"x", 3, b"y", rowid=100)
    assert fold(HIDDEN, first, second, HIDDEN.insert(1, b"z", rowid=101)) == [(["1", "x"], ["3", "y"]), (None, ["1", "z"])]
    away, over = HIDDEN.update(1, b"x", 9, b"x", rowid=100), HIDDEN.update(2, b"y", 1, b"y", rowid=101)
    assert fold(HIDDEN, away, over, HIDDEN.update(9, b"x", 2, b"x", rowid=100)) == [(["2", "y"], ["1", "y"]), (["1", "x"], ["2", "x"])]


def test_handles_of_large_unsigned_keys_are_one_in_inserts_and_in_pairs() -> None:
    k = (1 << 64) - 5
    assert fold(UNSIGNED, UNSIGNED.insert(k, b"a"), UNSIGNED.update(k, b"a", k, b"b")) == [(None, [str(k), "b"])]


def test_only_what_is_repeated_is_touched_and_no_transaction_mixes_with_another() -> None:
    inserts = changes(INT.insert(1, b"a"), INT.insert(2, b"a"), commit_ts=8)
    mixed = changes(INT.insert(3, b"a"), INT.update(4, b"a", 4, b"b"), commit_ts=9)
    chain = changes(INT.update(4, b"b", 4, b"c"), INT.update(4, b"c", 4, b"d"), commit_ts=10)
    again = changes(INT.update(4, b"d", 4, b"e"), INT.update(5, b"c", 5, b"d"), commit_ts=11)
    results = list(folded([*inserts, *mixed, *chain, *again], lambda _: INT.table))
    assert results[:4] == [*inserts, *mixed]
    assert [(one.commit_ts, checkings(INT.table, [one])[0]) for one in results[4:5]] == [(10, (["4", "b"], ["4", "d"]))]
    assert results[5:] == again


def test_tables_of_one_transaction_are_folded_each_by_itself_and_those_not_replicated_pass() -> None:
    events = (INT.delete(1, b"a"), INT.insert(1, b"b"))
    payload = transaction(9, {7: events, 8: events})
    both = sorted(
        (one for one in BinlogCodec(unmarked).envelopes(Message(LANE, 9, None, payload)) if isinstance(one, Change)),
        key=lambda change: change.rank,
    )
    results = list(folded(both, {"7": INT.table}.get))
    assert [(one.table, one.rank) for one in results] == [("8", Rank.DELETE), ("7", Rank.PUT), ("8", Rank.PUT)]
    assert results[0].value == both[1].value


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        (INT, ("D", b"\x08\x04\x02\x02x")),
        (INT, ("D", b"\x08\x02\x00")),
        (INT, ("I", b"\x09\x02\x00")),
        (INT, ("I", b"")),
        (HIDDEN, ("D", b"")),
        (HIDDEN, ("D", b"\x08\x02\x08\x06")),
        (HIDDEN, ("U", b"\x01")),
        (COMMON, ("D", b"\x08\x04\x02\x02x")),
        (COMMON, ("I", b"\x00")),
    ],
)
def test_an_event_without_a_handle_is_refused_with_its_place(kind: Kind, row: Event) -> None:
    value = event_value(0, ord(row[0].lower()), 1, row[1])
    change = Change(CommitTs(9), Rank.PUT, "", "7", b"", value, LANE, 77)
    with pytest.raises(MessageUnreadable, match=r"message pump/a@77: table s\.t \(id 104\): row event byte"):
        list(folded([change], lambda _: kind.table))


@given(st.data())
def test_any_transaction_comes_to_what_it_leaves(data: st.DataObject) -> None:
    """Rows of three keys, changed at random as a database would let them: against a dict."""
    kind = data.draw(st.sampled_from(KINDS))
    keys = [2001, 2002, 2003]
    before = {key: b"0" for key in keys if data.draw(st.booleans())}
    state, events = dict(before), []
    for number in range(data.draw(st.integers(1, 10))):
        key, v = data.draw(st.sampled_from(keys)), b"%d" % (number + 1)
        if key not in state:
            events.append(kind.insert(key, v))
            state[key] = v
        elif data.draw(st.booleans()):
            events.append(kind.update(key, state[key], key, v))
            state[key] = v
        else:
            events.append(kind.delete(key, state.pop(key)))
    touched = [key for key in keys if before.get(key) != state.get(key)]
    net = fold(kind, *events)
    keys_reported = [int((after or old or [None])[0] or 0) for old, after in net]
    assert sorted(keys_reported) == touched
    for key, (old, after) in zip(keys_reported, net, strict=True):
        assert [None if row is None else row[1] for row in (old, after)] == [
            None if rows.get(key) is None else rows[key].decode() for rows in (before, state)
        ]


@given(st.data())
def test_broken_events_are_folded_or_refused_and_nothing_else(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    whole = changes(kind.insert(2001, b"a"), kind.update(2001, b"a", 2001, b"b"), kind.delete(2001, b"b"), kind.insert(2001, b"c"))
    broken = [change._replace(value=change.value[:5] + data.draw(mutations(change.value[5:]))) for change in whole]
    try:
        assert len(list(folded(broken, lambda _: kind.table))) <= len(whole)
    except MessageUnreadable as error:
        assert "message pump/a@9: table s.t" in str(error)  # noqa: PT017 - either is right
