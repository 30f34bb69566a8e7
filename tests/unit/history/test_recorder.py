"""The history of dumps as the pipeline records it: with each request and each change of state, whoever dies when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidecar.history.entry import HistoryEntry, of_dump
from sidecar.history.recorder import END_NOT_RECORDED
from sidecar.pipeline import Pipeline
from sidecar.shared.model.messages import (
    NOT_RECORDED,
    Asker,
    Brackets,
    MarkFenced,
    PauseDump,
    Request,
    RestartDump,
    ResumeDump,
    SendMark,
    SetDump,
    Settings,
    SourceFailed,
    StopDump,
)
from sidecar.shared.model.nouns import Column, OperationId, Seq
from sidecar.shared.model.progress import DumpState
from sidecar.shared.model.schema_step import Beside
from tests.support.changes import ddl, put, resolved
from tests.unit.test_pipeline import (
    DUMP,
    DURABLE,
    ID,
    SCHEMAS,
    TABLE,
    WALL_MS,
    WIDER,
    Broken,
    MovingSchemas,
    Stage,
    before_the_window_closes,
    close_the_window,
    progress,
    start,
    state,
)

ALICE, BOB = Asker("certificate alice", "10.0.0.7:41000"), Asker("token 1f0c22ab", "10.0.0.8:52000")
SECOND = "2" * 16
AT_MS = WALL_MS + 1_000_000
"""The wall clock where the stage begins."""
REWRITTEN = {TABLE: replace(SCHEMAS[TABLE], columns=(*ID, Column("x", "text")))}


def asked(stage: Stage, pipeline: Pipeline, *requests: Request, by: Asker = ALICE, after_s: float = 0.0) -> None:
    stage.clock.time_s += after_s
    stage.requests.waiting += [replace(request, asker=by) for request in requests]
    pipeline.step(poll_s=0)
    assert stage.requests.answers[-1] is None


def entries(stage: Stage) -> list[HistoryEntry]:
    return list(stage.stored.history.entries())


def entry(stage: Stage, dump_id: str = DUMP) -> HistoryEntry:
    result = stage.stored.history.find(OperationId(dump_id))
    assert result is not None
    return result


def finish(stage: Stage, pipeline: Pipeline) -> None:
    while state(pipeline) is not DumpState.FINISHED:
        pipeline.step(poll_s=0)
        stage.feed.say(resolved(stage.source.ts + 1))
        assert stage.source.ts < 1_000


def test_a_dump_is_in_the_history_from_its_request_to_its_end() -> None:
    stage = Stage()
    pipeline = stage.attach()
    assert entries(stage) == []
    asked(stage, pipeline, start())
    (result,) = entries(stage)
    assert (result.id, result.asked_by, result.started_ms, result.state) == (DUMP, ALICE, AT_MS, DumpState.RUNNING)
    stage.clock.time_s += 7
    finish(stage, pipeline)
    (result,) = entries(stage)
    assert (result.state, result.rows, result.chunks, result.ended_ms) == (DumpState.FINISHED, 3, 1, AT_MS + 7_000)
    assert result.running_s_at(AT_MS + 99_000) == 7.0


def test_each_command_is_recorded_with_who_gave_it_and_the_pause_is_no_running_time() -> None:
    stage = Stage()
    pipeline = stage.attach()
    asked(stage, pipeline, start())
    asked(stage, pipeline, PauseDump(), by=BOB, after_s=5)
    asked(stage, pipeline, SetDump(Settings(readers=2, rows_per_s=0)), by=ALICE, after_s=10)
    asked(stage, pipeline, ResumeDump(Settings(chunk_rows=7)), by=BOB, after_s=20)
    asked(stage, pipeline, StopDump(), by=ALICE, after_s=1)
    result = entry(stage)
    assert [(one.command, one.asked_by, one.at_ms - AT_MS) for one in result.commands] == [
        ("pause", BOB, 5_000),
        ("set readers=2 rows_per_s=0", ALICE, 15_000),
        ("resume chunk_rows=7", BOB, 35_000),
        ("stop", ALICE, 36_000),
    ]
    assert (result.state, result.asked_by, result.running_s, result.ended_ms) == (DumpState.STOPPED, ALICE, 6.0, AT_MS + 36_000)


def test_a_refused_request_leaves_no_trace() -> None:
    stage = Stage()
    pipeline = stage.attach()
    asked(stage, pipeline, start())
    stage.requests.waiting += [replace(start(), dump_id="short", asker=BOB), ResumeDump(asker=BOB)]
    pipeline.step(poll_s=0)
    assert None not in stage.requests.answers[1:]
    asked(stage, pipeline, PauseDump(), by=ALICE)
    assert [one.command for one in entry(stage).commands] == ["pause"]
    assert len(entries(stage)) == 1


def test_a_failure_is_recorded_with_its_reason_and_a_resume_takes_it_back() -> None:
    stage = Stage()
    pipeline = stage.attach()
    asked(stage, pipeline, start())
    stage.source.fails = lambda command: SourceFailed(command, "a SELECT\nwas denied", "grant it")
    while state(pipeline) is not DumpState.FAILED:
        pipeline.step(poll_s=0)
    result = entry(stage)
    assert result.state is DumpState.FAILED
    assert result.result.startswith("a SELECT was denied")
    stage.source.fails = None
    asked(stage, pipeline, ResumeDump(), by=BOB)
    assert (entry(stage).state, entry(stage).result, entry(stage).ended_ms) == (DumpState.RUNNING, "", 0)


def test_a_restart_ends_one_entry_and_begins_another_in_one_step() -> None:
    stage = Stage()
    pipeline = stage.attach()
    asked(stage, pipeline, start())
    saves = stage.notes.calls.count("progress")
    asked(stage, pipeline, RestartDump(SECOND), by=BOB, after_s=3)
    assert stage.notes.calls.count("progress") == saves + 1
    second, first = entries(stage)
    assert (first.id, first.state, first.running_s) == (DUMP, DumpState.STOPPED, 3.0)
    assert [(one.command, one.asked_by) for one in first.commands] == [("restart", BOB)]
    assert (second.id, second.asked_by, second.state, second.restart_of) == (SECOND, BOB, DumpState.RUNNING, DUMP)


def test_a_restart_of_a_dump_that_is_over_leaves_its_entry_as_it_is() -> None:
    stage = Stage()
    pipeline = stage.attach()
    asked(stage, pipeline, start())
    finish(stage, pipeline)
    before = entry(stage)
    asked(stage, pipeline, RestartDump(SECOND), by=BOB, after_s=3)
    assert entry(stage) == before
    assert [one.id for one in entries(stage)] == [SECOND, DUMP]


def test_chunks_and_settings_as_they_are_write_no_entry() -> None:
    """An entry costs etcd what its bytes are, so a dump of a million chunks writes as many entries as one of two."""
    stage = Stage()
    pipeline = before_the_window_closes(stage)
    recorder, saved = pipeline.recorder, pipeline.dump.progress
    assert saved is not None
    moved = replace(saved, revision=saved.revision + 1, tables=(replace(saved.tables[0], chunks=9, rows=90),))
    assert recorder.due([moved]) == ()
    (result,) = recorder.due([replace(moved, state=DumpState.FINISHED)])
    assert (result.rows, result.chunks) == (90, 9)


@pytest.mark.parametrize("step", DURABLE)
def test_an_entry_is_brought_to_the_progress_by_the_next_owner_whatever_step_the_last_one_died_at(step: str) -> None:
    stage = Stage()
    pipeline = stage.attach()
    asked(stage, pipeline, start())
    pipeline.step(poll_s=0)
    stage.notes.fails_at = step
    with pytest.raises(Broken):
        close_the_window(stage, pipeline)
    stage.notes.fails_at = None
    stage.source.close()
    stage.source.ts = 300
    heir = stage.attach(epoch=2)
    assert heir.dump.progress is not None
    assert entry(stage).state is heir.dump.progress.state
    assert (entry(stage).state is DumpState.FINISHED) is (step in ("progress", "acknowledge"))
    finish(stage, heir)
    result = entry(stage)
    assert (result.state, result.rows, result.asked_by) == (DumpState.FINISHED, 3, ALICE)
    stage.clock.time_s += 100
    stage.attach(epoch=3)
    assert entries(stage) == [result], "repaired once"


def a_ddl_that_rewrites(stage: Stage) -> Pipeline:
    """After a dump that has finished."""
    stage.beside = Beside.READ_AGAIN
    stage.schemas = MovingSchemas({0: WIDER, 200: WIDER | REWRITTEN})
    pipeline = stage.attach()
    asked(stage, pipeline, start())
    finish(stage, pipeline)
    stage.source.ts = 210
    stage.feed.say(ddl(200, query="ALTER TABLE t MODIFY x TEXT"), resolved(205))
    return pipeline


def test_a_dump_that_the_sidecar_starts_is_in_the_history_with_the_reason() -> None:
    stage = Stage()
    pipeline = a_ddl_that_rewrites(stage)
    pipeline.step(poll_s=0)
    second, first = entries(stage)
    assert first.state is DumpState.FINISHED
    assert (second.id, second.state, second.started_ms) == (f"{200:016x}", DumpState.RUNNING, AT_MS)
    assert (second.asked_by.name, second.asked_by.address) == ("sidecar", "")
    assert "a DDL rewrote rows at commit_ts 200" in second.asked_by.reason


def test_a_dump_that_the_sidecar_started_as_it_died_is_in_the_history_all_the_same() -> None:
    stage = Stage()
    pipeline = a_ddl_that_rewrites(stage)
    stage.notes.fails_at = "progress"
    with pytest.raises(Broken):
        pipeline.step(poll_s=0)
    assert [one.id for one in entries(stage)] == [DUMP]
    stage.notes.fails_at = None
    stage.attach(epoch=2)
    second, _ = entries(stage)
    assert (second.id, second.asked_by.name, second.started_ms) == (f"{200:016x}", "sidecar", AT_MS)


@pytest.mark.parametrize("dies", [False, True])
def test_a_dump_whose_last_window_closes_in_the_segment_of_a_ddl_that_rewrites_reads_the_rows_again_itself(dies: bool) -> None:
    stage = Stage()
    stage.beside = Beside.READ_AGAIN
    stage.schemas = MovingSchemas({0: WIDER, 200: WIDER | REWRITTEN})
    pipeline = stage.attach()
    stage.feed.say(put(150, "x"), resolved(200))
    asked(stage, pipeline, start(Brackets.SNAPSHOT))
    stage.source.ts = 210
    stage.feed.say(ddl(200, query="ALTER TABLE t MODIFY x TEXT"), resolved(205))
    if dies:
        stage.notes.fails_at = "progress"
        with pytest.raises(Broken):
            pipeline.step(poll_s=0)
        stage.notes.fails_at = None
        stage.source.close()
        pipeline = stage.attach(epoch=2)
    else:
        pipeline.step(poll_s=0)
    (result,) = entries(stage)
    assert (result.id, result.state) == (DUMP, DumpState.RUNNING)
    finish(stage, pipeline)
    (result,) = entries(stage)
    assert (result.state, result.rows, result.commands) == (DumpState.FINISHED, 3, ())


def test_a_dump_that_nobody_knows_any_more_is_not_left_running() -> None:
    stage = Stage()
    stage.stored.history.record(replace(of_dump(progress(DumpState.RUNNING, revision=3), ALICE, now_ms=5), id=OperationId("9" * 16)))
    stage.stored.save([progress(DumpState.PAUSED, revision=3)])
    stage.attach(epoch=2)
    (unknown,) = [one for one in entries(stage) if one.id == "9" * 16]
    assert (unknown.state, unknown.result) == (DumpState.STOPPED, END_NOT_RECORDED)


@pytest.mark.parametrize("value", [DumpState.RUNNING, DumpState.PAUSED, DumpState.FAILED, DumpState.FINISHED])
def test_a_dump_of_a_version_without_a_history_is_added_while_it_is_not_over(value: DumpState) -> None:
    stage = Stage()
    stage.stored.save([replace(progress(value, revision=3), seq=Seq(-1))])
    pipeline = stage.attach(epoch=2)
    if value in (DumpState.FAILED, DumpState.FINISHED):
        assert entries(stage) == []
    else:
        assert (entry(stage).asked_by, entry(stage).started_ms, entry(stage).state) == (NOT_RECORDED, 0, value)
    if value is DumpState.FAILED:
        asked(stage, pipeline, ResumeDump(), by=BOB)
        assert (entry(stage).asked_by, entry(stage).commands[0].asked_by) == (NOT_RECORDED, BOB)


def test_a_fenced_dump_fails_in_the_history_with_the_manifests_state() -> None:
    """Another writer's watermark row ends the term; the next owner's dump goes on, and so does its entry."""
    stage = Stage()
    pipeline = stage.attach()
    asked(stage, pipeline, start())
    stage.source.fails = lambda command: (
        MarkFenced(command, "it is another's", "see who") if isinstance(command, SendMark) else SourceFailed(command, "x", "y")
    )
    with pytest.raises(Exception, match="it is another's"):
        pipeline.step(poll_s=0)
    stage.source.fails = None
    heir = stage.attach(epoch=2)
    assert heir.dump.progress is not None
    assert entry(stage).state is heir.dump.progress.state is DumpState.RUNNING
