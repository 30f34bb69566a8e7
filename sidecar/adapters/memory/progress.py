"""The twins of progress store and history in memory: they keep the bytes that would be written."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sidecar.history.entry import HistoryEntry, entry_from_json, surplus
from sidecar.shared.model.nouns import OperationId
from sidecar.shared.model.progress import DumpState, Progress, progress_from_json


class MemoryHistory:
    """`OperationHistory` that keeps the JSON texts by id, oldest first. `_states`: as of `surplus`."""

    def __init__(self) -> None:
        self.stored: dict[str, str] = {}
        self._states: dict[OperationId, DumpState] = {}

    def find(self, operation_id: OperationId) -> HistoryEntry | None:
        text = self.stored.get(operation_id)
        return None if text is None else entry_from_json(json.loads(text))

    def entries(self) -> Sequence[HistoryEntry]:
        return [entry_from_json(json.loads(text)) for text in reversed(self.stored.values())]

    def record(self, *entries: HistoryEntry) -> None:
        self.stored |= {entry.id: json.dumps(entry.to_json()) for entry in entries}
        for entry in entries:
            self._states.pop(entry.id, None)
            self._states[entry.id] = entry.state
        for operation_id in surplus(self._states, but={entry.id for entry in entries}):
            del self.stored[operation_id], self._states[operation_id]


class MemoryProgress:
    """`ProgressStore` that keeps the JSON text."""

    def __init__(self) -> None:
        self.stored: str | None = None
        self._history = MemoryHistory()

    @property
    def history(self) -> MemoryHistory:
        return self._history

    def load(self) -> tuple[Progress, ...]:
        return () if self.stored is None else tuple(map(progress_from_json, json.loads(self.stored)))

    def save(self, dumps: Sequence[Progress], entries: Sequence[HistoryEntry] = ()) -> None:
        self.stored = json.dumps([progress.to_json() for progress in dumps])
        self.history.record(*entries)
