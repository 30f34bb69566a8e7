"""Reading the log: manifests by exact name, rows and schemas by the names in them.

A poll requests the next manifest by its name and lists nothing; only the start of a log needs a listing. What is
missing is never taken for "nothing new" when later segments exist, or when the position itself is retained away (P6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from itertools import accumulate, takewhile
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.shared.errors import LogBroken, SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.layout import WAY_OUT, logged_schemas, manifest_name, missing_files, of_segment
from sidecar.shared.log.manifest import DATA_COLUMNS, Manifest
from sidecar.shared.log.manifests import MANIFESTS_AT_ONCE_MAX, decoded, kept, manifest_files
from sidecar.shared.log.storage import Folder, bare, log_error
from sidecar.shared.model.nouns import Seq, TableName, TableSchema
from sidecar.shared.process.progress import progressed

WHOLE_FILE_BYTES_MAX = 4 << 20
"""Of a segment's rows that are read by one request, where each request waits for the network."""

FILES_AT_ONCE_MAX, AHEAD_BYTES_MAX = 16, 8 << 20
"""Of such files that are requested at the same time, and held until they are read."""

_TYPES = {"ordinal": pa.int64(), "commit_ts": pa.int64(), "key": pa.binary(), "value": pa.binary(), "position": pa.int64()}
_COLUMNS = [(name, _TYPES.get(name, pa.string())) for name in DATA_COLUMNS]
NO_ROWS = pa.schema(_COLUMNS).empty_table()

BATCH_BYTES_MAX = 32 << 20
"""Of a Parquet file's rows that are read at once, as its footer says: unpacked, text that is in a dictionary once."""


def new_manifests(log: Folder, *, after: Seq | None, limit: int) -> list[Manifest]:
    """The segments after `after`, in order and without a gap, at most `limit`; empty when there is nothing new. As of `of_segment`.

    `after` None: from the first segment that is kept. `after` -1: from segment 0, which must not be retained away.
    Raises LogBroken for a gap or an unreadable manifest, and SinkError for a position before what retention has kept: then the log is
    whole, and one sink cannot continue.
    """
    manifests: list[Manifest] = []
    requested = 1
    first = Seq(kept(log).start) if after is None else Seq(after + 1)
    while len(manifests) < limit:
        batch = _run(log, Seq(first + len(manifests)), min(requested, limit - len(manifests)))
        manifests += batch
        if len(batch) < requested:
            break
        requested = min(requested * 4, MANIFESTS_AT_ONCE_MAX)
    if not manifests and limit > 0:
        _check_nothing_is_lost(log, first, after)
    return manifests


def beginning(log: Folder) -> Seq:
    """The first segment for a sink that has none. Where retention has removed segments, it is the first one behind which no window reaches
    back to before it: the changes of such a window are not all in the log. The answer stays the same until segments are removed again,
    which waits for that sink. Raises LogBroken, and SinkError while such a window is open."""
    first = seq = Seq(kept(log).start)
    if not first:
        return first
    open_from: Seq | None = None
    after = Seq(first - 1)
    while manifests := new_manifests(log, after=after, limit=MANIFESTS_AT_ONCE_MAX):
        for manifest in manifests:
            if any(window.first_seq < seq for window in manifest.windows):
                seq = Seq(manifest.seq + 1)
        after, open_from = manifests[-1].seq, manifests[-1].open_from
    if open_from is not None and open_from < seq:
        raise SinkError(
            f"a sink that is new to segment log {log} cannot begin yet: a window of a dump may be open since segment {open_from}, and the"
            f" segments before {first} were removed",
            hint="nothing: the sink begins as soon as such windows have closed; dumppause closes them all",
        )
    return seq


def read_schemas(log: Folder, path: str) -> dict[TableName, TableSchema]:
    """Raises LogBroken."""
    with _reading(log, path) as folder:
        data = storage.read_file(folder, path)
    return logged_schemas(log, path, data)


