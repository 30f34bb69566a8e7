"""Which tables each sink has whole, and which have a hole, in files beside the segments (`SinkTables`); the sink's worker writes them.

    sinks/{name}@{generation}-{epoch}-{incarnation}.json

- A worker has a file of its own, and that of the latest one counts: one that was frozen amid a write changes nothing of its successor's.
  The target counts its workers, from 1 again when it is emptied or another one takes its place: that is the next generation.
- The worker writes it before the first batch of a sink, and before it reports that segments are accepted which change it: retention goes
  by the report, so what the file lacks can be made of the segments that are still there (spark_merge/delivery/sink_record.py).
- It names its log. What another log left in this folder says nothing of this one.
- A file that cannot be read stops its sink with an error. It is never taken for a sink that has nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.identity import known_id
from sidecar.shared.log.layout import SINK_TABLES, sink_generation, sink_tables_name, sink_tables_of
from sidecar.shared.log.manifest import UNREADABLE
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.hole import HoleCause, OpenHole
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.sink_delivery import SinkTables

FORMAT_VERSION = 1

_Number = Annotated[int, msgspec.Meta(ge=0)]


class _Version(msgspec.Struct):
    version: int


class _Hole(msgspec.Struct):
    schema: str
    table: str
    cause: HoleCause
    since_ts: _Number
    seq: _Number
    vanished: bool
    text: str
    complete: _Number | None
    table_id: _Number = 0


class _File(msgspec.Struct):
    """Every ts as a decimal string, as in a manifest."""

    version: int
    log: str
    sink: str
    output: str
    began_seq: _Number
    began_ts: _Number | None
    seq: int
    upto_ts: _Number | None
    epoch: _Number
    incarnation: _Number
    complete: tuple[tuple[str, str, _Number], ...]
    rules: str = ""
    holes: tuple[_Hole, ...] = ()
    generation: _Number = 0


def write_sink_tables(log: Folder, tables: SinkTables, *, log_id: str) -> None:
    """Atomically, under the worker's name, and remove what earlier workers wrote. `log_id`: the log's own. Raises as the log's storage."""
    written = {
        "version": FORMAT_VERSION,
        "log": log_id,
        "sink": tables.sink,
        "output": tables.output,
        "began_seq": tables.began_seq,
        "began_ts": _text(tables.began_ts),
        "seq": tables.seq,
        "upto_ts": _text(tables.upto_ts),
        "epoch": tables.epoch,
        "incarnation": tables.incarnation,
        "complete": [(*table, str(ts)) for table, ts in sorted(tables.complete.items())],
    }
    written |= {"rules": tables.rules} if tables.rules else {}
    written |= {"holes": [_hole_to_json(*one) for one in sorted(tables.holes.items())]} if tables.holes else {}
    written |= {"generation": tables.generation} if tables.generation else {}
    own = sink_tables_name(tables.sink, tables.generation, tables.epoch, tables.incarnation)
    storage.write_atomically(log, own, msgspec.json.format(msgspec.json.encode(written), indent=0))
    if rest := [name for name in _names(log, tables.sink) if name < own]:
        storage.remove(log, rest)


def read_sink_tables(log: Folder, sinks: Iterable[str]) -> dict[str, SinkTables]:
    """By the sinks' names; of none that has no file, or one of another log. Raises SinkError for a file that cannot be read, and as the
    log's storage."""
    there = storage.list_names(log, under=SINK_TABLES, deep=False)
    latest = {f"{SINK_TABLES}/{names[-1]}": sink for sink in sinks if (names := sink_tables_of(sink, there))}
    files = storage.read_files(log, latest) if latest else {}
    log_id = known_id(log) if files else ""
    return {latest[name]: tables for name, data in files.items() if (tables := _from_json(log, name, data, log_id)) is not None}


def last_generation(log: Folder, sink: str) -> int:
    """Of the sink's files; -1 where there are none. Raises as the log's storage."""
    return max((sink_generation(name.rpartition("/")[2]) for name in _names(log, sink)), default=-1)


def _names(log: Folder, sink: str) -> list[str]:
    return [f"{SINK_TABLES}/{name}" for name in sink_tables_of(sink, storage.list_names(log, under=SINK_TABLES, deep=False))]


def _from_json(log: Folder, name: str, data: bytes, log_id: str) -> SinkTables | None:
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version != FORMAT_VERSION:
            raise SinkError(
                f"segment log {log}: {name} has format version {version}, this ticdc-dump reads {FORMAT_VERSION}",
                hint="run the version that wrote it",
            )
        file = msgspec.json.decode(data, type=_File, strict=False)
    except UNREADABLE as error:
        raise SinkError(
            f"segment log {log}: {name}, which says what tables a sink has whole, is not readable: {error}",
            hint="restore it from a backup, or remove it: the sink's tables are then reported as not complete until a dump of them",
        ) from error
    if file.log != log_id:
        return None
    return SinkTables(
        file.sink,
        file.output,
        Seq(file.began_seq),
        None if file.began_ts is None else CommitTs(file.began_ts),
        Seq(file.seq),
        None if file.upto_ts is None else CommitTs(file.upto_ts),
        {TableName(schema, table): CommitTs(ts) for schema, table, ts in file.complete},
        file.epoch,
        file.incarnation,
        file.rules,
        {TableName(hole.schema, hole.table): _hole(hole) for hole in file.holes},
        file.generation,
    )


def _hole_to_json(table: TableName, hole: OpenHole) -> dict[str, object]:
    ts = {"since_ts": str(hole.since_ts), "complete": _text(hole.complete), "table_id": hole.table_id}
    return table._asdict() | ts | {"cause": hole.cause, "seq": hole.seq, "vanished": hole.vanished, "text": hole.text}


def _hole(hole: _Hole) -> OpenHole:
    complete = None if hole.complete is None else CommitTs(hole.complete)
    return OpenHole(hole.cause, CommitTs(hole.since_ts), Seq(hole.seq), hole.vanished, hole.text, complete, hole.table_id)


def _text(ts: CommitTs | None) -> str | None:
    return None if ts is None else str(ts)
