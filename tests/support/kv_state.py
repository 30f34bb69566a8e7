"""A `ddl` recording's rows as TiDB keeps them: raw values by key, moved by the DDLs, read under the schema of a later moment.

Where a row was not written since the start, there is only its canonical text at the start, from the truth. `Cells` counts what a
cell was read from, so that a test can say what it rests on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sidecar.replay.judge.rows import rows_by_key
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs
from sidecar.shared.rowcodec.kv_cast import cast_text
from sidecar.shared.rowcodec.kv_row import cells_of, decode_row
from sidecar.shared.rowcodec.kv_table import KvColumn, KvTable
from sidecar.shared.schema.ddl import Action, DdlEvent, Effect
from sidecar.shared.schema.version import TableVersion
from tests.support.kv_ddl import DdlRecording, Row, key_of

_LEDGER_BOUNDS = ("2025", "2026", None)
"""The recordings' one table whose partitions a DDL drops: `ledger` by range of `y`, upper bounds in the order of its partitions."""


@dataclass(frozen=True)
class Stored:
    """One row. `raw`: key and value as written last; None: `text`, by column id, is from the start. `table`: what it was then."""

    physical_id: int
    table: KvTable
    text: dict[int, str | None]
    raw: tuple[bytes, bytes] | None


class State:
    """`rows`: of each table id that has a handle key, by the key's text."""

    def __init__(self, recorded: DdlRecording) -> None:
        self._recorded = recorded
        self._done = 0
        self._waiting = sorted([*recorded.entries], key=lambda raw: raw.commit_ts)
        self._events = sorted(recorded.events, key=lambda event: event.commit_ts)
        self.rows: dict[int, dict[Row, Stored]] = {}
        self._replaced: dict[tuple[int, int], KvColumn] = {}
        self.cells: Counter[str] = Counter()
        start = recorded.recording.start_ts
        for name, rows in recorded.recording.truth(start).items():
            version = recorded.history.by_name(name, start)
            assert isinstance(version, TableVersion)
            if version.description.schema.key and name != MARK_TABLE:
                self.rows[version.table_id] = dict(_at_start(version, rows_by_key(version.description.schema, rows)))

    def advance(self, tso: CommitTs) -> None:
        """Writes and DDLs up to `tso`, in commit order; at the same ts the write comes first."""
        while self._events and self._events[0].commit_ts <= tso:
            event = self._events.pop(0)
            self._write(event.commit_ts)
            self._carry_out(event)
        self._write(tso)

    def _write(self, upto_ts: int) -> None:
        while self._done < len(self._waiting) and self._waiting[self._done].commit_ts <= upto_ts:
            raw = self._waiting[self._done]
            self._done += 1
            version = self._recorded.history.table_at(raw.table_id, raw.commit_ts - 1)
            if version is None or not version.description.schema.key or version.name == MARK_TABLE:
                continue
            table, rows = version.description, self.rows[version.table_id]
            if raw.old:
                del rows[key_of(table.schema, tuple(decode_row(table, raw.key, raw.old, at_rest=True)))]
            if raw.value:
                key = key_of(table.schema, tuple(decode_row(table, raw.key, raw.value)))
                assert key not in rows, (version.name, key)
                rows[key] = Stored(raw.table_id, table, {}, (raw.key, raw.value))

    def _carry_out(self, event: DdlEvent) -> None:
        before: dict[int, dict[Row, Stored]] = {}
        for one in event.tables:
            if one.id_before is not None and one.id_before in self.rows:
                before[one.id_before] = self.rows.pop(one.id_before)
        for one in event.tables:
            if one.id_after is None or self._recorded.history.table_at(next(iter(one.physical_after), 0), event.commit_ts) is None:
                continue
            everywhere = {key: row for rows in before.values() for key, row in rows.items() if row.physical_id in one.physical_after}
            match event.action:
                case Action.REMOVE_PARTITIONING if event.effect is Effect.SWITCH:
                    (only,) = one.physical_after
                    self.rows[one.id_after] = {key: _moved(row, only) for key, row in before[one.id_before or 0].items()}
                case Action.EXCHANGE_PARTITION:
                    self.rows[one.id_after] = everywhere
                case _:
                    rows = before.get(one.id_before or 0, {})
                    self.rows[one.id_after] = {key: row for key, row in rows.items() if row.physical_id in one.physical_after}
        self._note_replaced_columns(event)

    def _note_replaced_columns(self, event: DdlEvent) -> None:
        """What MODIFY COLUMN with reorganisation put under another id: table and new id, and the column that it was."""
        for one in event.tables:
            if event.effect is Effect.SWITCH and not one.appeared:
                version = self._recorded.history.table_at(one.physical_after[0], event.commit_ts)
                assert version is not None
                self._replaced |= {
                    (version.table_id, column.successor.id): column for column in version.description.columns if column.successor
                }

    # ---- reading ----------------------------------------------------------------------------------------------------

    def read(self, version: TableVersion[KvTable]) -> dict[Row, Row]:
        """The rows as a SELECT sees them under `version`, by key."""
        return {key: self._row(version.description, row) for key, row in self.rows[version.table_id].items()}

    def _row(self, table: KvTable, row: Stored) -> Row:
        if row.raw is None:
            return tuple(self._of_text(table, column, row) for column in table.columns)
        texts = decode_row(table, *row.raw)
        held = cells_of(row.raw[1])
        ids = held.present.keys() | held.nulls
        made = []
        for column, text in zip(table.columns, texts, strict=True):
            replaced = self._replaced.get((table.id, column.id))
            if replaced is not None and column.id not in ids and replaced.id in ids:
                # What the reorganisation wrote is not in the feed: as it makes it.
                (text,) = (_cast(before, replaced, column) for before in [_only(row, replaced, *row.raw)])
                self.cells["reorganised, raw"] += 1
            else:
                self.cells["raw"] += 1
            made.append(text)
        return tuple(made)

    def _of_text(self, table: KvTable, column: KvColumn, row: Stored) -> str | None:
        was = {one.id: one for one in row.table.columns}
        replaced = self._replaced.get((table.id, column.id))
        if column.id in row.text:
            self.cells["text"] += 1
            return _cast(row.text[column.id], was[column.id], column)
        if replaced is not None and replaced.id in row.text:
            self.cells["reorganised, text"] += 1
            return _cast(row.text[replaced.id], was[replaced.id], column)
        self.cells["added, text"] += 1
        return column.absent


