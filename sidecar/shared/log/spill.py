"""Sorted runs of changes outside of memory: a file that has no name, so that a crash leaves nothing behind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import IO

import msgspec

from sidecar.shared.errors import ConfigError
from sidecar.shared.log.storage.errors import by_errno, log_error
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Rank

BLOCK_ROWS = 1000
"""Changes encoded together: large enough to be quick, small enough not to matter in memory."""


class FileSpill:
    """Spills to `folder` (None: the system's temporary folder). Raises ConfigError for a folder that is none or cannot be written
    at once, not when the first change has to wait there; and as `log_error`."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder or tempfile.gettempdir()
        if why := folder_problem(self._folder):
            raise ConfigError(
                f"log.spill_folder {self._folder} cannot be written: {why}", hint="give a folder of a local disk that this user may write"
            )

    def write(self, run: list[Change]) -> Iterator[Change]:
        encode = msgspec.msgpack.Encoder().encode
        try:
            file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  # the reader closes it
            for start in range(0, len(run), BLOCK_ROWS):
                block = encode(run[start : start + BLOCK_ROWS])
                file.write(len(block).to_bytes(8, "big") + block)
            file.seek(0)
        except OSError as error:
            place, known = f"{self._folder} (log.spill_folder), for {len(run)} changes that wait,", by_errno(error)
            raise log_error(place, "", known) from error
        return _read(file)


def folder_problem(folder: str) -> str:
    """Why nothing can be written there; empty if it can."""
    if not os.path.isdir(folder):
        return "it is no folder"
    return "" if os.access(folder, os.W_OK | os.X_OK) else "this user may not write it"


def _read(file: IO[bytes]) -> Iterator[Change]:
    decode = msgspec.msgpack.Decoder(list[tuple[int, int, str, str, bytes, bytes, str, int]]).decode
    with file:
        while size := file.read(8):
            for ts, rank, schema, table, key, value, lane, position in decode(file.read(int.from_bytes(size, "big"))):
                yield Change(CommitTs(ts), Rank(rank), schema, table, key, value, Lane(lane), position)


class MemorySpill:
    """The in-memory twin: keeps the runs where they are."""

    def write(self, run: list[Change]) -> Iterator[Change]:
        return iter(run)
