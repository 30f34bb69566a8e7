"""What is new in the folder that TiCDC's storage sink writes, as messages; one look after another.

**The only promise is `metadata` N: each row with commit_ts <= N is in a data file.** So a look reads `metadata` first, then what is there,
sends the rows of each file that is new, and then a resolved mark N. Rows above N come too, as rows before their mark do in Kafka. Which
files are to be read: unread.py.

- A long backlog has marks on its way: files are read in the order of their first rows, and all that is below the first row of each that is
  still to be read was sent.
- A file that ends within a row can be one that is being written (flush-concurrency > 1, on a disk); one without its schema file, listed
  between the two. It is withheld, with the mark. If it stays so for WITHHELD_S_MAX, it is broken.
- A file that comes after the mark that covers it was hidden from the listing (a cache of NFS): that stops.
- Versions of tables are no order, and the index promises nothing: neither is used.

Sources: pingcap/ticdc pkg/cloudstorage, downstreamadapter/sink/cloudstorage; a real bucket through three SIGKILLs.
"""

from __future__ import annotations

import heapq
import io
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta, Struct, json

from sidecar.feeds.storage.listing import Listing
from sidecar.feeds.storage.names import METADATA, FormFile, RowsFile, Stream
from sidecar.feeds.storage.table_form import TableForm, ddl_message, table_form
from sidecar.feeds.storage.unread import ReadFrom, Unread, UnreadFile
from sidecar.shared.codecs.canal_json import encode_resolved
from sidecar.shared.errors import FeedUnsuitable, MessageUnreadable
from sidecar.shared.log import storage
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Lane, Message
from sidecar.shared.process.progress import side_by_side

LANE = Lane("storage/files")

READ_BYTES_MAX = 64 << 20
"""Of files that are read at once; a larger one alone. TiCDC's own bound of a file is 64 MiB by default, 512 MiB at most."""

FILES_AT_ONCE_MAX = 64

BACKLOG_BYTES = 256 << 20
"""From which on marks come on the way."""

HEAD_BYTES = 64 << 10
"""Of a file, for its first row; more where that is larger."""

HEADS_AT_ONCE = 16

WITHHELD_S_MAX = 60.0


class _FormLacking(Exception):
    """There is no schema file of a version, or there are different ones: what to raise where it stays so."""

    def __init__(self, error: FeedUnsuitable) -> None:
        super().__init__(error.message)
        self.error = error


class _Metadata(Struct, rename="kebab"):
    checkpoint_ts: Annotated[int, Meta(ge=0, le=2**63 - 1)]


_decode_metadata = json.Decoder(_Metadata).decode


class RowsReader(Protocol):
    """How a data file's bytes are messages, for one protocol."""

    def __call__(self, data: bytes, columns: Callable[[], Sequence[str]], *, place: str) -> Iterator[tuple[CommitTs | None, bytes]]:
        """Each row's commit_ts, None where only the codec reads it, and message. `columns`: of the file's schema file. Raises
        MessageUnreadable, where a row is cut off too: what is before it has come then."""
        ...


def checkpoint(folder: Folder) -> CommitTs | None:
    """What `metadata` says; None where there is none yet. Raises MessageUnreadable, and what the storage's errors mean."""
    data = storage.read_if_there(folder, METADATA)
    if not data:
        return None
    try:
        return CommitTs(_decode_metadata(data).checkpoint_ts)
    except msgspec.MsgspecError as error:
        raise MessageUnreadable(
            f"{folder}/{METADATA} is not what TiCDC's storage sink writes: {error}",
            hint="name the folder of the changefeed's sink URI, and see that nothing else writes there",
        ) from error


