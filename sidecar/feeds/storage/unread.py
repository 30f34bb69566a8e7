"""Which files are to be read: what came since the last look, and what is missing among it.

- **Where reading continues from a TSO, files last written before it need not be read**: a row is written after it is committed.
  `SLACK_MS` is between TiDB's clock and the storage's; where `metadata` itself is further ahead of its file's time, nothing is passed over.
- A file whose size or tag is another one was written again (TiCDC does, after a crash): it is read again, and what came before is a repeat.
- A number that is missing in front of a file that is there: TiCDC may have written both while they were listed, so that look has no mark.
  If the next one lacks it too, its rows are lost, unless the file behind it begins with a row that need not come. (What one writer writes
  rises, and after a restart it comes again from a checkpoint below.)
- Numbers say nothing of a folder that is gone, nor of the last file in one. So a log keeps when the newest file of all that it has was
  written: one that is as old must be there.
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


class ReadFrom(NamedTuple):
    """What is committed at or above `position` is to come. `newest_ms`: when the newest file that the log has was written, by the storage's
    clock; 0: not known."""

    position: int
    newest_ms: int = 0


class UnreadFile(NamedTuple):
    file: RowsFile
    entry: FileEntry
    late: bool
    """It was there before the last mark, and was not listed."""


class Unread:
    """`first_ts`: the commit_ts of a file's first row, None where it has none. `form`: the ending of data files."""

    def __init__(self, folder: Folder, start: ReadFrom, *, form: str, first_ts: Callable[[RowsFile], CommitTs | None]) -> None:
        self.read_ts = CommitTs(max(0, start.position - 2))
        self.newest_ms = 0
        self.form_files: dict[str, FormFile] = {}
        self.files: dict[str, UnreadFile] = {}
        self.gaps: dict[Stream, str] = {}
        """Where one is missing: the name of the file behind it."""
        self._folder, self._start, self._form, self._first_ts = folder, start, form, first_ts
        self._is_first = True
        self._last: dict[Stream, int] = {}
        self._metadata_ms = self._marked_ms = 0

    def take(self, changes: Changes, *, upto_ts: CommitTs) -> Iterator[FormFile]:
        """Of the schema files all that are new. Raises FeedUnsuitable for what is lost, and what cannot be read."""
        for entry in changes.now:
            if entry.name == METADATA:
                self._metadata_ms = entry.modified_ms
        skips = self._is_first and physical_ms(upto_ts) <= self._metadata_ms + SLACK_MS
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
        if self._is_first:
            self._check_witness(changes.now)
        self._check_gaps()
        self._is_first = False

    def marked(self) -> None:
        """All that there is was sent, with a mark."""
        self._marked_ms = self._metadata_ms

    def done(self, file: RowsFile) -> None:
        del self.files[file.name]
        self._passed(file)

    def lost(self, what: str) -> FeedUnsuitable:
        what = f"{self._folder}/{what} is gone, and its rows after {self.read_ts} ({utc(self.read_ts)}) were not read"
        return FeedUnsuitable(what, hint=LOST_HINT)

    def _take_file(self, entry: FileEntry, file: RowsFile | None, *, is_over: bool) -> None:
        self.newest_ms = max(self.newest_ms, entry.modified_ms)
        if file is not None and is_over:
            self._passed(file)
        elif file is not None and file.form == self._form:
            late = not self._is_first and entry.name not in self.files and entry.modified_ms < self._marked_ms
            self.files[entry.name] = UnreadFile(file, entry, late)
        elif not is_over:
            raise FeedUnsuitable(
                f"{self._folder}/{entry.name} is no file of {self._form} where one is expected: what it holds is not read",
                hint="was the protocol another one before? Create the changefeed again, with a new folder and a new log",
            )

    def _passed(self, file: RowsFile) -> None:
        self._last[file.stream] = max(self._last.get(file.stream, 0), file.number)

    def _check_witness(self, entries: Sequence[FileEntry]) -> None:
        known_ms = self._start.newest_ms
        if known_ms and not any(entry.modified_ms <= known_ms for entry in entries if isinstance(file_of(entry.name), RowsFile)):
            raise FeedUnsuitable(
                f"{self._folder} has no file that is as old as the newest one that the log has: files were removed, and perhaps some"
                " that were not read",
                hint="name the folder that the log was made from; if this is it, deploy/RETENTION.md has the steps (a new log, empty"
                " targets, a dump). Let no lifecycle rule, and no file-expiration-days, remove files sooner than the sidecar may ever be"
                " stopped",
            )

    def _check_gaps(self) -> None:
        """Which streams lack a number. Raises FeedUnsuitable for one that was lacking at the last look too."""
        streams: dict[Stream, list[RowsFile]] = defaultdict(list)
        for one in self.files.values():
            streams[one.file.stream].append(one.file)
        before, self.gaps = self.gaps, {}
        for stream, files in streams.items():
            behind = next((file for file in _behind_gaps(sorted(files), self._last.get(stream, 0)) if not self._need_not_come(file)), None)
            if behind is None:
                continue
            if before.get(stream) == behind.name:
                raise self.lost(f"{stream.folder}: the file before {behind.name.rpartition('/')[2]}")
            self.gaps[stream] = behind.name

    def _need_not_come(self, behind: RowsFile) -> bool:
        """What was before this file. Where all that is there is read, that begins with what retention has left."""
        if not self._start.position and self._is_first and behind.stream not in self._last and self._is_lowest(behind):
            return True
        first_ts = self._first_ts(behind)
        return first_ts is not None and first_ts <= self.read_ts

    def _is_lowest(self, file: RowsFile) -> bool:
        return all(one.file.number >= file.number for one in self.files.values() if one.file.stream == file.stream)


def _behind_gaps(files: Sequence[RowsFile], last: int) -> Iterator[RowsFile]:
    """Of these, by number, each before which one is missing."""
    for file in files:
        if file.number > last + 1:
            yield file
        last = max(last, file.number)
