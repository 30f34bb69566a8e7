"""A file that is hashed while it is written, so that it is not read again for its hash."""

from __future__ import annotations

import hashlib
from typing import IO


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class HashedFile:
    """What pyarrow and plain writers need of a file to write; it closes nothing. Bytes are written in their order, and once."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._hash = file, hashlib.sha256()

    def write(self, data: bytes | memoryview) -> int:
        self._hash.update(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """The file is closed by its opener."""

    def sha256(self) -> str:
        """Of what was written so far, in hex."""
        return self._hash.hexdigest()
