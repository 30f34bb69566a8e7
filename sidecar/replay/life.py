"""The life of one key in a replay, in words: a row of a chunk that was dropped since a live change had replaced it.

    segments (changes between the marks) + chunk files ─► dropped rows with other values ─► one key: output, truth

All of it is read from what the replay has written: the log, the output as its reader has it, and the recording's truth. The best key is an
update that no later change followed, for its values are what the consumer and the truth must have in the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sidecar.replay.judge.rows import Key, Row, equal_rows, rows_by_key
from sidecar.replay.recording import Recording
from sidecar.shared.log import storage
from sidecar.shared.log.absent import parted
from sidecar.shared.log.manifest import Manifest
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.chunk import ChunkFile, ClosedWindow
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema, physical_ms
from spark_merge.codecs.decode.rows import decode
from spark_merge.log.read import new_manifests, read_rows, read_schemas
from spark_merge.merge.survivors import touched
from spark_merge.port.keys import key_text
from spark_merge.sinks.files.reader import read_rows as read_output_rows
from spark_merge.sinks.files.reader import read_segments

SEGMENTS_MAX = 1 << 30
NO_KEY = "No life of a key: no live change has replaced a row of a chunk by one with other values."
VALUE_CHARS_MAX = 40
ORIGINS = {"log": "live changes", "dump": "dump", "nobody": "nobody"}


@dataclass(frozen=True, slots=True)
class LiveChange:
    """One change of one key. `before` None: an insert; `after` None: a delete."""

    commit_ts: CommitTs
    op: str
    before: Row | None
    after: Row | None


@dataclass(frozen=True, slots=True)
class ReplacedRow:
    """A row of a chunk that is not delivered: `change` came in its window and has other values."""

    schema: TableSchema
    key: Key
    window: ClosedWindow
    chunk: ChunkFile
    row: Row
    change: LiveChange


def life_of_a_key(log: Folder, output: Folder, recording: Recording) -> str:
    """Some lines for people; NO_KEY where no row qualifies. Raises as reading the log, the output (JSON lines) and the recording."""
    history = _Changes(log)
    dropped_row = best(history.dropped_rows(), history.last_ts)
    return (
        NO_KEY
        if dropped_row is None
        else "\n".join(_life_lines(dropped_row, _output_rows(output, dropped_row), _true_row(recording, dropped_row)))
    )


def best(dropped: Iterator[ReplacedRow], last_ts: Mapping[tuple[TableName, str], CommitTs]) -> ReplacedRow | None:
    """The first update that is the last change of its key; without one the first row. `last_ts`: of the keys' texts, in the whole log."""
    first: ReplacedRow | None = None
    for one in dropped:
        first = first or one
        if one.change.op == "update" and last_ts[one.schema.name, _text_of(one.key)] == one.change.commit_ts:
            return one
    return first


class _Changes:
    """The live changes of a log, decoded. `last_ts`: the last commit_ts of each key."""

    def __init__(self, log: Folder) -> None:
        self._log = log
        self._manifests = new_manifests(log, after=None, limit=SEGMENTS_MAX)
        self._schemas: dict[str, Mapping[TableName, TableSchema]] = {}
        self._decoded: dict[Seq, dict[TableName, pa.Table]] = {}
        self.last_ts: dict[tuple[TableName, str], CommitTs] = {}
        for manifest in self._manifests:
            for name, rows in self._of(manifest).items():
                self.last_ts |= dict(zip(((name, key) for key in rows["key"].to_pylist()), rows["commit_ts"].to_pylist(), strict=True))

    def dropped_rows(self) -> Iterator[ReplacedRow]:
        """In the order of the log, of each chunk those that a change has replaced by other values."""
        for manifest in self._manifests:
            for window in manifest.windows:
                for chunk in window.chunks:
                    yield from self._dropped(manifest, window, chunk)

    def _dropped(self, manifest: Manifest, window: ClosedWindow, chunk: ChunkFile) -> Iterator[ReplacedRow]:
        schema = self._schemas_of(manifest)[chunk.table]
        parts = [self._decoded[Seq(seq)].get(chunk.table) for seq in range(window.first_seq, manifest.seq + 1)]
        changes = [rows for rows in parts if rows is not None]
        keys = touched(pa.concat_tables(changes), window.low_ts, window.high_ts) if changes else []
        if not len(keys):
            return
        with storage.open_to_read(self._log, chunk.path) as file:
            _, rows = parted(pq.read_table(file))
        mine = rows.filter(pc.is_in(key_text([rows.column(name) for name in schema.key]), value_set=keys))
        for key, row in rows_by_key(schema, mine).items():
            change = _last_change(changes, _text_of(key), window)
            if change.after is None or not equal_rows(schema, change.after, row):
                yield ReplacedRow(schema, key, window, chunk, row, change)

    def _of(self, manifest: Manifest) -> dict[TableName, pa.Table]:
        rows = read_rows(self._log, manifest).append_column("seq", pa.repeat(pa.scalar(manifest.seq, pa.int64()), manifest.rows))
        changes = decode(rows, codec=manifest.codec, schemas=self._schemas_of(manifest)).sort_by(
            [("commit_ts", "ascending"), ("rank", "ascending")]
        )
        places_of = defaultdict[TableName, list[int]](list)
        for place, name in enumerate(zip(changes["schema"].to_pylist(), changes["table"].to_pylist(), strict=True)):
            places_of[TableName(*name)].append(place)
        return self._decoded.setdefault(manifest.seq, {name: changes.take(places) for name, places in places_of.items()})

    def _schemas_of(self, manifest: Manifest) -> Mapping[TableName, TableSchema]:
        if manifest.schemas not in self._schemas:
            self._schemas[manifest.schemas] = read_schemas(self._log, manifest.schemas)
        return self._schemas[manifest.schemas]


