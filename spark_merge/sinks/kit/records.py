"""A durable record that is a file of JSON: how it is written, read back, and rejected where it is not what this ticdc-dump wrote."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JsonRecord(Generic[T]):
    """`plain`: an object of JSON with its `version`; `of` is the inverse, and may raise what Python raises for a missing field or a wrong
    type. `versions`: those that can be read. `hint`: what an operator does about one that cannot."""

    plain: Callable[[T], dict[str, Any]]
    of: Callable[[Any], T]
    versions: tuple[int, ...] = (1,)
    hint: str = "restore it, or deliver to a new folder, and dump again"

    def to_json(self, value: T) -> bytes:
        return json.dumps(self.plain(value), separators=(",", ":"), ensure_ascii=False).encode()

    def from_json(self, data: bytes, *, name: str) -> T:
        """Raises SinkError, which names the file, for broken JSON, a missing field or another version."""
        try:
            result = json.loads(data)
            if type(version := result["version"]) is not int or version not in self.versions:
                raise SinkError(
                    f"{name} has format version {version}, this ticdc-dump knows {', '.join(map(str, self.versions))}",
                    hint="run the version that wrote it, or deliver to a new folder",
                )
            return self.of(result)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
            raise SinkError(f"{name} is not readable: {error!r}", hint=self.hint) from error

    def read(self, folder: Folder, path: str) -> T | None:
        """None where there is no such file."""
        return self.read_all(folder, [path]).get(path)

    def read_all(self, folder: Folder, paths: Iterable[str]) -> dict[str, T]:
        """By path, in this order; those that do not exist are omitted."""
        files = storage.read_files(folder, list(paths))
        return {path: self.from_json(data, name=f"{folder}/{path}") for path, data in files.items()}

    def write(self, folder: Folder, path: str, value: T) -> None:
        """In place of what is there."""
        storage.write_atomically(folder, path, self.to_json(value))

    def create(self, folder: Folder, path: str, value: T) -> bool:
        """False where another file has the name."""
        return storage.create_exclusively(folder, path, self.to_json(value))