class SmallFiles:
    """Segments' files that are read one after another, where each request waits for the network: with the one that is wanted the next ones
    are requested, at the same time. `manifests`: those that will be wanted, in that order; what is passed over is given up. For one
    thread."""

    def __init__(self, log: Folder, manifests: Iterable[Manifest]) -> None:
        self._log = log.opened_for(bare)
        self._waiting = [one for one in manifests if _is_small(log, one)]
        self._held: dict[str, bytes] = {}

    def take(self, manifest: Manifest) -> bytes | None:
        """None: it is to be read alone, as it was not to be wanted or has been taken, or could not be read with others."""
        name = str(manifest.data)
        if name not in self._held and manifest in self._waiting:
            self._request(self._waiting.index(manifest))
        return self._held.pop(name, None)

    def _request(self, place: int) -> None:
        sizes = accumulate(one.bytes for one in self._waiting[place : place + FILES_AT_ONCE_MAX])
        end = place + max(1, sum(size <= AHEAD_BYTES_MAX for size in sizes))
        requested, self._waiting = self._waiting[place:end], self._waiting[end:]
        self._held = {}
        with suppress(storage.Refused):  # of one of them: who reads that one alone can name it
            self._held = storage.read_files(self._log, [str(one.data) for one in requested])


def iter_rows(
    log: Folder, manifest: Manifest, *, columns: Sequence[str] = DATA_COLUMNS, within: range | None = None, files: SmallFiles | None = None
) -> Iterator[pa.Table]:
    """These columns of the segment's rows, all or those of the ordinals `within`, a row group at a time. Raises LogBroken."""
    if manifest.data is None:
        return
    with _reading(log, manifest.data) as folder, _opened(folder, manifest, files) as file, whole_pages(file) as parquet:
        _check_rows(log, manifest, parquet)
        start, wanted = 0, range(manifest.rows) if within is None else within
        for group in range(parquet.metadata.num_row_groups):
            stop = start + parquet.metadata.row_group(group).num_rows
            first, last = max(start, wanted.start), min(stop, wanted.stop)
            if first < last:
                yield parquet.read_row_group(group, columns=list(columns)).slice(first - start, last - first)
                progressed()
            start = stop


def _opened(log: Folder, manifest: Manifest, files: SmallFiles | None) -> AbstractContextManager[IO[bytes]]:
    """To open a file to read it anywhere takes a request more: for its size, which the manifest says."""
    name = str(manifest.data)
    if not _is_small(log, manifest):
        return storage.open_to_read(log, name)
    data = None if files is None else files.take(manifest)
    return BytesIO(storage.read_file(log, name) if data is None else data)


def _is_small(log: Folder, manifest: Manifest) -> bool:
    return log.protocol != "file" and manifest.data is not None and manifest.bytes <= WHOLE_FILE_BYTES_MAX


def read_rows(log: Folder, manifest: Manifest, within: range | None = None) -> pa.Table:
    """DATA_COLUMNS of the segment's rows, all or those of the ordinals `within`. Raises LogBroken."""
    return pa.concat_tables([*iter_rows(log, manifest, within=within)] or [NO_ROWS])


def whole_pages(file: IO[bytes]) -> pq.ParquetFile:
    """A Parquet file of the log: a page that is not as it was written is an error, never other data."""
    return pq.ParquetFile(file, page_checksum_verification=True)


def batches_of(
    parquet: pq.ParquetFile, *, columns: Sequence[str], groups: Sequence[int] | None = None, rows_max: int = 65_536
) -> Iterator[tuple[int, pa.Table]]:
    """The rows of some row groups, all if None, with the place of the first one in the file. Of each group as many at once as are about
    BATCH_BYTES_MAX unpacked, at least one and at most `rows_max`. Each of them is progress: whatever reads Parquet reads it here."""
    first = 0
    for number in range(parquet.metadata.num_row_groups):
        group = parquet.metadata.row_group(number)
        if groups is None or number in groups:
            at, fitting = first, group.num_rows * BATCH_BYTES_MAX // max(group.total_byte_size, 1)
            for batch in parquet.iter_batches(max(1, min(rows_max, fitting)), row_groups=[number], columns=list(columns)):
                yield at, pa.Table.from_batches([batch])
                at += batch.num_rows
                progressed()
        first += group.num_rows


