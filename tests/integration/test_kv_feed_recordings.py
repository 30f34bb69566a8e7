"""Recorded key-values through the whole line (puller, feed, sequence, schemas, log, decode) are the changes that TiCDC sent of the same
history, whatever the interleaving, and the same stream whenever the sidecar dies.

What differs from TiCDC's feeds is listed in test_kv_recordings.py; under schema changes the slow decoder with the schema at each commit
is the reference (tests/support/kv_ddl.py), and what TiCDC has is compared with that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import pytest

from sidecar.replay.feed import Play
from sidecar.replay.kv import KvRecording, RecordedPuller
from sidecar.replay.recording import Recording
from sidecar.shared.model.nouns import MARK_TABLE, Change, Ddl, Message, TableName, TableSchema
from spark_merge.codecs.decode.rows import decode
from tests.integration.test_kv_recordings import DELETES_OF_NOTHING, UPDATES_SPLIT, equal
from tests.lanes import LANE
from tests.support import kv_ddl, kv_recordings
from tests.support.kv_line import Line, Stream
from tests.support.recordings import recording
from tests.unit.decode.log import logged

pytestmark = pytest.mark.recordings

STILL = ("demo", "shop", "restart", "rowformats")
WITH_DDL = ("ddl", "ddl-new")
STEPS_MAX = 30_000
DEATHS_MAX = 12


@cache
def kv_recording(name: str) -> KvRecording:
    return KvRecording(Recording(recording(name)))


def line_of(name: str, seed: int, *, resends: int = 10, held_bytes_max: int = 1 << 30) -> Line:
    result = kv_recording(name)
    random = Random(seed)
    play = Play(seed=seed, resends=resends, batch_messages_max=random.choice([2, 20, 100]))
    return Line(RecordedPuller(result, play), result.snapshot, held_bytes_max=held_bytes_max)


def played(line: Line, end_ts: int, *, deaths: Random | None = None) -> Line:
    for _ in range(STEPS_MAX):
        line.step()
        if line.upto_ts >= end_ts:
            line.check_order()
            return line
        if deaths is not None and line.lives <= DEATHS_MAX and deaths.random() < 0.02:
            line.live()
    raise AssertionError(f"does not end: {line.upto_ts} of {end_ts}, {line.pipeline.sequence.resolved}")


@cache
def stream_of(name: str) -> Stream:
    """Without deaths and repeats."""
    return played(line_of(name, seed=0, resends=0), kv_recording(name).recording.end_ts).stream()


# ---- without schema changes -----------------------------------------------------------------------------------------


def versions_of(line: Line, value: Recording) -> dict[kv_recordings.Place, kv_recordings.Versions]:
    return kv_recordings.merged(
        (TableName(row["schema"], row["table"]), row["commit_ts"], row["op"], _row(row["before"]), _row(row["after"]), value)
        for row in line.decoded()
    )


def _row(value: list[str | None] | None) -> tuple[str | None, ...] | None:
    return None if value is None else tuple(value)


@pytest.mark.parametrize("seed", range(LANE.interleavings))
@pytest.mark.parametrize("name", STILL)
def test_the_log_of_key_values_is_the_feed_of_ticdc(name: str, seed: int) -> None:
    result = kv_recording(name).recording
    line = played(line_of(name, seed), result.end_ts)
    mine, theirs = versions_of(line, result), kv_recordings.feed_versions(name, "open-protocol")
    assert mine.keys() == theirs.keys()
    other_ops = Counter[tuple[tuple[str, ...], tuple[str, ...]]]()
    for place, version in mine.items():
        other, schema = theirs[place], result.schemas[place[0]]
        assert equal(schema, version.before, other.before), place
        assert equal(schema, version.after, other.after), place
        other_ops[version.ops, other.ops] += version.ops != other.ops
    assert +other_ops == {(("update",), ("delete", "insert")): UPDATES_SPLIT[name]}
    assert line.feed.counts["deletes of nothing"] >= DELETES_OF_NOTHING.get(name, 0)
    assert line.feed.counts["repeats"] > 0
    assert not line.schemas.dropped, "tables without a handle key are not even pulled"


@pytest.mark.parametrize("name", [*STILL, *WITH_DDL])
def test_every_interleaving_gives_one_stream(name: str) -> None:
    for seed in range(1, 1 + LANE.interleavings):
        line = played(line_of(name, seed, held_bytes_max=30_000 if seed == 2 else 1 << 30), kv_recording(name).recording.end_ts)
        assert line.stream() == stream_of(name), seed


@pytest.mark.parametrize("name", ["shop", *WITH_DDL])
@pytest.mark.parametrize("seed", range(LANE.interleavings))
def test_a_death_at_any_moment_changes_nothing(name: str, seed: int) -> None:
    line = played(line_of(name, seed), kv_recording(name).recording.end_ts, deaths=Random(seed))
    assert line.lives > 3
    assert line.stream() == stream_of(name)


@pytest.mark.parametrize("name", ["demo", "shop"])
def test_the_recorded_marks_are_read(name: str) -> None:
    result = kv_recording(name)
    line = played(line_of(name, 5), result.recording.end_ts)
    marks = [row for manifest in line.manifests() for row in line.rows(manifest) if (row.schema, row.table) == MARK_TABLE]
    read = [line.pipeline.outside.codec.mark(row) for row in marks]
    feed = result.recording.feed_config("open-protocol")
    codec = feed.codec()
    theirs = {
        codec.mark(change)
        for lane, messages in result.recording.messages(feed).items()
        for position, message in enumerate(messages)
        for change in codec.envelopes(Message(lane, position, message.key, message.value))
        if isinstance(change, Change) and (change.schema, change.table) == MARK_TABLE
    }
    assert set(read) == theirs
    assert len(read) > 10


# ---- with schema changes --------------------------------------------------------------------------------------------


@cache
def by_ts(name: str) -> Any:
    """Each change by its place and operation, under the schema at its commit_ts - 1, by the slow decoder."""
    return {(*place, op): version for place, version in kv_ddl.kv_versions(name).items() for op in version.ops}


@pytest.mark.parametrize("seed", range(LANE.interleavings // 2))
@pytest.mark.parametrize("name", WITH_DDL)
def test_under_schema_changes_every_row_has_the_schema_of_its_commit(name: str, seed: int) -> None:
    line = played(line_of(name, seed), kv_recording(name).recording.end_ts)
    result = set()
    for row, schema in decoded_with_schemas(line):
        before, after = _row(row["before"]), _row(row["after"])
        names, image = schema.column_names(), after or before
        assert image is not None
        place = (schema.name, row["commit_ts"], tuple(image[names.index(column)] for column in schema.key), row["op"])
        version = by_ts(name)[place]
        assert schema.column_names() == version.version.description.schema.column_names()
        assert before in (None, version.before), place
        assert after in (None, version.after), place
        result.add(place)
    assert result == by_ts(name).keys()
    assert line.schemas.dropped["gone"] in (1, 2), "a late write to a truncated table, and one to a partition that was reorganised away"


def decoded_with_schemas(line: Line) -> Iterator[tuple[dict[str, Any], TableSchema]]:
    for schemas, rows in line.by_schemas():
        for change in decode(logged(rows, codec="kv"), codec="kv", schemas=schemas).to_pylist():
            yield change, schemas[TableName(change["schema"], change["table"])]


@pytest.mark.parametrize("name", WITH_DDL)
def test_the_ddls_are_those_that_ticdc_sends(name: str) -> None:
    """At the same commit_ts, named by the same tables but one: which of the two an exchange is named by differs in the architectures. Not
    in the same words: TiCDC's are its parser's. One job that renames two tables is one DDL here."""
    feed = kv_recording(name).recording.feed_config("open-protocol")
    codec = feed.codec()
    theirs = {
        (ddl.commit_ts, ddl.schema, ddl.table)
        for lane, messages in kv_recording(name).recording.messages(feed).items()
        for position, message in enumerate(messages)
        for ddl in codec.envelopes(Message(lane, position, message.key, message.value))
        if isinstance(ddl, Ddl)
    }
    ours = {(ddl.commit_ts, ddl.schema, ddl.table): ddl.query for ddl in stream_of(name).ddls if ddl.query}
    missing, more = theirs - ours.keys(), ours.keys() - theirs
    assert {table for _, _, table in missing} == {"dec_pk2"} | ({"swap_me"} if name == "ddl-new" else set())
    exchange = "alter table ledger exchange partition pmax with table swap_me without validation"
    assert {ours[ddl] for ddl in more} == ({exchange} if name == "ddl-new" else set())
