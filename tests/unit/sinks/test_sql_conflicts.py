"""Which changes stay in order at a SQL target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sidecar.shared.model.nouns import Column, TableName
from spark_merge.sinks.mysql import conflicts
from spark_merge.sinks.mysql.conflicts import Causality, keys_of, together
from spark_merge.sinks.mysql.tables import TargetTable, UniqueKeyPart

TABLE = TableName("s", "t")


def target(*unique: tuple[UniqueKeyPart, ...], reported: bool = True) -> TargetTable:
    return TargetTable(TABLE, unique=unique if reported else None)


def upper(collation: str, texts: Sequence[str]) -> Mapping[str, str]:
    assert collation == "utf8mb4_general_ci"
    return {text: text.upper() for text in texts}


def separate(causality: Causality, *, worker: int) -> str:
    """A key that is another worker's."""
    return next(key for key in map(str, range(100)) if Causality(2).worker([key]) != worker and key not in causality._known)


def test_the_designs_example() -> None:
    """Update id 3 to 4, update id 2 to 5, delete id 3. The key 3 meets one worker alone, so the delete is the next change of that one,
    which has 3 → 4 before it: nobody flushes, where the design's text does, and the end is the same. What meets both flushes."""
    causality = Causality(2)
    first = causality.worker(["3", "4"])
    other = separate(causality, worker=first or 0)
    second = causality.worker([other, "2"])
    assert None not in (first, second)
    assert first != second
    assert causality.worker(["3"]) == first
    assert causality.worker(["4", "2"]) is None, "all flush"
    causality.clear()
    assert causality.worker(["4", "2"]) is not None


def test_two_groups_of_one_worker_are_no_conflict() -> None:
    causality = Causality(1)
    assert [causality.worker([key]) for key in ("1", "2")] == [0, 0]
    assert causality.worker(["1", "2"]) == 0


def test_the_same_changes_go_to_the_same_workers_anywhere() -> None:
    changes = [[("t", number, "x"), ("t", number + 1, "x")] for number in range(0, 40, 3)]
    one, two = Causality(4), Causality(4)
    assert [one.worker(keys) for keys in changes] == [two.worker(keys) for keys in changes]
    assert len({Causality(4).worker(keys) for keys in changes}) > 1


def test_what_is_remembered_is_bounded() -> None:
    causality = Causality(1)
    causality._known = dict.fromkeys(range(conflicts.KEYS_MAX), 0)
    assert causality.worker(["one more"]) is None


def test_keys_are_the_values_of_every_unique_key_and_null_meets_none() -> None:
    table = target((UniqueKeyPart(0),), (UniqueKeyPart(1), UniqueKeyPart(2)))
    columns = (Column("id", "int"), Column("u", "int"), Column("w", "int"))
    assert keys_of(table, columns, [("1", "2", "3"), ("1", None, "3")], upper) == [
        [(TABLE, 0, "1"), (TABLE, 1, "2", "3")],
        [(TABLE, 0, "1")],
    ]


def test_texts_meet_as_the_target_compares_them() -> None:
    columns = (Column("ci", "text"), Column("bin", "text"), Column("prefix", "text"), Column("b", "binary"), Column("d", "double"))
    table = target(
        *(
            (part,)
            for part in (
                UniqueKeyPart(0, -1, "utf8mb4_general_ci"),
                UniqueKeyPart(1),
                UniqueKeyPart(2, 2),
                UniqueKeyPart(3, 1),
                UniqueKeyPart(4),
            )
        )
    )
    first, second = keys_of(table, columns, [("a ", "a ", "abc", "FF00", "-0.0"), ("A", "a", "abd", "FF01", "0.0")], upper)
    assert first == second
    (other,) = keys_of(table, columns, [("b", "A", "b", "00FF", "1.0")], upper)
    assert not set(first) & set(other)


def test_a_table_whose_keys_cannot_be_distinguished_is_one_group() -> None:
    assert keys_of(target(reported=False), (), [("1",), ("2",)], upper) == [[(TABLE,)], [(TABLE,)]]


def test_changes_of_a_commit_that_meet_are_one_group_in_their_order() -> None:
    groups = together([["a"], ["b"], ["c", "a"], ["d", "b"], ["e"], ["c"]])
    assert [group.places for group in groups] == [[0, 2, 5], [1, 3], [4]]
    assert groups[0].keys == ["a", "c", "a", "c"]
