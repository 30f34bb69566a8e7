"""What a sink has of a key at this moment, and whether that is what the log says.

    the sink's position ─► the key's last version in the log up to there, in the sink's form ─┬─ equal
    the sink's row, read by its key ──────────────────────────────────────────────────────────┘  or not

- Only for a sink that finds a row by its key without a read of all others (port/readable.py). Nothing is written there.
- A verdict needs every version of the key up to the position that was read. A sink continues while the log is read, so the log is read on
  to its end after the sink's row.
- Versions of segments that the sink did not receive, as it began behind them, or is not known to have received, never make it DIFFERENT.
- A sink whose rows are not of one position may have a later version than that of its position: it is compared with those, too.
- Where the log has no version of the key up to the position, or the table's columns changed behind it, nothing is said: a verification
  (dumpverify) compares with the source.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.errors import SinkError, TicdcDumpError
from sidecar.shared.log.manifests import kept, manifest_of
from sidecar.shared.log.sink_tables import read_sink_tables
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.keyset import Key
from sidecar.shared.model.nouns import Seq, TableSchema
from spark_merge.log.read import LoggedSchemas
from spark_merge.merge.rule import Image
from spark_merge.port.contract import Accepted, Sink
from spark_merge.port.keys import key_text
from spark_merge.port.readable import Readable, Reading, newest
from spark_merge.sinks.registry import open_sink, output_of, why_not_readable
from spark_merge.tail.events import EventKind, TailEvent
from spark_merge.tail.followed import FollowedTable
from spark_merge.tail.shown import ShownValues, Values
from spark_merge.tail.stream import TableStream
from spark_merge.verify.look import difference
from spark_merge.verify.source import key_table

VERSIONS_KEPT_MAX = 10_000
"""Of one key, to be compared with what the sinks have."""


class Verdict(StrEnum):
    """EQUAL: to the log's last version up to the sink's position, or to a later one. DIFFERENT: to each of them. OPEN: it cannot be said;
    the text says why."""

    EQUAL = "equal"
    DIFFERENT = "different"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class SinkHas:
    """`accepted`: the sink's position, None: before the first segment, or not known. `row`: by column, as the sink has it; None: none.
    `table`: the source's, of which the row is; None where nothing was read."""

    sink: str
    verdict: Verdict
    text: str
    accepted: Seq | None = None
    row: Mapping[str, str | None] | None = None
    table: TableSchema | None = None


class KeyVersions:
    """What the log has of the key that `stream` is of, in its order and without a gap: the last VERSIONS_KEPT_MAX. `show`: is called with
    each event that is read."""

    def __init__(self, stream: TableStream, show: Callable[[TailEvent], None]) -> None:
        self._stream, self._show = stream, show
        self.known: deque[TailEvent] = deque(maxlen=VERSIONS_KEPT_MAX)

    def note(self, event: TailEvent) -> None:
        self._show(event)
        if event.kind is EventKind.REMOVED:
            self.known.clear()  # a later version may have been in what is gone
        if event.is_version:
            self.known.append(event)

    def read_on(self) -> Seq:
        """To the log's end. Returns the first segment behind it. Raises what reading and decoding the log raises."""
        for event in self._stream.to_end():
            self.note(event)
        return self._stream.next_seq


