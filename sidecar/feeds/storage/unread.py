"""Which files are to be read: what came since the last look, and what is missing among it.

- **Where reading continues from a TSO, files last written before it need not be read**: a row is written after it is committed.
  `SLACK_MS` is between TiDB's clock and the storage's; where `metadata` itself is further ahead of its file's time, nothing is passed over.
- A file whose size or tag is another one was written again (TiCDC does, after a crash): it is read again, and what came before is a repeat.
- A number that is missing in front of a file that is there: TiCDC may have written both while they were listed, so that look has no mark.
  If the next one lacks it too, its rows are lost, unless the file behind it begins with a row that need not come. (What one writer writes
  rises, and after a restart it comes again from a checkpoint below.)
- What is lowest at the first look is no gap: retention has removed what was before it, which is older.
- Numbers say nothing of a folder that is gone, nor of the last file in one. So a log keeps when the newest file of all that it has was
  written, or the oldest one that it lacks: one that is as old must be there, unless the folder's `metadata` is hardly newer than
  it was then: nothing expires within a day.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sidecar.feeds.storage.names import METADATA, FormFile, RowsFile, Stream, file_of, is_odd
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.log.storage import Changes, FileEntry, Folder
from sidecar.shared.model.nouns import CommitTs, physical_ms, utc

SLACK_MS = 600_000
"""How far the storage's clock may be behind TiDB's."""

LOST_HINT = (
    "if the file is somewhere, put it back under its name; if TiCDC died or was upgraded while it wrote it, put an empty one there: its"
    " rows came again under the next number. Else they are lost to every reader of this folder: deploy/RETENTION.md has the steps (a new"
    " log, empty targets, a dump)"
)


EXPIRY_MS_MIN = 86_400_000
"""Of S3's lifecycle rules, and of TiCDC's own (file-expiration-days)."""


class FolderTimes(NamedTuple):
    """By the storage's own clock, in ms, 0 where not known. `witness_ms`: a file that was last written by then must be there as long as the
    log's position needs what came later. `metadata_ms`: when `metadata` was written that says so."""

    witness_ms: int = 0
    metadata_ms: int = 0


class ReadFrom(NamedTuple):
    """What is committed at or above `position` is to come. `times`: of the folder, when the log had come so far."""

    position: int
    times: FolderTimes = FolderTimes()


class UnreadFile(NamedTuple):
    file: RowsFile
    entry: FileEntry
    late: bool
    """It was there before the last mark, and was not listed."""


