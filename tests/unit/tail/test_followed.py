"""A table under its names, forwards and backwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from sidecar.shared.model.nouns import TableName, TableSchema
from spark_merge.tail.followed import FollowedTable
from tests.unit.tail.logs import schema

A, B = TableName("s", "a"), TableName("s", "b")
Ids = Mapping[TableName, int]


def tables(ids: Ids) -> dict[TableName, TableSchema]:
    return {name: schema(name, id_) for name, id_ in ids.items()}


@pytest.mark.parametrize(
    ("history", "names"),
    [
        ([{A: 5}, {B: 5}, {B: 7}], [A, B, B]),  # a rename, a truncate
        ([{A: 5, B: 6}, {A: 6, B: 5}], [A, B]),  # a swap
        ([{A: 5}, {}, {B: 9}], [None, None, B]),  # dropped, and another one
        ([{B: 5}, {}, {B: 9}], [B, None, B]),  # dropped and made again
        ([{A: 5}, {B: 5, A: 6}], [A, B]),  # renamed, and another one has the name
        ([{B: 0}, {B: 0}], [B, B]),  # a source without ids
    ],
)
def test_a_table_is_met_under_each_of_its_names(history: Sequence[Ids], names: Sequence[TableName | None]) -> None:
    last = next(name for name in reversed(names) if name is not None)
    followed = FollowedTable(last, last, history[-1][last])
    met = [followed.at(tables(ids)) for ids in reversed(history)][::-1]
    assert [one and one.name for one in met] == names
    again = [followed.at(tables(ids)) for ids in history]
    assert [one and one.name for one in again] == names
