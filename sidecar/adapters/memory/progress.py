"""The progress store's twin in memory: it keeps the bytes that would be written."""

from __future__ import annotations

import json

from sidecar.core.progress import Progress, progress_from_json


class MemoryProgress:
    """`ProgressStore` that keeps the JSON text."""

    def __init__(self) -> None:
        self.stored: str | None = None

    def load(self) -> Progress | None:
        return None if self.stored is None else progress_from_json(json.loads(self.stored))

    def save(self, progress: Progress) -> None:
        self.stored = json.dumps(progress.to_json())
