"""The whole line over a recording: feed, sidecar, log, Spark, sinks, verdict.

    recording -> RecordingFeed -> Pipeline (dies and comes back by the settings) -> FolderLog -> Job (a thread) -> sinks -> verify

What chance decides comes from one seed: interleaving, moments of marks and reads, pauses, restarts, resends, crashes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa

import sidecar
from sidecar.adapters.clock import MonotonicClock
from sidecar.core.dump_start import DumpLimits, Ground
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.ports import Source
from sidecar.replay.crashes import Crash, CrashFate, MortalFeed, MortalLog, MortalProgress
from sidecar.replay.dump_report import ReplayFacts, ReportedDump, check_writable
from sidecar.replay.feed import Play
from sidecar.replay.judge.verify import VerifyVerdict, verify
from sidecar.replay.life import life_of_a_key
from sidecar.replay.operator import OPERATOR, Script
from sidecar.replay.played import PlayedFeed
from sidecar.replay.progress_file import FileProgress
from sidecar.replay.recorded_dump import DUMP_ID, RecordedDump
from sidecar.replay.recording import Recording
from sidecar.replay.report import EVERY_TABLE, ReplayReport, ReplaySettings
from sidecar.replay.source import RecordedSource, WatermarkRow, recorded_windows
from sidecar.replay.status import ReplayStatus
from sidecar.shared.errors import FeedUnsuitable, SinkError, SourceError
from sidecar.shared.log.identity import claim_log, name_of, own_id
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.skips import read_skips
from sidecar.shared.log.spill import FileSpill
from sidecar.shared.log.storage import Folder, open_folder
from sidecar.shared.model.chunk import WrittenChunk
from sidecar.shared.model.messages import Brackets, Command, SourceEvent, StartDump
from sidecar.shared.model.nouns import MARK_TABLE, CommitTs, TableName, TableSchema, operation_id
from sidecar.shared.model.progress import DumpState
from sidecar.shared.ticdc.table_rules import matching
from spark_merge.delivery.batches import JobSettings
from spark_merge.sinks.kit.errors import sink_folder
from spark_merge.sinks.registry import open_sinks, outputs_of
from spark_merge.worker.greeting import without_greeting
from spark_merge.worker.job import SparkJob
from spark_merge.worker.spark_tasks import RunningSpark, SparkTasks

STEPS_MAX = 5_000_000
"""A replay that has not ended by then never ends; the error says what it waits for."""

POLL_S = 0.05

RECORDED = "recorded"
REPLAY_SIGN = ".ticdc-dump-replay"
WATERMARK_ROW_ID = "replay"


class NoSource:
    """The source of a recorded dump, which reads nothing."""

    def request(self, command: Command) -> None:
        raise AssertionError(f"a recorded dump requested {command}")

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        """It reads nothing."""

    def results(self) -> list[SourceEvent]:
        return []

    def close(self) -> None:
        return None


class Replay:
    """One run. Everything durable is under `out`; what a previous run left there is removed first.

    Making one checks the settings and raises what is wrong with them; Spark is needed by `run` only.
    """

    def __init__(self, settings: ReplaySettings) -> None:
        self.settings = settings
        self.recording = Recording(settings.recording)
        self.feed = PlayedFeed(self.recording, settings.feed)
        self.schemas = self.recording.schemas
        self.tables = self._scope()
        open_sinks(settings.sinks, log_id="")  # what cannot be opened is reported before anything is made
        self.out = (settings.out or Path("out") / f"{self.recording.name}-{self.feed.name}-{settings.brackets}").resolve()
        make_empty(self.out)
        if settings.report is not None:
            check_writable(settings.report)
        self.log: Folder = open_folder(f"{self.out}/log")
        uris = settings.sinks or (f"file://{self.out}/output?format=jsonl",)
        self.sinks = open_sinks(uris, log_id=name_of(self.feed.changefeed_id, claim_log(self.log, self.feed.changefeed_id)))
        self._outputs = outputs_of(uris)
        written = zip(uris, self.sinks.values(), strict=True)
        self.verified = next((sink_folder(uri) for uri, sink in written if getattr(sink, "file_format", "") == "jsonl"), None)
        if (settings.verify or settings.key_life) and self.verified is None:
            hint = "add a sink with ?format=jsonl, or give --no-verify and no --key-life"
            raise FeedUnsuitable("verify and the life of a key read jsonl and no sink writes it", hint=hint)
        self.clock = MonotonicClock()
        self.fate = CrashFate(Random(settings.seed), settings.crashes, due=self._crash_due)
        self.row = WatermarkRow(WATERMARK_ROW_ID)
        self.stored = FileProgress(open_folder(str(self.out)))
        self.script = Script(Random(settings.seed), self._start_request())
        self.rows = None if settings.brackets == RECORDED else self.feed.tables()
        start = self.recording.truth(self.recording.start_ts)
        self.estimates = {table: start[table].num_rows for table in self.tables if table in start}
        self.began_s = self.clock.now_s()
        self.pipeline: Pipeline | None = None
        self.kept_report: ReportedDump | None = None
        self.epoch = self.repeats = 0

    def run(self, show: Callable[[ReplayStatus], None], begin: Callable[[], RunningSpark]) -> ReplayReport:
        """Play to the end of the recording and of the dump, deliver, verify. Raises what stops the sidecar or Spark. `begin` makes a
        Spark, where a batch needs one: what is small is merged in this process (spark_merge/delivery/places.py)."""
        tasks, rows = SparkTasks(begin, when_needed=True), self.settings.worker_rows
        self.spark = SparkJob(tasks, self.sinks, JobSettings(self.log), worker_rows=rows, outputs=self._outputs)
        self.spark.start()
        self.began_s = self.clock.now_s()
        play = Play(seed=self.settings.seed, speed=self.settings.speed, resends=self.settings.resends)
        self.cluster = self.feed.open(play, clock=self.clock)
        if self.settings.report is not None:
            self.kept_report = ReportedDump(self._facts(), self.log, self.stored.history, self.spark, self.clock)
        for _ in range(STEPS_MAX):
            self._step()
            self.spark.check()
            show(self._status("playing"))
            if self._played():
                break
        else:
            raise SourceError(f"the replay does not end: {self.pipeline and self.pipeline.dump.progress}", hint="report this with the seed")
        show(self._status("delivering"))
        self.spark.finish()
        seconds = self.clock.now_s() - self.began_s
        self._write_report()
        show(self._status("verifying" if self.settings.verify else "done"))
        return self._report(self._verdict() if self.settings.verify else None, seconds)

    # ---- the sidecar, which may die --------------------------------------------------------------------------------

    def _step(self) -> None:
        try:
            if self.pipeline is None:
                self.epoch += 1
                self.pipeline = self._attach()
            self.pipeline.step(poll_s=POLL_S)
            if self.kept_report is not None:
                self.kept_report.see(self.pipeline, self.cluster.reached_ms(), self._changes())
        except Crash as crash:
            if self.pipeline is not None:
                self.repeats += self.pipeline.sequence.repeats
                self.pipeline.outside.source.close()
            if self.kept_report is not None:
                self.kept_report.died(str(crash), self.cluster.reached_ms())
            self.pipeline = None

    def _crash_due(self) -> bool:
        """At a speed, crashes are spread over the recording."""
        done = len(self.fate.deaths) + 1
        return self.settings.speed is None or self.cluster.played_part() * (self.settings.crashes + 1) >= done

    def _attach(self) -> Pipeline:
        log = FolderLog(self.log)
        attached = self.feed.attach(self.cluster)
        outside = Outside(
            feed=MortalFeed(attached.feed, self.fate),
            codec=attached.codec,
            log=MortalLog(log, self.fate),
            source=self._source(),
            schemas=attached.schemas,
            progress=MortalProgress(self.stored, self.fate),
            requests=self.script,
            clock=self.clock,
            spill=FileSpill(None),
            deliveries=self.spark if self.settings.speed is not None else None,  # at full speed nothing waits for Spark
            wall_ms=self.cluster.reached_ms,
        )
        pipeline = attach(outside, changefeed_id=WATERMARK_ROW_ID, epoch=self.epoch, limits=PipelineLimits())
        if self.settings.brackets == RECORDED:
            pipeline.dump = self._recorded_dump(pipeline)
            if self.stored.history.find(DUMP_ID) is None:
                pipeline.recorder.requested(replace(self._start_request(), dump_id=DUMP_ID))
        return pipeline

    def _source(self) -> Source:
        if self.rows is None:
            return NoSource()
        return RecordedSource(self.rows, self.cluster, self.row, self._write_chunk, seed=self.settings.seed + self.epoch)

    def _write_chunk(self, path: str, rows: pa.Table) -> WrittenChunk:
        return self.fate.around("chunk file", lambda: write_chunk(self.log, path, rows, row_sums=self.settings.row_sums))

    def _recorded_dump(self, pipeline: Pipeline) -> RecordedDump:
        recorded = recorded_windows(self.recording)
        return RecordedDump(
            recorded.windows,
            tables=self.tables,
            ground=Ground(recorded.changefeed_id, self.epoch, DumpLimits(), pipeline.sequence.after_ts, pipeline.next_seq),
            progress=pipeline.dump.progress,
            write_chunk=partial(write_chunk, self.log, row_sums=self.settings.row_sums),
        )

    # ---- what is requested -----------------------------------------------------------------------------------------

    def _scope(self) -> tuple[TableName, ...]:
        replicated = [name for name, schema in self.schemas.items() if schema.key and name != MARK_TABLE]
        scope = tuple(matching(self.settings.tables, replicated))
        if not scope:
            raise FeedUnsuitable(
                f"no replicated table matches {','.join(self.settings.tables)}", hint=f"choose from {', '.join(map(str, replicated))}"
            )
        return scope

    def _start_request(self) -> StartDump:
        brackets = Brackets.WATERMARK if self.settings.brackets == RECORDED else Brackets(self.settings.brackets)
        whole = self.settings.tables == EVERY_TABLE
        dump_id = f"{self.settings.seed & 0xFFFFFFFF:016x}"
        return StartDump(dump_id, self.tables, brackets, self.settings.chunk_rows, pace=self.settings.pace, grows=whole, asker=OPERATOR)

    # ---- where it stands -------------------------------------------------------------------------------------------

    def _played(self) -> bool:
        """The recording is over, the dump too, and the log has reached the recording's end."""
        pipeline = self.pipeline
        if pipeline is None or not self.cluster.exhausted or pipeline.sequence.after_ts < self.recording.end_ts:
            return False
        progress = pipeline.dump.progress
        return progress is not None and progress.state is DumpState.FINISHED

    def _changes(self) -> int:
        """Live changes that are delivered. The log has marks among its rows, too."""
        return sum(rows.log for rows in list(self.spark.counts.values()))

    def _dump_rows(self) -> int:
        """Rows of chunks that are delivered, or dropped in their windows."""
        return sum(rows.dump + rows.dropped for rows in list(self.spark.counts.values()))

    def _repeats(self) -> int:
        return self.repeats + (self.pipeline.sequence.repeats if self.pipeline else 0)

    def _status(self, phase: str) -> ReplayStatus:
        pipeline = self.pipeline
        return ReplayStatus(
            phase=phase,
            elapsed_s=self.clock.now_s() - self.began_s,
            played=self.cluster.played_part(),
            resolved_ts=pipeline.sequence.after_ts if pipeline else CommitTs(0),
            changes=self._changes(),
            repeats=self._repeats(),
            dump_rows=self._dump_rows(),
            dropped=sum(rows.dropped for rows in list(self.spark.counts.values())),
            open_windows=pipeline.dump.open_windows() if pipeline else 0,
            logged=pipeline.next_seq if pipeline else 0,
            delivered=self.spark.delivered,
            crashes=len(self.fate.deaths),
            progress=pipeline.dump.progress if pipeline else None,
            estimates=self.estimates,
        )

    def _verdict(self) -> VerifyVerdict:
        assert self.pipeline is not None
        assert self.pipeline.dump.progress is not None
        complete_at = {t.table: t.complete_at for t in self.pipeline.dump.progress.tables if t.complete_at is not None}
        assert self.verified is not None
        return verify(
            self.verified,
            self.recording,
            complete_at=complete_at,
            tables=self.tables,
            steps=self.feed.steps,
            false_deletes=self.feed.false_deletes,
        )

    def _report(self, verdict: VerifyVerdict | None, seconds: float) -> ReplayReport:
        return ReplayReport(
            ok=verdict is None or verdict.ok,
            exit_reason="not verified" if verdict is None else "equal" if verdict.ok else "different",
            seconds=seconds,
            changes=self._changes(),
            dump_rows=self._dump_rows(),
            segments=self.spark.delivered,
            repeats=self._repeats(),
            deaths=tuple(self.fate.deaths),
            outputs=tuple(self.sinks),
            dropped={table: rows.dropped for table, rows in self.spark.counts.items()},
            verdict=verdict,
            skipped=tuple(read_skips(self.log)),
            key_life=life_of_a_key(self.log, self.verified, self.recording) if self.settings.key_life and self.verified else "",
            report=self.settings.report,
        )

    def _facts(self) -> ReplayFacts:
        speed = "as fast as it goes" if self.settings.speed is None else f"at {self.settings.speed:g} times its speed"
        played = f"none: the recording {self.recording.name}, played {speed}; times are the recording's"
        return ReplayFacts(self.feed.changefeed_id, own_id(self.log), played, sidecar.__version__)

    def _write_report(self) -> None:
        if self.kept_report is not None:
            assert self.settings.report is not None
            assert self.pipeline is not None
            assert self.pipeline.dump.progress is not None
            self.kept_report.write(operation_id(self.pipeline.dump.progress.dump_id), self.settings.report)


def run(settings: ReplaySettings, show: Callable[[ReplayStatus], None]) -> ReplayReport:
    """Check the settings, start Spark, play."""

    def begin() -> RunningSpark:
        from spark_merge.worker.session import OpenSession, session

        with without_greeting():
            return OpenSession(session(master=settings.master))

    return Replay(settings).run(show, begin)


def make_empty(out: Path) -> None:
    """An empty folder with our sign in it. Removes a previous replay's files, and nothing else that a user may have there."""
    if out.is_dir() and any(out.iterdir()) and not (out / REPLAY_SIGN).exists():
        raise SinkError(f"{out} is not empty and not of a previous replay", hint="give a new or empty folder with --out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / REPLAY_SIGN).write_text("The folder of a ticdc-dump replay; the next one removes it.\n")
