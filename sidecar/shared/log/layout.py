"""The names of the log's files, and what a listing of them means. Pure: a listing in, a verdict out.

    {seq}-{epoch}.parquet   rows            {seq}.json             the manifest, created exclusively
    schemas/{epoch}/{sha256}.json, dumps/{epoch}/{sha256}.json   by content; of 0.4.0 and before without the epoch
    chunks/{dump}/{epoch}-{number}.parquet
    retained-{seq}          every segment below seq has been removed, or is being removed
    skips/{seq}-{ordinal}.json   a row that an operator skips (skips.py)
    parked/{digest}.json    a message that he parked; unreadable.json is the one at which the stream stopped last (parked.py)
    filled/{random}.json    somebody's words that holes are filled (filled.py)
    holes/begun-{epoch}.json     which holes dump.fill_holes has dumped (run/filling.py)
    verify/{id}/…           a verification's files (verification.py)
    certificates/{dump}.json     the certificate of a finished dump (certificate.py); {dump}.parts/ is what is collected for it
    reports/{dump}.html          a report of a dump that is over, for people (sidecar/report)
    sinks/{name}@{generation}-{epoch}-{incarnation}.json   which tables a sink has whole, by the worker that wrote it (sink_tables.py)
    inbox/{number}          what TiCDC's own sink has handed over and no segment has yet (inbox.py)
    changefeed.txt          whose log it is            log.txt   which one (`identity`)
    reserve                 room that is given up on a full volume (reserve.py)

- The segments that exist are one run without a gap, from 0 or from where the highest `retained-` says that retention has come to.
- What is below the highest `retained-` is nobody's, whatever part of it is left. A manifest below it that is gone is no loss.
- **No owner can remove a name that a later owner writes**, however late it wakes. Rows, chunks, schemas and dumps have their owner's epoch
  in their names, and a manifest names schemas and dumps of its own epoch only. An owner removes what its own epoch and earlier ones wrote.
  Temporary files whose names have no epoch are removed by age (`storage.is_old_temporary`).
- Data of a later segment than the next one, or a skipped row of one, means that manifests are gone: that is broken, not
  orphaned. A new log in the place of another, or one restored from a backup, would skip rows of its own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sidecar.shared.errors import LogBroken, LogTaken
from sidecar.shared.log.dumps_file import with_all_tables
from sidecar.shared.log.manifest import Manifest, ManifestOfLaterVersion, ManifestUnreadable, from_json
from sidecar.shared.log.schemas_file import schemas_from_json
from sidecar.shared.model.nouns import Seq, TableName, TableSchema, operation_id
from sidecar.shared.model.progress import CompletedTable, Progress, SegmentDump, completed, completing, progress_from_json, state_after

WAY_OUT = "restore it from a backup; without one set log.uri and the sinks to new folders, and dump again (dumprestart)"
"""Of a log that lacks something. New sinks too: an output continues only with the log that it is of."""

LATER = "run that version or a later one; deploy/ROLLBACK.md has the way back to an earlier one, which is a new log"
"""Of a log that a later version of ticdc-dump has written."""

_MANIFEST = re.compile(r"([0-9]{20})\.json")
_DATA = re.compile(r"([0-9]{20})-([0-9]{10})\.parquet")
_CHUNK = re.compile(r"chunks/[0-9A-Za-z_-]+/([0-9]{10})-[0-9]{8,}\.parquet")
_SHARED = re.compile(r"(?:schemas|dumps)/(?:([0-9]{10})/)?[0-9a-f]{16}\.json")
_TEMPORARY_OF = re.compile(r"(.*/)?\.([^/]+)\.[0-9]+(?:-[0-9a-f]+)?\.tmp")
_RETAINED = re.compile(r"retained-([0-9]{20})")

SKIPS, SINK_TABLES = "skips", "sinks"
_SINK, _NO_SINK = re.compile(r"[A-Za-z0-9_.-]{1,64}"), re.compile(r"[^A-Za-z0-9_-]+")
_SKIP = re.compile(SKIPS + r"/(\d{20})-(\d{10})\.json")


def manifest_name(seq: Seq) -> str:
    return f"{seq:020d}.json"


def is_manifest(name: str) -> bool:
    return _MANIFEST.fullmatch(name) is not None


def data_name(seq: Seq, *, epoch: int) -> str:
    return f"{seq:020d}-{epoch:010d}.parquet"


def beginning_of(segments: range) -> str:
    """What the names of their manifests and data begin with: others' may begin so, too."""
    first, last = manifest_name(Seq(segments.start)), manifest_name(Seq(segments.stop - 1))
    return next((first[:at] for at in range(20, 0, -1) if first[:at] == last[:at]), "")


