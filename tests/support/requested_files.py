"""What a test's reader requests of the storage."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder


class Requests:
    """What is requested of the storage: files one by one, and several at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.single: list[str] = []
        self.together: list[list[str]] = []
        read_file, read_files = storage.read_file, storage.read_files

        def one(folder: Folder, name: str) -> bytes:
            self.single.append(name)
            return read_file(folder, name)

        def several(folder: Folder, names: Iterable[str]) -> dict[str, bytes]:
            self.together.append(list(names))
            return read_files(folder, self.together[-1])

        monkeypatch.setattr(storage, "read_file", one)
        monkeypatch.setattr(storage, "read_files", several)
