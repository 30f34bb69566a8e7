"""A recording through the real pipeline, log, sink loop and follower of certificates, without Spark and etcd: a dump with its certificate
and its report.

    with CertifiedDump(tmp_path) as run:
        run.play()

The pipeline dies and comes back as the seed says, and so does the follower. Everything durable is below the folder: `log` and `out`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from time import monotonic, sleep
from types import ModuleType

import pyarrow as pa

from sidecar.adapters.memory.clock import MemoryClock
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.control.status import SidecarStatus
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.ports import NoSightings, Sightings
from sidecar.replay.crashes import Crash, CrashFate, MortalFeed, MortalLog, MortalProgress
from sidecar.replay.feed import Play
from sidecar.replay.source import RecordedSource, WatermarkRow
from sidecar.report.chunks import Chunks
from sidecar.run.certifying import TermCertificates
from sidecar.run.dump_reports import CertificateFacts, DumpReports
from sidecar.run.log_event import LogEvent
from sidecar.run.samples import Samples
from sidecar.shared.log.identity import claim_log, name_of
from sidecar.shared.log.owned import OwnedLog
from sidecar.shared.log.rows_file import write_chunk
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.chunk import WrittenChunk
from sidecar.shared.model.nouns import Seq, physical_ms
from sidecar.shared.model.progress import DumpState
from sidecar.shared.model.sink_delivery import ReportTimes, SinkDelivery
from sidecar.shared.ticdc.changefeed import ChangefeedName
from spark_merge.delivery.batches import JobSettings
from spark_merge.delivery.loop import SinkLoop
from spark_merge.delivery.sink_record import SinkId
from spark_merge.sinks.files.sink import FileSink
from spark_merge.sinks.folder.layout import FileFormat
from spark_merge.testing.places import Here
from tests.support.eventually import PATIENCE_S
from tests.support.replaying import CHANGEFEED, STEPS_MAX, Later, Run, Stage, stage

SINK = "copy"
SAMPLE_EVERY_S = 0.05


def checker() -> ModuleType:
    """deploy/certificate/check.py, which is in no package of ours."""
    return importlib.import_module("deploy.certificate.check")


class _Reports:
    """`ports.Deliveries` of one loop."""

    def __init__(self, loop: SinkLoop) -> None:
        self.loop = loop

    def accepted(self) -> Seq | None:
        return self.loop.standing().accepted

    def sinks(self) -> Sequence[SinkDelivery]:
        return (self.loop.standing(),)

    def report_times(self) -> ReportTimes | None:
        return None


class CertifiedDump:
    """`follower_dies`: how often the follower of certificates begins again. `row_sums`: as the setting. `sightings`: of each owner."""

    def __init__(
        self,
        folder: Path,
        run: Run,
        *,
        recording: str = "demo",
        feed: str = "kv",
        file_format: FileFormat = "jsonl",
        row_sums: bool = True,
        follower_dies: int = 0,
        sightings: Callable[[], Sightings] = NoSightings,
    ) -> None:
        self.sightings = sightings
        self.run, self.row_sums, self.follower_dies = run, row_sums, follower_dies
        self.made: Stage = stage(recording, feed)
        self.log, self.out = folder / "log", folder / "out"
        self.folder = open_folder(str(self.log))
        self.log_id = claim_log(self.folder, "cf/1")
        self.stored, self.lines, self.now_s = MemoryProgress(), list[LogEvent](), 0.0
        self.samples, self.chunks, self.wall_ms = Samples(every_s=SAMPLE_EVERY_S), Chunks(100, first=False), 0
        sink = FileSink(open_folder(str(self.out)), log_id=name_of("cf/1", self.log_id), file_format=file_format)
        self.loop = SinkLoop(SinkId(SINK, SINK), sink, JobSettings(self.folder), Here(), lambda _: None)
        self.followers = 0
        self.certificates = self._follower()

    @property
    def dump_id(self) -> str:
        """Of the dump that finished: others may have been stopped before."""
        return next(entry.id for entry in self.stored.history.entries() if entry.state is DumpState.FINISHED)

    @property
    def certificate(self) -> Path:
        return self.log / "certificates" / f"{self.dump_id}.json"

    @property
    def report(self) -> Path:
        return self.log / "reports" / f"{self.dump_id}.html"

    def __enter__(self) -> CertifiedDump:
        self.loop.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.end(to_the_end=False)
        self.loop.close(PATIENCE_S)

    def play(self) -> None:
        """To the end of the recording, of the dump and of the certificate, in the log and in the output."""
        fate, rng = CrashFate(Random(self.run.seed), self.run.crashes, chance=0.02), Random(self.run.seed)
        cluster = self.made.feed.open(Play(seed=self.run.seed, resends=self.run.resends))
        script, row = Later(self.made, self.run, cluster), WatermarkRow(CHANGEFEED)
        pipeline: Pipeline | None = None
        epoch = 0
        for _ in range(STEPS_MAX):
            try:
                if pipeline is None:
                    epoch += 1
                    pipeline = self._attach(fate, script, row, epoch)
                script.tables = pipeline.tables
                pipeline.step(poll_s=0)
                self._sample(pipeline)
            except Crash:
                pipeline = None
                continue
            if rng.random() < 0.3:
                self._follow(rng)
            progress = pipeline.dump.progress
            finished = progress is not None and progress.state is DumpState.FINISHED
            if finished and cluster.exhausted and pipeline.sequence.after_ts >= self.made.recording.end_ts:
                break
        self._wait_for(self._is_certified)

    def _sample(self, pipeline: Pipeline) -> None:
        """By the clock of the recording."""
        self.wall_ms = max(self.wall_ms + 1, physical_ms(pipeline.sequence.after_ts))
        waiting_for = "source: it reads" if pipeline.dump.open_windows() else ""
        changes, dumps = pipeline.counts.changes, pipeline.dump.records
        name = ChangefeedName("default", "default", CHANGEFEED)
        status = SidecarStatus(name, pipeline.epoch, "here:1", dumps=dumps, changes=changes, waiting_for=waiting_for)
        self.samples.see(status, self.wall_ms)

    def _follow(self, rng: Random) -> None:
        self.now_s += rng.choice([0.5, 1.0, 3.0])
        if self.follower_dies and rng.random() < 0.05:
            self.follower_dies -= 1
            self.certificates = self._follower()
        self.certificates.step()

    def _is_certified(self) -> bool:
        self.now_s += 0.1
        self.certificates.step()
        return self.certificate.exists() and (self.out / "_certificates" / self.certificate.name).exists()

    def _wait_for(self, what: Callable[[], bool]) -> None:
        until_s = monotonic() + PATIENCE_S
        while not what():
            self.loop.check()
            assert monotonic() < until_s, (self.lines, self.loop.standing())
            sleep(0.005)

    def _follower(self) -> TermCertificates:
        facts = CertificateFacts("cf/1", self.log_id, "default", "7000000000000000000", "0.0.0")
        reports, history = _Reports(self.loop), self.stored.history
        self.followers += 1
        return TermCertificates(
            OwnedLog(self.folder, self.followers),
            history,
            reports,
            DumpReports(self.folder, lambda: facts, self.samples, self.chunks, self.lines.append),
            now_s=lambda: self.now_s,
            log_line=self.lines.append,
        )

    def _attach(self, fate: CrashFate, script: Later, row: WatermarkRow, epoch: int) -> Pipeline:
        attached = self.made.feed.attach(script.cluster)

        def write(path: str, rows: pa.Table) -> WrittenChunk:
            return fate.around("chunk file", lambda: write_chunk(self.folder, path, rows, row_sums=self.row_sums))

        log = FolderLog(self.folder)
        log.id = self.log_id
        outside = Outside(
            feed=MortalFeed(attached.feed, fate),
            codec=attached.codec,
            log=MortalLog(log, fate),
            source=RecordedSource(self.made.history, script.cluster, row, write, seed=self.run.seed + epoch),
            schemas=attached.schemas,
            progress=MortalProgress(self.stored, fate),
            requests=script,
            clock=MemoryClock(every_s=0.1),
            spill=MemorySpill(),
            sightings=self.sightings(),
        )
        return attach(outside, changefeed_id=CHANGEFEED, epoch=epoch, limits=PipelineLimits())
