"""The dumps' progress in one JSON file, for a sidecar without etcd. The log's projection: it may be behind, or deleted."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sidecar.adapters.memory.progress import MemoryHistory
from sidecar.history.entry import HistoryEntry
from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder, log_error
from sidecar.shared.model.progress import Progress, progress_from_json


class FileProgress:
    """`ProgressStore` in the file `name` of a folder. Its history is this process's: nobody lists a replay."""

    def __init__(self, folder: Folder, name: str = "progress.json") -> None:
        self.history = MemoryHistory()
        self.folder = folder.opened_for(lambda _, file, error: log_error(self, file, error))
        self.name = name

    def load(self) -> tuple[Progress, ...]:
        """Raises LogBroken for a file that cannot be read or is not one's progress."""
        data = storage.read_if_there(self.folder, self.name)
        if data is None:
            return ()
        try:
            return tuple(map(progress_from_json, json.loads(data)))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise LogBroken(
                f"{self} is not a dump's progress: {error!r}",
                hint="delete the file: it only repeats what the log holds, and is written again from there",
            ) from error

    def save(self, dumps: Sequence[Progress], entries: Sequence[HistoryEntry] = ()) -> None:
        data = json.dumps([progress.to_json() for progress in dumps], ensure_ascii=False, separators=(",", ":")).encode()
        storage.write_atomically(self.folder, self.name, data)
        self.history.record(*entries)

    def __str__(self) -> str:
        return f"progress file {self.folder}/{self.name}"
