"""The tables that a statement names, where the job of an older TiDB does not."""

from __future__ import annotations

import pytest

from sidecar.shared.rowcodec.ddl_names import involved_by
from sidecar.shared.schema.ddl import Action


@pytest.mark.parametrize(
    ("action", "query", "names"),
    [
        (Action.RENAME_TABLE, "RENAME TABLE a.B TO `C`.d", ["a.b", "c.d"]),
        (Action.RENAME_TABLES, "rename table a to x, b to y", ["s.a", "s.x", "s.b", "s.y"]),
        (Action.RENAME_TABLE, "ALTER TABLE a RENAME TO b", ["s.a", "s.b"]),
        (Action.RENAME_TABLE, "alter ignore table o.a rename as `S`.`To`, ALGORITHM = INSTANT", ["o.a", "s.to"]),
        (Action.RENAME_TABLE, "ALTER TABLE a RENAME = s.b", [".a", "s.b"]),
        (Action.RENAME_TABLE, "ALTER TABLE o.a RENAME b", ["o.a", "s.b"]),
        (Action.RENAME_TABLE, "ALTER TABLE", []),
        (Action.RENAME_TABLE, "RENAME", []),
        (
            Action.EXCHANGE_PARTITION,
            "ALTER TABLE p.Parts EXCHANGE PARTITION x WITH TABLE `o`.`Other` WITHOUT VALIDATION",
            ["p.parts", "o.other"],
        ),
        (Action.EXCHANGE_PARTITION, "alter table parts /* . */ exchange partition x with table other", ["s.parts", "s.other"]),
        (Action.EXCHANGE_PARTITION, "ALTER TABLE", ["s."]),
        (Action.ADD_COLUMN, "ALTER TABLE a ADD COLUMN b int", []),
    ],
)
def test_names_are_in_the_statements_order(action: Action, query: str, names: list[str]) -> None:
    assert [f"{one.schema}.{one.table}" for one in involved_by(action, query, "s")] == names
