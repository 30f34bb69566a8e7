"""Sorted runs of changes outside of memory (design 4): a file that has no name, so that a crash leaves nothing behind."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from typing import IO

import msgspec

from sidecar.core.model import Change, CommitTs, Lane, Rank
from sidecar.errors import StorageFull

BLOCK_ROWS = 1000
"""Changes encoded together: large enough to be quick, small enough not to matter in memory."""


class FileSpill:
    """Spills to `folder` (None: the system's temporary folder). Raises StorageFull when there is no room."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder

    def write(self, run: list[Change]) -> Iterator[Change]:
        encode = msgspec.msgpack.Encoder().encode
        try:
            file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  # the reader closes it
            for start in range(0, len(run), BLOCK_ROWS):
                block = encode(run[start : start + BLOCK_ROWS])
                file.write(len(block).to_bytes(8, "big") + block)
            file.seek(0)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StorageFull(
                    f"no room to spill {len(run)} changes to {self._folder or tempfile.gettempdir()}",
                    hint="make room there or set spill_folder to a larger disk; nothing is lost, the feed is read again",
                ) from error
            raise
        return _read(file)


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
