"""An entry of the history: what it takes from a dump, and its bounds, whatever it is made of."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sidecar.history.entry import (
    COMMANDS_KEPT_MAX,
    TABLES_KEPT_MAX,
    HistoryEntry,
    OperationKind,
    OperationScope,
    advanced,
    entry_from_json,
    of_dump,
    one_line,
)
from sidecar.shared.model.messages import Asker, Brackets
from sidecar.shared.model.nouns import CommitTs, OperationId, Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress, TableProgress

ALICE = Asker("certificate alice", "10.0.0.7:41000")
PROGRESS = Progress(
    dump_id="1" * 16,
    state=DumpState.RUNNING,
    brackets=Brackets.WATERMARK,
    chunk_rows=10,
    epoch=1,
    revision=1,
    seq=Seq(1),
    tables=(
        TableProgress(TableName("s", "whole"), chunks=1, rows=10, bytes=100, complete_at=CommitTs(7)),
        TableProgress(TableName("s", "keys"), chunks=2, rows=20, bytes=200, keys=(("1",),), whole=False),
        TableProgress(TableName("s", "part"), chunks=3, rows=30, bytes=300, where="x > 1", whole=False),
        TableProgress(TableName("s", "of the changefeed's filter"), where="y > 1"),
    ),
    sinks=("lake",),
)
LONG = "界" * 10_000
ENTRY_BYTES_MAX = 32 << 10


def test_an_entry_is_what_the_dump_is() -> None:
    entry = of_dump(PROGRESS, ALICE, started_ms=1_000, now_ms=1_000)
    assert entry.kind is OperationKind.DUMP
    assert entry.scope == OperationScope(("s.whole", "s.keys", "s.part", "s.of the changefeed's filter"), 4, 1, 1, ("lake",))
    assert (entry.id, entry.asked_by, entry.state) == (PROGRESS.dump_id, ALICE, DumpState.RUNNING)
    assert (entry.rows, entry.bytes, entry.chunks) == (60, 600, 6)


def test_the_seconds_are_those_in_which_it_ran_and_a_clock_that_was_set_back_counts_for_nothing() -> None:
    entry = of_dump(PROGRESS, ALICE, started_ms=1_000, now_ms=1_000)
    assert entry.running_s_at(3_500) == 2.5
    paused = advanced(entry, replace(PROGRESS, state=DumpState.PAUSED), 3_500)
    assert (paused.running_s_at(99_000), paused.ended_ms) == (2.5, 0)
    running = advanced(paused, PROGRESS, 10_000)
    assert running.running_s_at(9_000) == 2.5
    failed = advanced(running, replace(PROGRESS, state=DumpState.FAILED, reason="denied"), 11_000)
    assert (failed.running_s_at(99_000), failed.ended_ms, failed.result) == (3.5, 11_000, "denied")
    assert advanced(failed, replace(PROGRESS, state=DumpState.FAILED, reason="denied"), 20_000) == failed, "told again"
    resumed = advanced(failed, PROGRESS, 20_000)
    assert (resumed.ended_ms, resumed.result) == (0, "")


def test_an_entry_is_small_whatever_it_is_made_of() -> None:
    tables = tuple(TableProgress(TableName(LONG, f"{LONG}{number}")) for number in range(1_000))
    progress = replace(PROGRESS, tables=tables, sinks=(LONG,) * 100, state=DumpState.FAILED, reason=LONG)
    entry = of_dump(progress, Asker(LONG, LONG, LONG), started_ms=1, now_ms=1)
    for number in range(100):
        entry = entry.commanded(f"set {number} {LONG}", Asker(LONG, LONG, LONG), number)
    assert (len(entry.scope.tables), entry.scope.table_count) == (TABLES_KEPT_MAX, 1_000)
    assert (len(entry.commands), entry.commands_before) == (COMMANDS_KEPT_MAX, 100 - COMMANDS_KEPT_MAX)
    assert entry.commands[-1].command.startswith("set 99 "), "the last ones are kept"
    assert len(json.dumps(entry.to_json(), ensure_ascii=False).encode()) < ENTRY_BYTES_MAX
    assert entry_from_json(json.loads(json.dumps(entry.to_json()))) == entry


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain ü 界", "plain ü 界"),
        ("a\x1b[2Jb\r\nc\x00\x9b", "a [2Jb  c  "),
        ("bidi \u202e and \u2028 lines \udc80", "bidi   and   lines  "),
        ("x" * 30, "x" * 19 + "…"),
        ("x" * 20, "x" * 20),
    ],
)
def test_a_text_of_others_is_one_bounded_line(text: str, line: str) -> None:
    assert one_line(text, 20 if text.startswith("x") else 100) == line
    asker = Asker(text, text, text)
    entry = HistoryEntry(OperationId("1"), OperationKind.DUMP, OperationScope((text,), 1, sinks=(text,)), asker, 0, result=text)
    entry = entry.commanded(text, asker, 0)
    results = [entry.result, *entry.scope.tables, *entry.scope.sinks, entry.commands[0].command]
    for one in (entry.asked_by, entry.commands[0].asked_by):
        results += [one.name, one.address, one.reason]
    assert all(one.isprintable() for one in results)


@pytest.mark.parametrize("value", [{}, [], None, 1, {"id": "1"}, {"id": "1", "scope": 7}])
def test_what_is_no_entry_raises(value: object) -> None:
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        entry_from_json(value)  # type: ignore[arg-type]  # what a hand left in etcd