def _at_start(version: TableVersion[KvTable], rows: dict[tuple[str, ...], Row]) -> Iterator[tuple[Row, Stored]]:
    table = version.description
    for key, row in rows.items():
        physical_id = version.physical_ids[0]
        if version.name.table == "ledger":
            y = row[table.schema.column_names().index("y")]
            physical_id = next(
                one for one, bound in zip(version.physical_ids, _LEDGER_BOUNDS, strict=True) if bound is None or int(y or 0) < int(bound)
            )
        yield key, Stored(physical_id, table, {column.id: text for column, text in zip(table.columns, row, strict=True)}, None)


def _moved(row: Stored, physical_id: int) -> Stored:
    raw = row.raw
    if raw is not None:
        raw = (raw[0][:1] + (physical_id ^ 1 << 63).to_bytes(8, "big") + raw[0][9:], raw[1])
    return replace(row, physical_id=physical_id, raw=raw)


def _only(row: Stored, column: KvColumn, key: bytes, value: bytes) -> str | None:
    """One column of a raw row, as the table was when it was written."""
    numbers = {one.id: number for number, one in enumerate(row.table.columns)}
    physical = replace(row.table, physical_ids=frozenset({row.physical_id}))
    return decode_row(physical, key, value)[numbers[column.id]]


def _cast(text: str | None, was: KvColumn, column: KvColumn) -> str | None:
    if text is None or (was.id == column.id and was.column.kind == column.column.kind):
        return text
    result = cast_text(text, was, column)
    assert result is not None, (text, was, column)
    return result