def chunk_name(dump_id: str, *, epoch: int, number: int) -> str:
    return f"chunks/{operation_id(dump_id)}/{epoch:010d}-{number:08d}.parquet"


def schemas_name(data: bytes, *, epoch: int) -> str:
    return f"schemas/{epoch:010d}/{_content_name(data)}"


def dumps_name(data: bytes, *, epoch: int) -> str:
    return f"dumps/{epoch:010d}/{_content_name(data)}"


def _content_name(data: bytes) -> str:
    return f"{hashlib.sha256(data).hexdigest()[:16]}.json"


def _check_content(name: str, data: bytes) -> None:
    """Raises ManifestUnreadable for a file whose name is not that of its content."""
    if name.rpartition("/")[2] != (content := _content_name(data)):
        raise ManifestUnreadable(f"{name} is not as it was written: its content is that of {content}")


def epoch_of(name: str) -> int | None:
    """The owner that wrote this file, or left it as a temporary one; None where the name does not have it."""
    if temporary := _TEMPORARY_OF.fullmatch(name):
        name = f"{temporary[1] or ''}{temporary[2]}"
    if match := _DATA.fullmatch(name):
        return int(match[2])
    match = _CHUNK.fullmatch(name) or _SHARED.fullmatch(name)
    return int(match[1] or 0) if match else None


def retained_name(seq: Seq) -> str:
    return f"retained-{seq:020d}"


def skip_name(seq: Seq, ordinal: int) -> str:
    return f"{SKIPS}/{seq:020d}-{ordinal:010d}.json"


def sink_tables_name(sink: str, generation: int, epoch: int, incarnation: int) -> str:
    """Of the worker's file: no other worker of the sink writes it."""
    return f"{SINK_TABLES}/{_sink_stem(sink)}@{generation:06d}-{epoch:010d}-{incarnation:010d}.json"


def sink_tables_of(sink: str, names: Iterable[str]) -> list[str]:
    """The sink's files among `names`, without their folder: the latest worker's last. Versions up to 0.5.0 had one for all workers."""
    stem = _sink_stem(sink)
    return sorted(name for name in names if name == f"{stem}.json" or (name.startswith(f"{stem}@") and name.endswith(".json")))


def sink_generation(name: str) -> int:
    """Of a name of `sink_tables_of`."""
    _, at, worker = name.rpartition("@")
    return int(worker.partition("-")[0]) if at else 0


def _sink_stem(sink: str) -> str:
    """`sink`: its name. One that is no name of a file everywhere is in it as far as it can be, and as a hash."""
    if _SINK.fullmatch(sink):
        return sink
    return f"{_NO_SINK.sub('_', sink)[-60:]}-{hashlib.sha256(sink.encode()).hexdigest()[:16]}"


def skip_of(name: str) -> tuple[Seq, int] | None:
    match = _SKIP.fullmatch(name)
    return (Seq(int(match[1])), int(match[2])) if match else None


