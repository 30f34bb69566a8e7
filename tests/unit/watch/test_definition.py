"""Another definition: only tables of which it lets through what the one before omitted have a hole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sidecar.adapters.etcd.keys import KeyEntry
from sidecar.shared.errors import Compacted
from sidecar.shared.model.hole import HoleCause
from sidecar.shared.model.nouns import MARK_TABLE, Column, CommitTs, TableName, TableSchema
from sidecar.shared.ticdc.changefeed import ChangefeedName
from sidecar.watch.definition import DefinitionWatch, LogPlace

NAME = ChangefeedName("c", "default", "n")
A, B = TableName("shop", "a"), TableName("shop", "b")
COLUMNS = (Column("id", "int"), Column("v", "text"))
TABLES = {name: TableSchema(name, COLUMNS, ("id",), number, (number,)) for number, name in enumerate((A, B, MARK_TABLE), 1)}
NO_DELETES = {"matcher": ["shop.a"], "ignore-event": ["delete"]}
NO_INSERTS_OF_B = {"matcher": ["shop.b"], "ignore-insert-value-expr": "v = 'x'"}


class Etcd:
    def __init__(self) -> None:
        self.definitions: list[dict[str, Any]] = []
        self.kept_from = 0
        self.notes: list[str] = []

    def define(
        self, *, rules: tuple[str, ...] = ("*.*",), filters: tuple[Any, ...] = (), selectors: tuple[Any, ...] = (), **more: Any
    ) -> None:
        of_filter = {"rules": [*rules], "event-filters": [*filters], **more}
        config = {"filter": of_filter, "sink": {"column-selectors": [*selectors], "protocol": "canal-json"}}
        self.definitions.append({"sink-uri": "kafka://h:9092/t", "create-time": "2026-01-01T00:00:00Z", "start-ts": 5, "config": config})

    def get(self, _: str, *, revision: int = 0) -> KeyEntry | None:
        if revision and revision < self.kept_from:
            raise Compacted("compacted", hint="")
        upto = revision or len(self.definitions)
        return KeyEntry("info", json.dumps(self.definitions[upto - 1]).encode(), 1, upto, 0)

    def watch(self, seen: str | None = None) -> DefinitionWatch:
        return DefinitionWatch(self, NAME, LogPlace(lambda: TABLES, lambda: CommitTs(77), self.notes.append), seen)  # type: ignore[arg-type]  # a twin of the one call


def missed(before: dict[str, Any], now: dict[str, Any]) -> tuple[tuple[TableName, ...] | None, bool] | None:
    """Tables and whether rows vanished, for one who looks at both and for one who takes over."""
    etcd = Etcd()
    etcd.define(**before)
    watching = etcd.watch()
    (first,) = watching.look()
    assert first.hole is None
    etcd.define(**now)
    (one,), (other,) = watching.look(), etcd.watch(first.seen).look()
    assert one.hole == other.hole
    assert watching.look()[0].hole is None
    if one.hole is None:
        return None
    assert (one.hole.cause, one.hole.since_ts) == (HoleCause.GAP, 77)
    return one.hole.tables, one.hole.vanished


@pytest.mark.parametrize(
    ("before", "now", "of_tables"),
    [
        ({}, {}, None),
        ({"rules": ("shop.a",)}, {"rules": ("shop.*",)}, None),
        ({"rules": ("shop.*",)}, {"rules": ("shop.a",)}, None),
        ({}, {"filters": (NO_DELETES,)}, None),
        ({"filters": (NO_DELETES,)}, {}, ((A,), True)),
        ({"filters": (NO_INSERTS_OF_B,)}, {"filters": (NO_DELETES,)}, ((B,), True)),
        ({"filters": (NO_DELETES, NO_INSERTS_OF_B)}, {"filters": (NO_INSERTS_OF_B, NO_DELETES)}, None),
        ({"selectors": ({"matcher": ["shop.a"], "columns": ["id"]},)}, {}, ((A,), False)),
        ({}, {"selectors": ({"matcher": ["shop.a"], "columns": ["id"]},)}, None),
        ({"ignore-txn-start-ts": [9]}, {}, ((A, B), True)),
        ({}, {"ignore-txn-start-ts": [9]}, None),
    ],
)
def test_only_what_was_omitted_and_comes_now_is_missing(before: dict[str, Any], now: dict[str, Any], of_tables: object) -> None:
    assert missed(before, now) == of_tables


def test_a_definition_that_etcd_has_forgotten_is_of_each_table() -> None:
    etcd = Etcd()
    etcd.define(filters=(NO_DELETES,))
    watching = etcd.watch()
    watching.look()
    etcd.define()
    etcd.kept_from = 2
    (one,) = watching.look()
    assert one.hole is not None
    assert (one.hole.tables, one.hole.vanished) == (None, True)
    assert etcd.notes == []


@pytest.mark.parametrize("takeover", [False, True])
def test_what_came_and_went_while_nobody_looked_omitted_something(*, takeover: bool) -> None:
    etcd = Etcd()
    etcd.define()
    watching = etcd.watch()
    (first,) = watching.look()
    for filters in ((NO_DELETES,), (NO_INSERTS_OF_B,), ()):
        etcd.define(filters=filters)
    (one,) = (etcd.watch(first.seen) if takeover else watching).look()
    assert one.hole is not None
    assert (one.hole.tables, one.hole.vanished) == ((A, B), True)
    assert etcd.notes == []


def test_what_is_omitted_again_now_is_not_missing() -> None:
    etcd = Etcd()
    etcd.define(filters=(NO_DELETES,))
    watching = etcd.watch()
    watching.look()
    etcd.define()
    etcd.define(filters=(NO_DELETES,))
    assert watching.look()[0].hole is None


def test_rules_that_are_as_they_were_longer_ago_than_etcds_history_are_noted() -> None:
    etcd = Etcd()
    etcd.define()
    watching = etcd.watch()
    watching.look()
    for filters in ((NO_DELETES,), (NO_INSERTS_OF_B,), ()):
        etcd.define(filters=filters)
    etcd.kept_from = 3
    (one,) = watching.look()
    assert one.hole is not None
    assert one.hole.tables == (B,), "as far as it is known"
    assert len(etcd.notes) == 1
    assert "longer ago than etcd's history" in etcd.notes[0]
    assert watching.look()[0].hole is None
    assert len(etcd.notes) == 1


def test_what_was_not_durable_is_seen_again() -> None:
    etcd = Etcd()
    etcd.define(filters=(NO_DELETES,))
    (first,) = etcd.watch().look()
    etcd.define()
    assert [etcd.watch(first.seen).look()[0].hole is not None for _ in range(2)] == [True, True]
    (second,) = etcd.watch(first.seen).look()
    assert etcd.watch(second.seen).look()[0].hole is None