class BucketReading:
    """What is committed at or above `start` comes, one look after another. `seen_ts`: what `metadata` said at the last look; `times`: as of
    ReadFrom, at the last mark. `form`: the ending of data files. For one thread."""

    def __init__(self, folder: Folder, rows: RowsReader, start: ReadFrom, *, form: str) -> None:
        self.position, self.times = start
        self.seen_ts: CommitTs | None = None
        self._folder, self._rows = folder, rows
        self._listing = Listing(folder)
        self._unread = Unread(folder, start, form=form, first_ts=self._first_ts)
        self._withheld: dict[str, tuple[str, float]] = {}
        """Files that cannot be read yet: tag, and since when."""
        self._form_names: dict[tuple[str, CommitTs], set[str]] = defaultdict(set)
        self._forms: dict[str, TableForm] = {}

    def look(self) -> Iterator[Message]:
        """Nothing where `metadata` is as before. What breaks off is continued by the next look. Raises FeedUnsuitable for files that are
        lost, MessageUnreadable, and what the storage's errors mean."""
        upto_ts = self.seen_ts = checkpoint(self._folder)
        if upto_ts is None or upto_ts <= self.position:
            return
        for form in self._unread.take(self._listing.changes(), upto_ts=upto_ts):
            self._form_names[form.table, form.version].add(form.name)
            self._forms.pop(form.name, None)
        yield from self._ddls()
        withheld, self._withheld = self._withheld, {}
        for files, below_ts in self._parts():
            yield from self._rows_of(files, withheld)
            if below_ts is not None and self._has_all and self.position < below_ts <= upto_ts:
                yield self._mark(below_ts)
        if self._has_all:
            yield self._mark(upto_ts)

    @property
    def _has_all(self) -> bool:
        return not self._unread.gaps and not self._withheld

    def _mark(self, ts: CommitTs) -> Message:
        self.position, self.times = ts, self._unread.marked(ts)
        return Message(LANE, ts, *encode_resolved(ts, round(time.time() * 1000)))

    def _ddls(self) -> Iterator[Message]:
        files = sorted(self._unread.form_files.values(), key=lambda one: (one.version, one.name))
        for start in range(0, len(files), FILES_AT_ONCE_MAX):
            part = files[start : start + FILES_AT_ONCE_MAX]
            data = self._read(part)
            for file in part:
                if (form := table_form(data[file.name], file)).query:
                    yield Message(LANE, self.position, None, ddl_message(form))
                del self._unread.form_files[file.name]

    # ---- in which order ---------------------------------------------------------------------------------------------

    def _parts(self) -> Iterator[tuple[list[UnreadFile], CommitTs | None]]:
        """Files that are read at once; and, of a backlog, the TSO up to which all was sent after them."""
        streams: dict[Stream, deque[UnreadFile]] = defaultdict(deque)
        for one in sorted(self._unread.files.values()):
            if one.file.stream not in self._unread.gaps:
                streams[one.file.stream].append(one)
        if sum(one.entry.size for one in self._unread.files.values()) <= BACKLOG_BYTES:
            yield from ((part, None) for part in _parts_of(one for files in streams.values() for one in files))
            return
        heads = self._heads(streams)
        while heads:
            part, size = list[UnreadFile](), 0
            while heads and (not part or (len(part) < FILES_AT_ONCE_MAX and size + streams[heads[0][1]][0].entry.size <= READ_BYTES_MAX)):
                part.append(streams[heapq.heappop(heads)[1]].popleft())
                size += part[-1].entry.size
            left = {one.file.stream: streams[one.file.stream] for one in part if streams[one.file.stream]}
            for head in self._heads(left):
                heapq.heappush(heads, head)
            yield part, CommitTs(heads[0][0] - 1) if heads else None

    def _heads(self, streams: dict[Stream, deque[UnreadFile]]) -> list[tuple[CommitTs, Stream]]:
        """A heap of the first row of each."""
        with side_by_side(HEADS_AT_ONCE) as readers:
            firsts = list(readers.map(lambda files: self._first_ts(files[0].file) or CommitTs(0), streams.values()))
        heads = list(zip(firsts, streams, strict=True))
        heapq.heapify(heads)
        return heads

    def _first_ts(self, file: RowsFile) -> CommitTs | None:
        """None for a file without a whole row."""
        size, wanted = self._unread.files[file.name].entry.size, min(HEAD_BYTES, READ_BYTES_MAX)
        while size:
            data = storage.read_start(self._folder, file.name, wanted)
            with suppress(MessageUnreadable, _FormLacking):
                if (first := next(self._rows_in(file, data), None)) is not None:
                    return self._commit_ts(file, first)
            if wanted >= size:
                break
            wanted *= 16
        return None

    # ---- what files hold --------------------------------------------------------------------------------------------

    def _rows_of(self, files: Sequence[UnreadFile], withheld: dict[str, tuple[str, float]]) -> Iterator[Message]:
        data = self._read([one.file for one in files])
        for file, entry, late in files:
            try:
                for row in self._rows_in(file, data[file.name]):
                    if late and self._unread.read_ts < self._commit_ts(file, row) <= self.position:
                        raise self._hidden(file)
                    if row[0] is None or row[0] > self._unread.read_ts:
                        yield Message(LANE, self.position, None, row[1])
            except (MessageUnreadable, _FormLacking) as error:
                tag, since_s = withheld.get(file.name, ("", 0.0))
                self._withheld[file.name] = entry.tag, since_s if tag == entry.tag else time.monotonic()
                if time.monotonic() - self._withheld[file.name][1] > WITHHELD_S_MAX:
                    raise (error.error if isinstance(error, _FormLacking) else error) from None
            else:
                self._unread.done(file)

    def _read(self, files: Sequence[RowsFile] | Sequence[FormFile]) -> dict[str, bytes]:
        data = storage.read_files(self._folder, [file.name for file in files])
        if lost := [file.name for file in files if file.name not in data]:
            raise self._unread.lost(lost[0])
        return data

    def _rows_in(self, file: RowsFile, data: bytes) -> Iterator[tuple[CommitTs | None, bytes]]:
        return self._rows(data, lambda: self._columns(file), place=f"{self._folder}/{file.name}")

    def _columns(self, file: RowsFile) -> Sequence[str]:
        """Where there are several schema files of one version, all have the same."""
        names = sorted(self._form_names.get((file.table, file.version), ()))
        for name in names:
            if name not in self._forms:
                data = storage.read_if_there(self._folder, name)
                if data is None:
                    raise self._unread.lost(name)
                self._forms[name] = table_form(data, FormFile(file.table, file.version, name))
        columns = {self._forms[name].columns for name in names}
        if len(columns) == 1:
            return columns.pop()
        what = f"{len(columns)} different schema files" if columns else "no schema file"
        error = FeedUnsuitable(
            f"{self._folder}/{file.name}: there is {what} {file.table}/meta/schema_{file.version}_….json",
            hint="put the one that TiCDC wrote back. TiCDC writes what is in the folders `meta` once: let no lifecycle rule remove it",
        )
        raise _FormLacking(error)

    def _commit_ts(self, file: RowsFile, row: tuple[CommitTs | None, bytes]) -> CommitTs:
        if row[0] is not None:
            return row[0]
        try:
            return _decode_row(row[1]).tidb.commit_ts
        except (ValueError, RecursionError) as error:
            raise MessageUnreadable(
                f"{self._folder}/{file.name} holds what is no row of canal-json with `_tidb.commitTs`: {error}",
                hint="let the changefeed write with enable-tidb-extension=true; if it does, report TiCDC's version and this file",
            ) from error

    def _hidden(self, file: RowsFile) -> FeedUnsuitable:
        return FeedUnsuitable(
            f"{self._folder}/{file.name} was written before `metadata` said that all up to {self.position} is there, and was listed after"
            " that: rows of it were passed",
            hint="listings of this folder are cached: mount it with actimeo=0 (or noac), and copy no data files into it. The rows of that"
            " file are lacking: deploy/RETENTION.md has the steps (a new log, empty targets, a dump)",
        )


class _Tidb(Struct, rename="camel"):
    commit_ts: CommitTs


class _Row(Struct):
    tidb: _Tidb = msgspec.field(name="_tidb")


_decode_row = json.Decoder(_Row).decode


def _parts_of(files: Iterable[UnreadFile]) -> Iterator[list[UnreadFile]]:
    part, size = list[UnreadFile](), 0
    for one in files:
        if part and (size + one.entry.size > READ_BYTES_MAX or len(part) >= FILES_AT_ONCE_MAX):
            yield part
            part, size = [], 0
        part.append(one)
        size += one.entry.size
    if part:
        yield part


def lines(data: bytes, columns: Callable[[], Sequence[str]], *, place: str) -> Iterator[tuple[None, bytes]]:  # noqa: ARG001 - they are named
    """A row a line: canal-json."""
    for line in io.BytesIO(data):
        if not line.endswith(b"\n"):
            raise MessageUnreadable(f"{place} ends within a row", hint="see whether it was copied in part; TiCDC writes whole files")
        if message := line.rstrip(b"\r\n"):
            yield None, message