@dataclass(frozen=True, slots=True)
class Contents:
    """A listing, sorted by kind. `of_epochs`: the files that any manifest of their epoch can name, chunks, schemas and dumps. `floor`:
    segments below it are retained away, 0 if none ever was."""

    names: frozenset[str]
    manifests: tuple[int, ...]
    data: dict[str, tuple[int, int]]
    of_epochs: dict[str, int]
    floor: int

    @classmethod
    def of(cls, names: Iterable[str]) -> Contents:
        manifests: list[int] = []
        data: dict[str, tuple[int, int]] = {}
        of_epochs: dict[str, int] = {}
        floor, all_names = 0, frozenset(names)
        for name in all_names:
            if match := _MANIFEST.fullmatch(name):
                manifests.append(int(match[1]))
            elif match := _DATA.fullmatch(name):
                data[name] = (int(match[1]), int(match[2]))
            elif match := _CHUNK.fullmatch(name) or _SHARED.fullmatch(name):
                of_epochs[name] = int(match[1] or 0)
            elif match := _RETAINED.fullmatch(name):
                floor = max(floor, int(match[1]))
        return cls(all_names, tuple(sorted(manifests)), data, of_epochs, floor)

    def run(self, log: object) -> range:
        """The segments that exist, from the floor on without a gap. Raises LogBroken."""
        present = [seq for seq in self.manifests if seq >= self.floor]
        run = range(self.floor, self.floor + len(present))
        gap = next((expected for expected, seq in zip(run, present, strict=True) if seq != expected), None)
        beyond = [seq for seq, _ in self.data.values() if seq > run.stop]
        beyond += [skipped[0] for name in self.names if (skipped := skip_of(name)) is not None and skipped[0] >= run.stop]
        if gap is None and (beyond or (self.floor and not present)):
            gap = run.stop
        if gap is not None:
            raise LogBroken(
                f"segment log {log}: manifest {manifest_name(Seq(gap))} is missing, but there are files of it or of later segments",
                hint=WAY_OUT,
            )
        return run

    def below(self, seq: Seq) -> list[str]:
        """Manifests, data and notes of segments below `seq`."""
        manifests = [manifest_name(Seq(manifest)) for manifest in self.manifests if manifest < seq]
        data = [name for name, (number, _) in self.data.items() if number < seq]
        notes = [name for name in self.names if (note := _RETAINED.fullmatch(name)) and int(note[1]) < seq]
        return manifests + data + notes

    def orphans(self, run: range, *, named: Collection[str], epoch: int) -> list[str]:
        """What no manifest names and no later one will: left by earlier epochs, or below the floor.

        Data of another owner's attempt at a segment in the middle of the log stays until the segment is retained away.
        Of chunks, schemas and dumps see `written_before`: any manifest may name one.
        """
        data = [name for name, (seq, by) in self.data.items() if by < epoch and seq >= run.stop - 1 and name not in named]
        return [*self.below(Seq(run.start)), *data]

    def written_before(self, epoch: int) -> set[str]:
        """The chunks, schemas and dumps that earlier epochs have written."""
        return {name for name, by in self.of_epochs.items() if by < epoch}


def check_next(log: object, run: range, seq: Seq) -> None:
    """Raises LogBroken unless `seq` comes right after the last segment."""
    if seq != run.stop:
        raise LogBroken(
            f"segment log {log}: segment {seq} does not follow the last one: the next is {run.stop}",
            hint="restart the sidecar, which reads the log again; if it repeats, report it: this is a defect of ticdc-dump",
        )


def keep_from(run: range, *, delivered: Seq, needed: Iterable[Seq]) -> Seq:
    """The first segment that must stay (see `FolderLog.retain`). `needed`: first segments of windows that are open or to deliver."""
    return Seq(min([delivered, run[-1], *needed]))


def files_of(manifest: Manifest) -> set[str]:
    """The data and chunk files that it names."""
    chunks = {chunk.path for window in manifest.windows for chunk in window.chunks}
    return chunks if manifest.data is None else chunks | {manifest.data}


def shared_files_of(manifest: Manifest) -> frozenset[str]:
    """Those that it names and others may, too: each has the name of its epoch and its content."""
    return frozenset(filter(None, (manifest.schemas, manifest.next_schemas, manifest.dumps_file)))


def first_needed(manifest: Manifest) -> Seq:
    """The first segment that must be there to deliver this one with its windows."""
    return min((window.first_seq for window in manifest.windows), default=manifest.seq)


