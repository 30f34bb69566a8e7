"""Files of dumps that are over, one for each, in a folder beside the log's segments: `{folder}/{dump_id}{suffix}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import OPERATION_ID, OperationId

KEPT_MAX = 1000
"""As many as the history has entries."""


@dataclass(frozen=True, slots=True)
class DumpFiles:
    folder: str
    suffix: str

    def name(self, dump_id: OperationId) -> str:
        return f"{self.folder}/{dump_id}{self.suffix}"

    def ids(self, log: Folder) -> list[OperationId]:
        """Of the dumps that have one, whatever else is in the folder. Raises as the log's storage."""
        names = storage.list_names(log, under=self.folder, deep=False)
        matches = (re.fullmatch(f"({OPERATION_ID}){re.escape(self.suffix)}", name) for name in names)
        return [OperationId(match[1]) for match in matches if match is not None]

    def remove_old(self, log: Folder, newest: Callable[[], Iterable[OperationId]]) -> None:
        """All but KEPT_MAX, those first that are not among `newest`, which is read once the files are listed: so a late owner knows the
        dumps of all that it lists."""
        there = self.ids(log)
        if len(there) > KEPT_MAX:
            known = set(newest())
            old = [one for one in there if one not in known][: len(there) - KEPT_MAX]
            storage.remove(log, map(self.name, old))


CERTIFICATES = DumpFiles("certificates", ".json")
REPORTS = DumpFiles("reports", ".html")