class Unread:
    """Each file that was listed takes some 300 bytes here and in the listing, for as long as the term lasts. `first_ts`: the commit_ts of a
    file's first row, None where it has none. `form`: the ending of data files."""

    def __init__(self, folder: Folder, start: ReadFrom, *, form: str, first_ts: Callable[[RowsFile], CommitTs | None]) -> None:
        self.read_ts = self._sent_ts = CommitTs(max(0, start.position - 2))
        self.form_files: dict[str, FormFile] = {}
        self.files: dict[str, UnreadFile] = {}
        self.gaps: dict[Stream, str] = {}
        """Where one is missing: the name of the file behind it."""
        self._folder, self._start, self._form, self._first_ts = folder, start, form, first_ts
        self._is_first = True
        self._last: dict[Stream, int] = {}
        self._seen: set[str] = set()
        self._newest_ms = self._metadata_ms = self._marked_ms = self._before_ms = 0

    def take(self, changes: Changes, *, upto_ts: CommitTs) -> Iterator[FormFile]:
        """Of the schema files all that are new. Raises FeedUnsuitable for what is lost, and what cannot be read."""
        is_first, self._is_first, self._before_ms = self._is_first, False, self._metadata_ms
        for entry in changes.now:
            if entry.name == METADATA:
                self._metadata_ms = entry.modified_ms
        skips = is_first and physical_ms(upto_ts) <= self._metadata_ms + SLACK_MS
        for name in changes.gone:
            if name in self.files:
                raise self.lost(name)
        for entry in changes.now:
            file = file_of(entry.name)
            if isinstance(file, FormFile):
                if file.version > self.read_ts:
                    self.form_files[file.name] = file
                yield file
            elif file is not None or is_odd(entry.name):
                self._take_file(entry, file, is_over=skips and entry.modified_ms < physical_ms(self.read_ts) - SLACK_MS)
        if is_first:
            self._check_witness(changes.now)
            self._begin_streams()
        self._check_gaps()

    def marked(self, ts: CommitTs) -> FolderTimes:
        """All up to `ts` was sent, with a mark."""
        self._sent_ts = ts
        if self.files:
            return FolderTimes(min(one.entry.modified_ms for one in self.files.values()), self._metadata_ms)
        self._marked_ms = self._before_ms
        return FolderTimes(self._newest_ms, self._metadata_ms)

    def done(self, file: RowsFile) -> None:
        del self.files[file.name]
        self._passed(file)

    def lost(self, what: str) -> FeedUnsuitable:
        what = f"{self._folder}/{what} is gone, and its rows after {self.read_ts} ({utc(self.read_ts)}) were not read"
        return FeedUnsuitable(what, hint=LOST_HINT)

    def _take_file(self, entry: FileEntry, file: RowsFile | None, *, is_over: bool) -> None:
        self._newest_ms = max(self._newest_ms, entry.modified_ms)
        is_new = entry.name not in self._seen
        self._seen.add(entry.name)
        if file is not None and is_over:
            self._passed(file)
        elif file is not None and file.form == self._form:
            late = is_new and entry.modified_ms < self._marked_ms
            self.files[entry.name] = UnreadFile(file, entry, late)
        elif not is_over:
            raise FeedUnsuitable(
                f"{self._folder}/{entry.name} is called like a data file, and is not a .{self._form} where TiCDC writes them",
                hint="remove it, if TiCDC did not write it; if the changefeed's protocol was another one before, create the changefeed"
                " again, with a new folder and a new log",
            )

    def _passed(self, file: RowsFile) -> None:
        self._last[file.stream] = max(self._last.get(file.stream, 0), file.number)

    def _check_witness(self, entries: Sequence[FileEntry]) -> None:
        known_ms, metadata_ms = self._start.times
        if self._metadata_ms < metadata_ms + EXPIRY_MS_MIN:
            return
        if known_ms and not any(entry.modified_ms <= known_ms for entry in entries if isinstance(file_of(entry.name), RowsFile)):
            raise FeedUnsuitable(
                f"{self._folder} has no file that is as old as the newest one that the log has: files were removed, and perhaps some"
                " that were not read",
                hint="name the folder that the log was made from; if this is it, deploy/RETENTION.md has the steps (a new log, empty"
                " targets, a dump). Let no lifecycle rule, and no file-expiration-days, remove files sooner than the sidecar may ever be"
                " stopped",
            )

    def _begin_streams(self) -> None:
        for file in sorted(one.file for one in self.files.values()):
            self._last.setdefault(file.stream, file.number - 1)

    def _check_gaps(self) -> None:
        """Which streams lack a number. Raises FeedUnsuitable for one that was lacking at the last look too."""
        streams: dict[Stream, list[RowsFile]] = defaultdict(list)
        for one in self.files.values():
            streams[one.file.stream].append(one.file)
        before, self.gaps = self.gaps, {}
        for stream, files in streams.items():
            behind = next((file for file in self._behind_gaps(sorted(files)) if not self._need_not_come(file)), None)
            if behind is None:
                continue
            if before.get(stream) == behind.name:
                raise self.lost(f"{stream.folder}: the file before {behind.name.rpartition('/')[2]}")
            self.gaps[stream] = behind.name

    def _need_not_come(self, behind: RowsFile) -> bool:
        """What was before this file."""
        first_ts = self._first_ts(behind)
        return first_ts is not None and first_ts <= self._sent_ts

    def _behind_gaps(self, files: Sequence[RowsFile]) -> Iterator[RowsFile]:
        """Of these files of a stream, by number, each before which one is missing. An empty one shows nothing: the next one does."""
        last, is_missing = self._last.get(files[0].stream, 0), False
        for file in files:
            is_missing |= file.number > last + 1
            last = max(last, file.number)
            if is_missing and self.files[file.name].entry.size:
                yield file
                is_missing = False
