"""The watermark table as `MarkRow` asks for it, in memory: an INSERT that leaves what is there, an UPDATE under the optimistic lock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Row = tuple[str, int]


@dataclass
class MarkTable:
    """`held`: uuid and kind by changefeed. `updated`: receives each UPDATE that has matched, with the row before it."""

    held: dict[str, Row] = field(default_factory=dict)
    updated: Callable[[str, Row, Row], None] = lambda changefeed, before, after: None

    def rows(self, sql: str, values: Sequence[object] | None = None) -> tuple[tuple[str], ...]:
        assert sql.startswith("SELECT unique_identifier"), sql
        assert values is not None
        held = self.held.get(str(values[0]))
        return ((held[0],),) if held else ()

    def change(self, sql: str, values: Sequence[object]) -> int:
        if sql.startswith("INSERT"):
            changefeed, uuid, kind = values
            return int(self.held.setdefault(str(changefeed), (str(uuid), int(str(kind)))) == (uuid, kind))
        assert sql.startswith("UPDATE"), sql
        uuid, kind, changefeed, expected = values
        before = self.held.get(str(changefeed))
        if before is None or before[0] != expected:
            return 0
        after = self.held[str(changefeed)] = (str(uuid), int(str(kind)))
        self.updated(str(changefeed), before, after)
        return 1
