"""One flipped bit in a segment or a chunk, of area 4, again and again: an error, or the rows that were written. Never other rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa

from sidecar.shared.errors import TicdcDumpError
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Change, Column, CommitTs, Lane, Rank, Seq, TableName, TableSchema
from spark_merge.log.read import read_rows
from spark_merge.merge.task import open_chunk
from spark_merge.port.contract import DueChunk
from tests.tools.hostile.attempts import Attempt, Fault, Outcome

FLIPS, FLIPS_AT_ONCE = 1_500, 100
ROWS = 2_000
CHANGE = Change(CommitTs(1), Rank.PUT, "shop", "orders", b"k", b"v", Lane("kafka/orders/1"), 1)
TABLE = TableName("shop", "orders")
SCHEMA = TableSchema(TABLE, (Column("id", "int"), Column("v", "text")), ("id",))
CHUNK = "chunks/d/0000000001-00000000.parquet"


def attempts(folder: Path) -> Iterator[Attempt]:
    log = FolderLog(open_folder(str(folder)))
    log.recover(epoch=1)
    changes = [CHANGE._replace(key=b"%d" % number, value=b"a row's %d text" % (number * number)) for number in range(ROWS)]
    data = log.write_data(Seq(0), epoch=1, codec="canal-json", changes=changes)
    manifest = Manifest(Seq(0), 1, CommitTs(0), CommitTs(1), data.name, data.rows, data.bytes, {}, "schemas/x.json", "canal-json")
    rows = pa.table({"id": [str(number) for number in range(ROWS)], "v": [f"text {number * number}" for number in range(ROWS)]})
    write_chunk(log.folder, CHUNK, rows)
    due, keys = DueChunk(TABLE, CommitTs(0), CommitTs(9), Seq(0), Seq(0), 0, "d", CHUNK, ROWS), pa.array([], pa.string())
    yield from _flipped(folder / str(data.name), lambda: read_rows(log.folder, manifest), "segment")
    yield from _flipped(folder / CHUNK, lambda: next(open_chunk(log.folder, SCHEMA, due, keys)).survivors.rows, "chunk")


def _flipped(path: Path, read: Callable[[], pa.Table], what: str) -> Iterator[Attempt]:
    whole, right = path.read_bytes(), read()
    for start in range(0, FLIPS, FLIPS_AT_ONCE):
        seed = int(hashlib.sha256(f"{what} {start}".encode()).hexdigest()[:8], 16)
        tried = partial(_each, path, whole, right, read, seed)
        yield Attempt(f"flips: {what}, seed {seed}", tried, within_s=60.0, inputs=FLIPS_AT_ONCE, whole=start > 0)


def _each(path: Path, whole: bytes, right: pa.Table, read: Callable[[], pa.Table], seed: int) -> Outcome:
    random, other = Random(seed), list[str]()
    for _ in range(FLIPS_AT_ONCE):
        place, bit = random.randrange(len(whole)), random.randrange(8)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
        try:
            if not read().equals(right):
                other.append(f"byte {place} of {len(whole)}, bit {bit}")
        except TicdcDumpError:
            continue
    path.write_bytes(whole)
    if other:
        raise Fault(Outcome.ACCEPTED, f"other rows: {'; '.join(other)}")
    return Outcome.REFUSED