def read_manifest(log: object, name: str, data: bytes) -> Manifest:
    """Raises LogBroken."""
    try:
        manifest = from_json(data, name=name)
        if manifest_name(manifest.seq) != name:
            raise ManifestUnreadable(f"manifest {name} says that it is segment {manifest.seq}")
        if strange := _strange_names(manifest):
            raise ManifestUnreadable(f"manifest {name} names files that are not of this log's: {', '.join(sorted(strange))}")
    except ManifestOfLaterVersion as error:
        raise LogBroken(f"segment log {log}: {error}", hint=LATER) from error
    except ManifestUnreadable as error:
        raise LogBroken(
            f"segment log {log}: {error}",
            hint=f"if a newer ticdc-dump wrote it, run that one; else {WAY_OUT}",
        ) from error
    return manifest


def _strange_names(manifest: Manifest) -> set[str]:
    """Files that it names and that can be none of its own: what is read, and removed, goes by these names."""
    data, chunks = {*filter(None, [manifest.data])}, files_of(manifest) - {manifest.data}
    return (
        {name for name in data if not (match := _DATA.fullmatch(name)) or int(match[1]) != manifest.seq}
        | {name for name in chunks if not _CHUNK.fullmatch(name)}
        | {name for name in shared_files_of(manifest) if not _SHARED.fullmatch(name)}
    )


def logged_schemas(log: object, name: str, data: bytes) -> dict[TableName, TableSchema]:
    """The schemas file `name`, whose name is its checksum. Raises LogBroken."""
    try:
        schemas = schemas_from_json(data, name=name)
        _check_content(name, data)
    except ManifestUnreadable as error:
        raise LogBroken(f"segment log {log}: {error}", hint=WAY_OUT) from error
    return schemas


def with_logged_tables(log: object, manifest: Manifest, read: Callable[[str], bytes | None]) -> Manifest:
    """Its dumps with all of their tables. `read`: a file of the log, None where it is gone. Raises LogBroken."""
    if not (name := manifest.dumps_file):
        return manifest
    if (data := read(name)) is None:
        raise missing_files(log, [name])
    try:
        _check_content(name, data)
        return with_all_tables(manifest, data)
    except ManifestUnreadable as error:
        raise LogBroken(f"segment log {log}: {error}", hint=WAY_OUT) from error


def logged_dumps(value: Iterable[dict[str, Any]]) -> tuple[Progress, ...]:
    """`Manifest.dumps` of the log's last segment, with all tables. Raises LogBroken for what is no progress."""
    with _reading_progress("the log's last segment"):
        return tuple(map(progress_from_json, value))


def dump_after(manifest: Manifest) -> SegmentDump | None:
    """None before the log's first dump. Raises LogBroken."""
    with _reading_progress(f"segment {manifest.seq} of the log"):
        return state_after(manifest.dumps, after_ts=manifest.after_ts, upto_ts=manifest.upto_ts)


def completed_tables(manifest: Manifest) -> list[CompletedTable]:
    """The tables of which the segment has a dump's last rows. Raises as `dump_after`."""
    with _reading_progress(f"segment {manifest.seq} of the log"):
        return [done for one in manifest.dumps for done in completed(one, after_ts=manifest.after_ts, upto_ts=manifest.upto_ts)]


def of_segment(manifest: Manifest) -> Manifest:
    """With no more of its dumps than `dump_after` and `completed_tables` ask for: a segment has the progress of all their tables, and many
    manifests are held at once. Raises as `dump_after`."""
    with _reading_progress(f"segment {manifest.seq} of the log"):
        dumps = [one | {"tables": [*completing(one, after_ts=manifest.after_ts, upto_ts=manifest.upto_ts)]} for one in manifest.dumps]
    return replace(manifest, progress=dumps[0], more_dumps=tuple(dumps[1:])) if dumps else manifest


@contextmanager
def _reading_progress(where: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise LogBroken(
            f"{where} has a dump's progress that is not readable: {error!r}",
            hint=f"if a newer ticdc-dump wrote it, run that one; else {WAY_OUT}",
        ) from error


def missing_files(log: object, names: Collection[str]) -> LogBroken:
    return LogBroken(
        f"segment log {log}: {min(names)}, which a manifest names, is gone ({len(names)} files in all)",
        hint=WAY_OUT,
    )


def taken(log: object, seq: Seq) -> LogTaken:
    return LogTaken(
        f"segment log {log}: segment {seq} was written by another owner",
        hint="nothing: this process is fenced off and stops, the other one continues; if both are to run, give each its own log",
    )