@dataclass(frozen=True, slots=True)
class LookedUpKey:
    """`versions`: without the log's earlier ones if not `whole`. `followed`: as of the log's end."""

    log: Folder
    log_id: str
    followed: FollowedTable
    key: Key
    versions: KeyVersions
    whole: bool

    def at(self, sinks: Mapping[str, str]) -> Iterator[SinkHas]:
        """Of each sink, by its name with its URI. A sink that cannot be read says why, and the others follow. Raises what reading and
        decoding the log raises: then versions are missing."""
        for name, uri in sinks.items():
            try:
                with closing(open_sink(uri, log_id=self.log_id)) as sink:
                    read = self._read(name, uri, sink)
            except TicdcDumpError as error:
                read = SinkHas(name, Verdict.OPEN, f"the sink cannot be read: {error.message}")
            yield read if isinstance(read, SinkHas) else self._judged(name, read)

    def _read(self, name: str, uri: str, sink: Sink) -> SinkHas | _RowRead:
        if not isinstance(sink, Readable):
            why = why_not_readable(uri, log_id=self.log_id)
            return SinkHas(name, Verdict.OPEN, f"its rows cannot be read back: {why}")
        if not sink.finds_keys:
            why = "it cannot find a row by its key without a read of the whole table: dumpverify compares it"
            return SinkHas(name, Verdict.OPEN, why)
        position = sink.look()
        if position is None:
            return SinkHas(name, Verdict.OPEN, "it has accepted nothing yet")
        table = self._table(position)
        if table is None or len(table.key) != len(self.key):
            return SinkHas(name, Verdict.OPEN, "the table is not there at the sink's position, or has another key", position.seq)
        reading = sink.reading(table, parts=1, keys=key_table(table, [self.key]))
        row = _row_of(reading, reading.schema or table, self.key)
        return _RowRead(table, reading, (reading.accepted or position).seq, row, self._began(name, uri))

    def _began(self, name: str, uri: str) -> Seq | None:
        """The first segment that the sink received; None: not known. Read after its row: it may be another one by then,
        which began later."""
        tables = read_sink_tables(self.log, [name]).get(name)
        return None if tables is None or tables.output != output_of(uri) else tables.began_seq

    def _table(self, position: Accepted) -> TableSchema | None:
        """In the sink. A segment that retention has removed has left the schemas to the next one."""
        manifest = manifest_of(self.log, position.seq)
        if manifest is None and (first := manifest_of(self.log, Seq(kept(self.log).start))) is not None and first.seq > position.seq:
            return copy(self.followed).at(LoggedSchemas(self.log, first.schemas))
        if manifest is None:
            raise SinkError(f"segment {position.seq}, which the sink ends with, is not in the log", hint="see dumpquery, then try again")
        return copy(self.followed).at(LoggedSchemas(self.log, manifest.next_schemas or manifest.schemas))

    def _judged(self, name: str, read: _RowRead) -> SinkHas:
        table, reading, at = read.table, read.reading, read.at
        if at >= (read_to := self.versions.read_on()):
            why = f"the log could be read up to segment {read_to - 1} only, and the sink is at a later one"
            return SinkHas(name, Verdict.OPEN, why, at)
        shape = reading.schema or table
        has = None if read.row is None else dict(zip(shape.column_names(), read.row, strict=True))
        mine = [one for one in self.versions.known if not one.sinks or name in one.sinks]
        known = [one for one in mine if one.seq <= at]
        if not known:
            why = "the log has no version of the key up to the sink's position" if self.whole else (
                "the events that were looked at have no version of the key up to the sink's position: raise --limit"
            )  # fmt: skip
            return SinkHas(name, Verdict.OPEN, why, at, has, table)
        later = [one for one in mine if one.seq > at]
        for version in [known[-1], *([] if reading.exact else later)]:
            if version.schema is None or version.schema.columns != table.columns:
                return SinkHas(name, Verdict.OPEN, "a schema change came after the key's last version", at, has, table)
            if difference(shape, _text_of(self.key), _in_form(version, reading), read.row) is None:
                more = f"; later ones in the log: {len(later)}" if later and version is known[-1] else ""
                text = f"equal to the version of commit-ts {version.commit_ts}{more}"
                return SinkHas(name, Verdict.EQUAL, text, at, has, table)
        text = f"different from the log's version of commit-ts {known[-1].commit_ts}"
        if read.began is None or known[-1].seq < read.began:
            why = "it is not known where the sink began" if read.began is None else f"the sink began behind it, with segment {read.began}"
            return SinkHas(name, Verdict.OPEN, f"{text}, and {why}", at, has, table)
        return SinkHas(name, Verdict.DIFFERENT, text, at, has, table)


@dataclass(frozen=True, slots=True)
class _RowRead:
    """Of a sink. `at`: its position. `row`: None for none. `began`: the first segment that it received, None if not known."""

    table: TableSchema
    reading: Reading
    at: Seq
    row: Image | None
    began: Seq | None


def sink_json(has: SinkHas, shown: ShownValues) -> dict[str, Any]:
    """deploy/TAIL.md names the fields."""
    return {"kind": "sink", "sink": has.sink, "verdict": has.verdict, "seq": has.accepted, "row": shown_row(has, shown), "text": has.text}


def shown_row(has: SinkHas, shown: ShownValues) -> Values | None:
    """None: no row, or none that was read."""
    return None if has.row is None or has.table is None else shown.sink_row(has.sink, has.table, has.row)


def _row_of(reading: Reading, shape: TableSchema, key: Key) -> Image | None:
    rows = newest(reading, shape)
    if rows.num_rows:
        rows = rows.filter(pc.equal(key_text([rows.column(name) for name in shape.key]), _text_of(key)))
    if rows.num_rows > 1:
        raise SinkError(f"the sink has the key in {rows.num_rows} rows", hint="dumpverify --repair removes what is too much")
    return tuple(rows.column(name)[0].as_py() for name in shape.column_names()) if rows.num_rows else None


def _text_of(key: Key) -> str:
    return str(key_text([pa.array([part], pa.string()) for part in key])[0].as_py())


def _in_form(version: TailEvent, reading: Reading) -> Image | None:
    """As the sink promises to have it; None: no row."""
    if version.after is None or reading.form is None or version.schema is None:
        return version.after
    names = version.schema.column_names()
    rows = reading.form(pa.table({name: pa.array([text], pa.string()) for name, text in zip(names, version.after, strict=True)}))
    return tuple(column[0].as_py() for column in rows.columns)
