"""The life of one key in a replay, in words: a row of a chunk that was dropped since a live change had replaced it.

    events of each table (spark_merge/tail) ─► dropped rows with other values ─► one key: output, truth

All of it is read from what the replay has written: the log, the output as its reader has it, and the recording's truth. The best key is an
update that no later change followed, for its values are what the consumer and the truth must have in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

import pyarrow.compute as pc

from sidecar.replay.judge.rows import Key, Row, equal_rows, rows_by_key
from sidecar.replay.recording import Recording
from sidecar.shared.log.manifests import last_manifest
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs, Seq, TableName, TableSchema, carried, physical_ms
from spark_merge.log.cache import DecodedRows
from spark_merge.log.read import LoggedSchemas
from spark_merge.log.undecodable import Decoding
from spark_merge.port.contract import DueChunk
from spark_merge.sinks.files.reader import read_rows as read_output_rows
from spark_merge.sinks.files.reader import read_segments
from spark_merge.tail.events import EventKind, LiveChange, TailEvent
from spark_merge.tail.segment import TailScope
from spark_merge.tail.stream import Since, TableStream
from spark_merge.tail.wanted import table_named

NO_KEY = "No life of a key: no live change has replaced a row of a chunk by one with other values."
VALUE_CHARS_MAX = 40
ORIGINS = {"log": "live changes", "dump": "dump", "nobody": "nobody"}


@dataclass(frozen=True, slots=True)
class ReplacedRow:
    """A row of a chunk that is not delivered: `change` came in its window and has other values."""

    schema: TableSchema
    key: Key
    due: DueChunk
    row: Row
    change: LiveChange


def life_of_a_key(log: Folder, output: Folder, recording: Recording) -> str:
    """Some lines for people; NO_KEY where no row qualifies. Raises as reading the log, the output (JSON lines) and the recording."""
    dropped_row = best(*replaced(log))
    return (
        NO_KEY
        if dropped_row is None
        else "\n".join(_life_lines(dropped_row, _output_rows(output, dropped_row), _true_row(recording, dropped_row)))
    )


LastTs = Mapping[tuple[TableName, Key], CommitTs]
"""Of the last change of each key, in the whole log."""


def best(dropped: Iterable[ReplacedRow], last_ts: LastTs) -> ReplacedRow | None:
    """The first update that is the last change of its key; without one the first row."""
    first: ReplacedRow | None = None
    for one in dropped:
        first = first or one
        if one.change.op == "update" and last_ts[one.schema.name, one.key] == one.change.commit_ts:
            return one
    return first


def replaced(log: Folder) -> tuple[list[ReplacedRow], LastTs]:
    """In the order of the log, of each chunk the rows that a change has replaced by other values."""
    rows, last_ts, cache = list[tuple[tuple[Seq, int], ReplacedRow]](), dict[tuple[TableName, Key], CommitTs](), DecodedRows()
    last = last_manifest(log)
    for name in () if last is None else carried(LoggedSchemas(log, last.next_schemas or last.schemas)):
        followed, _ = table_named(log, str(name))
        for event in TableStream(TailScope(log, Decoding()), followed, Since(), cache).all():
            if event.kind is EventKind.LIVE and event.key is not None:
                last_ts[event.table, event.key] = event.commit_ts
            elif (one := _replaced(event)) is not None:
                rows.append(((event.seq, one.due.number), one))
    return [one for _, one in sorted(rows, key=itemgetter(0))], last_ts


def _replaced(event: TailEvent) -> ReplacedRow | None:
    schema, key, due, row, change = event.schema, event.key, event.chunk, event.after, event.change
    if event.kind is not EventKind.DROPPED or schema is None or key is None or due is None or row is None or change is None:
        return None
    is_other = change.after is None or not equal_rows(schema, change.after, row)
    return ReplacedRow(schema, key, due, row, change) if is_other else None


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
    schema, window, change = one.schema, one.due, one.change
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