def _last_change(parts: Sequence[pa.Table], key: str, window: ClosedWindow) -> LiveChange:
    """Of the key in the window, which has one."""
    rows = pa.concat_tables(parts)
    in_window = pc.and_(pc.greater(rows["commit_ts"], window.low_ts), pc.less_equal(rows["commit_ts"], window.high_ts))
    last = rows.filter(pc.and_(in_window, pc.equal(rows["key"], key))).to_pylist()[-1]
    before, after = (None if image is None else tuple(image) for image in (last["before"], last["after"]))
    return LiveChange(CommitTs(last["commit_ts"]), last["op"], before, after)


def _text_of(key: Key) -> str:
    (text,) = key_text([pa.array([value]) for value in key]).to_pylist()
    return str(text)


def _output_rows(output: Folder, dropped: ReplacedRow) -> list[dict[str, Any]]:
    """The output's rows of the key, in their order."""
    key = dict(zip(dropped.schema.key, dropped.key, strict=True))
    files = (file for segment in read_segments(output) for file in segment.files if file.table == dropped.schema.name)
    return [row for file in files for row in read_output_rows(output, file) if row["key"] == key]


def _true_row(recording: Recording, dropped: ReplacedRow) -> Row | None:
    """At the recording's end."""
    truth = recording.truth(recording.end_ts)[dropped.schema.name]
    for name, value in zip(dropped.schema.key, dropped.key, strict=True):
        truth = truth.filter(pc.equal(truth[name], value))
    return rows_by_key(dropped.schema, truth).get(dropped.key)


# ---- words ----------------------------------------------------------------------------------------------------------


def _life_lines(one: ReplacedRow, rows: Sequence[dict[str, Any]], truth: Row | None) -> Iterator[str]:
    schema, window, change = one.schema, one.window, one.change
    last: dict[str, Any] = rows[-1] if rows else {"after": None, "origin": "nobody", "commit_ts": "0"}
    has = None if last["after"] is None else tuple(last["after"][name] for name in schema.column_names())
    shown = _differing(schema, [one.row, change.after, has, truth])
    same = truth == has or (truth is not None and has is not None and equal_rows(schema, truth, has))
    of_dump = sum(row["origin"] == "dump" for row in rows)
    between, at = f"{_moment(window.low_ts)} and {_moment(window.high_ts)}", f"{_moment(change.commit_ts)}, commit-ts {change.commit_ts}"
    yield f"The life of one key: {schema.name}, {_pairs(schema.key, one.key)}"
    yield f"  window of the dump  marks at {between}, commit-ts {window.low_ts} and {window.high_ts}"
    yield f"  live change         {change.op} at {at}, between the marks: {_change(one, shown)}"
    yield f"  row of the chunk    {_values(schema, one.row, shown)}; read in this window, {_why(one)}; dropped"
    yield f"  the consumer        {_values(schema, has, shown)}; from the {ORIGINS[last['origin']]}, commit-ts {last['commit_ts']}"
    yield f"                      rows of this key that it has received: {len(rows):,}, {of_dump or 'none'} of them from a chunk"
    yield f"  the source           {_values(schema, truth, shown)}; {'the same' if same else 'DIFFERENT'}"


def _differing(schema: TableSchema, images: Sequence[Row | None]) -> list[int]:
    """The columns to show: those in which the images differ, or else all beside the key."""
    there = [image for image in images if image is not None]
    places = [place for place in range(len(schema.columns)) if len({image[place] for image in there}) > 1]
    return places or [place for place, name in enumerate(schema.column_names()) if name not in schema.key]


def _why(one: ReplacedRow) -> str:
    change = one.change
    return (
        "as it was before the change"
        if change.before is not None and equal_rows(one.schema, change.before, one.row)
        else "other than the change left it"
    )


def _change(one: ReplacedRow, shown: Sequence[int]) -> str:
    before, after, names = one.change.before, one.change.after, one.schema.column_names()
    if before is None or after is None:
        return _values(one.schema, after, shown)
    return ", ".join(f"{names[place]} {_value(before[place])} → {_value(after[place])}" for place in shown if before[place] != after[place])


def _values(schema: TableSchema, row: Row | None, shown: Sequence[int]) -> str:
    return "no row" if row is None else _pairs([schema.column_names()[place] for place in shown], [row[place] for place in shown])


def _pairs(names: Sequence[str], values: Sequence[str | None]) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in zip(names, values, strict=True))


def _value(text: str | None) -> str:
    shown = "NULL" if text is None else repr(text)
    return shown if len(shown) <= VALUE_CHARS_MAX else shown[:VALUE_CHARS_MAX] + "…"


def _moment(ts: CommitTs) -> str:
    return datetime.fromtimestamp(physical_ms(ts) / 1000, UTC).strftime("%H:%M:%S.%f")[:-3]