def _check_rows(log: Folder, manifest: Manifest, parquet: pq.ParquetFile) -> None:
    if _columns(parquet.schema_arrow) != _COLUMNS:
        raise LogBroken(f"segment log {log}: {manifest.data} has other columns than a segment's", hint=WAY_OUT)
    if parquet.metadata.num_rows != manifest.rows:
        raise LogBroken(
            f"segment log {log}: {manifest.data} has {parquet.metadata.num_rows} rows, its manifest says {manifest.rows}",
            hint=WAY_OUT,
        )


def _columns(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, field.type) for field in schema]


@dataclass(frozen=True, slots=True)
class LoggedSchemas(Mapping[TableName, TableSchema]):
    """A schemas file of the log as a mapping: small to send to tasks, read once in each process. Its name is made of its
    content, so what was read never goes stale."""

    log: Folder
    name: str

    def __getitem__(self, table: TableName) -> TableSchema:
        return _schemas_read(self.log, self.name)[table]

    def __iter__(self) -> Iterator[TableName]:
        return iter(_schemas_read(self.log, self.name))

    def __len__(self) -> int:
        return len(_schemas_read(self.log, self.name))


def _schemas_read(log: Folder, name: str) -> Mapping[TableName, TableSchema]:
    place = (str(log), name)
    if (schemas := _SCHEMAS_KEPT.get(place)) is None:
        schemas = read_schemas(log, name)
        tables = sum(map(len, [*_SCHEMAS_KEPT.values(), schemas]))
        if len(_SCHEMAS_KEPT) >= (SCHEMAS_KEPT_MAX if tables <= TABLES_KEPT_MAX else SCHEMAS_KEPT_MIN):
            _SCHEMAS_KEPT.clear()
        _SCHEMAS_KEPT[place] = schemas
    return schemas


SCHEMAS_KEPT_MAX, SCHEMAS_KEPT_MIN = 32, 8
TABLES_KEPT_MAX = 50_000
"""Of all files that are kept, 3 kB each: a process lives for months, and each DDL makes a new file of all tables. As many files as several
sinks need at once are kept however many tables they have."""

_SCHEMAS_KEPT: dict[tuple[str, str], Mapping[TableName, TableSchema]] = {}


@contextmanager
def _reading(log: Folder, name: str) -> Iterator[Folder]:
    """The folder, in which a file that a manifest names is read: what the storage's and Parquet's errors mean of such a file."""
    try:
        yield log.opened_for(bare)
    except storage.Absent as error:
        raise missing_files(log, [name]) from error
    except (storage.StorageError, pa.ArrowException, UnicodeDecodeError) as error:
        numbered = getattr(error.__cause__, "errno", None) is not None  # the storage's own; Parquet's have no number
        if isinstance(error, pa.ArrowInvalid | UnicodeDecodeError) or (isinstance(error, storage.Refused) and not numbered):
            raise LogBroken(f"segment log {log}: {name} is not readable: {error}", hint=WAY_OUT) from error
        raise log_error(f"segment log {log}: {name}", "", error) from error


def _run(log: Folder, first: Seq, count: int) -> list[Manifest]:
    """The manifests from `first` up to the first one that is missing."""
    there = list(manifest_files(log, range(first, first + count)))
    in_a_row = takewhile(lambda one: one[1] is not None, there)
    run = [of_segment(decoded(log, seq, data)) for seq, data in in_a_row if data is not None]
    if len(run) < sum(data is not None for _, data in there):  # a later one is there: this one came while they were read, or it is lost
        missing = manifest_name(there[len(run)][0])
        if not storage.exists(log, missing):
            raise missing_files(log, [missing])
    return run


def _check_nothing_is_lost(log: Folder, first: Seq, after: Seq | None) -> None:
    """No manifest `first`: right if the one before it is the log's last. Retention keeps what a sink stands on."""
    if after is None:
        return
    if after < 0:
        lost = bool(kept(log).start)
    else:
        lost = not storage.exists(log, manifest_name(after)) or storage.exists(log, manifest_name(Seq(first + 1)))
    if not lost or storage.exists(log, manifest_name(first)):
        return
    start = kept(log).start
    if 0 < first < start:
        raise SinkError(
            f"the output has segments up to {after}, and segment log {log} is kept from {start} on: the sink was away for longer than the"
            " log's retention",
            hint="name a new output for the sink and dump again: it cannot continue without the removed segments",
        )
    raise missing_files(log, [manifest_name(first)])
