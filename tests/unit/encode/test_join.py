"""One change of a key at a commit_ts: the fast join against a slow one, over transactions as TiCDC splits them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_merge.codecs.encode.join import joined
from spark_merge.port.contract import CHANGES, RAW_CHANGES

Image = list[str] | None
State = dict[str, str]


def as_ticdc(states: Sequence[tuple[State, State, frozenset[str]]]) -> list[dict[str, Any]]:
    """Each transaction's rows: from the table before it to the table after it. Of `apart` an update is a delete and an insert."""
    rows: list[dict[str, Any]] = []
    for ts, (before, after, apart) in enumerate(states, 1):
        deletes: list[tuple[str, Image, Image]] = []
        puts: list[tuple[str, Image, Image]] = []
        for key in sorted(before.keys() | after.keys()):
            old, new = ([key, state[key]] if key in state else None for state in (before, after))
            if old == new:
                continue
            if old and new and key in apart:
                deletes.append((key, old, None))
                puts.append((key, None, new))
            else:
                (puts if new else deletes).append((key, old, new))
        rows += [made(ts, rank, *change) for rank, part in enumerate((deletes, puts[::-1])) for change in part]
    return [row | {"ordinal": number} for number, row in enumerate(rows)]


def made(ts: int, rank: int, key: str, before: Image, after: Image) -> dict[str, Any]:
    op = "delete" if after is None else "insert" if before is None else "update"
    fixed = {"seq": 1, "schema": "shop", "table": "t", "key": key}
    return fixed | {"commit_ts": ts, "rank": rank, "op": op, "before": before, "after": after}


def slow(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_place: dict[tuple[int, str], dict[str, Any]] = {}
    for row in rows:
        place = (row["commit_ts"], row["key"])
        if place not in by_place:
            by_place[place] = dict(row)
        else:
            one = by_place[place]
            one["after"] = row["after"]
            one["op"] = "delete" if one["after"] is None else "insert" if one["before"] is None else "update"
            one["rank"] = 0 if one["after"] is None else 1
    return [row for row in by_place.values() if row["before"] or row["after"]]


TABLES = st.dictionaries(st.sampled_from("abcde"), st.sampled_from("xyz"), max_size=5)
HISTORIES = st.lists(st.tuples(TABLES, st.frozensets(st.sampled_from("abcde"))), min_size=1, max_size=6)


@given(HISTORIES)
def test_each_key_has_one_change_at_a_commit_ts_and_it_is_the_whole_one(history: list[tuple[State, frozenset[str]]]) -> None:
    tables: list[State] = [{}, *(table for table, _ in history)]
    rows = as_ticdc([(before, after, apart) for before, after, (_, apart) in zip(tables, tables[1:], history, strict=False)])
    results = joined(pa.Table.from_pylist(rows, CHANGES)).to_pylist()
    assert results == slow(rows)
    places = [(row["commit_ts"], row["key"]) for row in results]
    assert len(places) == len(set(places))
    assert [row["commit_ts"] for row in results] == sorted(row["commit_ts"] for row in results)
    for ts, (before, after) in enumerate(pairwise(tables), 1):
        true = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        assert {row["key"] for row in results if row["commit_ts"] == ts} == true
        for row in results:
            if row["commit_ts"] == ts:
                assert (row["before"] or [row["key"], None])[1] == before.get(row["key"])
                assert (row["after"] or [row["key"], None])[1] == after.get(row["key"])


def test_rows_that_exchange_their_keys_are_two_updates() -> None:
    rows = [
        made(7, 0, "1", ["1", "a"], None), made(7, 0, "2", ["2", "b"], None),
        made(7, 1, "2", None, ["2", "a"]), made(7, 1, "1", None, ["1", "b"]),
    ]  # fmt: skip
    results = joined(pa.Table.from_pylist([row | {"ordinal": number} for number, row in enumerate(rows)], CHANGES))
    assert [(row["op"], row["ordinal"], row["before"], row["after"]) for row in results.to_pylist()] == [
        ("update", 0, ["1", "a"], ["1", "b"]),
        ("update", 1, ["2", "b"], ["2", "a"]),
    ]


def test_the_same_key_at_another_commit_ts_stays_apart_and_messages_stay_beside_their_rows() -> None:
    rows = [made(7, 0, "1", ["1", "a"], None), made(8, 1, "1", None, ["1", "a"]), made(8, 1, "2", None, ["2", "a"])]
    table = pa.Table.from_pylist(
        [row | {"ordinal": number, "message_key": b"k%d" % number} for number, row in enumerate(rows)], RAW_CHANGES
    )
    assert joined(table).equals(table)
