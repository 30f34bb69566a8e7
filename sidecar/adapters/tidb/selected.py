"""TiDB's tables as the changefeed carries them: without the columns that its selectors omit (shared/ticdc/selected_columns.py).

Here they are omitted, and nowhere else: tables of every moment, and single rows, come through this. So what compares tables before and
after a DDL, where a log ends and now, compares what rows have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from sidecar.adapters.tidb.follow import Tables, TablesInTime
from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.reads.row import KeyOf, RowImage
from sidecar.shared.ticdc.selected_columns import SelectedColumns


class TablesAndRows(TablesInTime, Protocol):
    """As adapters.tidb.schema.TidbSchemas."""

    def row(self, table: TableName, at_ts: CommitTs, columns: Collection[str], key_of: KeyOf) -> RowImage | None: ...


class SelectedTables:
    """`source`, narrowed. Raises what it does."""

    def __init__(self, source: TablesAndRows, selected: SelectedColumns) -> None:
        self._source, self._selected = source, selected

    def tables(self, at_ts: CommitTs | None = None, *, shown: Callable[[Tables], bool] = lambda _: False) -> Tables:
        return self._narrowed(self._source.tables(at_ts, shown=lambda tables: shown(self._narrowed(tables))))

    def changing(self, table_ids: Collection[int], at_ts: CommitTs) -> frozenset[int]:
        return self._source.changing(table_ids, at_ts)

    def now_ts(self) -> CommitTs | None:
        return self._source.now_ts()

    def row(self, table: TableName, at_ts: CommitTs, columns: Collection[str], key_of: KeyOf) -> RowImage | None:
        image, selector = self._source.row(table, at_ts, columns, key_of), self._selected.selector(table)
        if image is None or selector is None:
            return image
        kept = [(column, text) for column, text in zip(image.columns, image.texts, strict=True) if selector.has(column.name)]
        return RowImage([column for column, _ in kept], [text for _, text in kept])

    def _narrowed(self, tables: Tables) -> Tables:
        return {name: self._selected.narrowed(table) for name, table in tables.items()}
