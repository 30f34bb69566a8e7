"""A dump from TiKV beside its change feed, through the whole line: no SELECT, no mark. A real cluster's history is played while the dump
runs, sidecars die and continue, regions move; what is merged is never a row of the past, and at the end it is TiDB's own snapshot."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

import pytest

from sidecar.adapters.clock import MonotonicClock
from sidecar.adapters.memory.log import MemoryDisk, MemoryLog
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.adapters.tidb.source import TidbSource, own_readers
from sidecar.feeds.kv.feed import KvFeed
from sidecar.feeds.kv.schemas import KvSchemas
from sidecar.feeds.tikv.puller import TikvPuller
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.replay.judge.verify import VerifyVerdict, replay
from sidecar.replay.kv import snapshot_at_start
from sidecar.replay.recording import Recording
from sidecar.shared.codecs.kv import KvCodec
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.messages import Brackets, ReadWith, StartDump
from sidecar.shared.model.nouns import MARK_TABLE
from sidecar.shared.model.progress import DumpState
from sidecar.shared.reads.tikv_reads import TikvReads
from sidecar.shared.rowcodec.kv_layout import KvSnapshot
from sidecar.shared.ticdc.changefeed import FeedFilter
from sidecar.shared.ticdc.ddl_rules import DdlRules
from tests.integration.test_tikv_reads import NOWHERE
from tests.support.recordings import recording
from tests.support.replaying import CachedTruth, Stage, output_of
from tests.support.tikv.cluster import Cluster
from tests.support.tikv.faults import Faults
from tests.support.tikv.recorded import whole_history
from tests.support.tikv.server import TikvServers
from tests.unit.test_pipeline import FakeRequests, Notes

pytestmark = [pytest.mark.recordings, pytest.mark.xdist_group("kv-stream")]

PATIENCE_S = 120.0
DUMP = "0123456789abcdef"
CHUNK_ROWS = 60
DEATHS = 3
ROWS_A_STEP = 8
"""Of the history, so that it lasts as long as the dump."""


@dataclass
class Line:
    """One log and one store of progress, and the sidecars that write them one after another."""

    made: Stage
    servers: TikvServers
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    stored: MemoryProgress = field(default_factory=MemoryProgress)
    epoch: int = 0

    @contextmanager
    def sidecar(self) -> Iterator[Pipeline]:
        self.epoch += 1
        log, section = MemoryLog(self.disk), self.servers.section()
        schemas = schemas_of(self.made.recording)
        with ExitStack() as closing:
            puller = TikvPuller(section, name="default/test")
            closing.callback(puller.close)
            readers = own_readers(NOWHERE, TikvReads(section, {}), write_chunk=log.write_chunk)
            source = TidbSource(NOWHERE, schemas={}, write_chunk=log.write_chunk, changefeed_id="test", make_readers=readers)
            closing.callback(source.close)
            outside = Outside(
                feed=KvFeed(puller, schemas),
                codec=KvCodec(schemas.mark_table),
                log=log,
                source=source,
                schemas=schemas,
                progress=self.stored,
                requests=FakeRequests(Notes(), [start(self.made)] if self.epoch == 1 else []),
                clock=MonotonicClock(),
                spill=MemorySpill(),
            )
            yield attach(outside, changefeed_id="test", epoch=self.epoch, limits=PipelineLimits())

    def verdict(self, pipeline: Pipeline, *, drop_nothing: bool = False) -> VerifyVerdict:
        progress = pipeline.dump.progress
        assert progress is not None
        assert progress.state is DumpState.FINISHED, progress.reason
        complete_at = {table.table: table.complete_at for table in progress.tables if table.complete_at is not None}
        output = output_of(self.made, self.disk, drop_nothing=drop_nothing)
        return replay(output, self.made.truth, upto_ts=pipeline.sequence.after_ts, complete_at=complete_at, tables=self.made.tables)


def start(made: Stage) -> StartDump:
    return StartDump(DUMP, made.tables, Brackets.SNAPSHOT, CHUNK_ROWS, read_with=ReadWith.TIKV)


def schemas_of(name: Recording) -> KvSchemas:
    """With the watermark table, which the recording lacks: nothing is ever written to it here."""

    def snapshot() -> KvSnapshot:
        marks = [one for one in snapshot_at_start(Recording(recording("demo"))).schemas if one.name == MARK_TABLE.schema]
        tables = snapshot_at_start(name)
        return replace(tables, schemas=[*tables.schemas, *marks])

    return KvSchemas(snapshot, DdlRules.of(FeedFilter(rules=("*.*",)), new_architecture=False))


def made_of(name: str) -> Stage:
    result = Recording(recording(name))
    tables = tuple(table for table, schema in result.schemas.items() if schema.key and table != MARK_TABLE)
    schemas = schemas_of(result)
    schemas.begin()
    return Stage(result, None, KvCodec(schemas.mark_table), CachedTruth(result), tables, None, None)  # type: ignore[arg-type]  # of TiCDC's feeds


@pytest.mark.parametrize("seed", range(4))
def test_a_dump_from_tikv_beside_its_change_feed_leads_to_the_truth(seed: int) -> None:
    history, choice = whole_history("zero"), random.Random(seed)
    cluster = Cluster(history, seed=seed, stores=3)
    cluster.advance(next(at for at, row in enumerate(history.log) if row.commit_ts > int(Recording(recording("zero")).start_ts)))
    with TikvServers(cluster) as servers:
        servers.follows_log = True
        faults, line = Faults(servers, seed=seed), Line(made_of("zero"), servers)
        until_s, died = time.monotonic() + PATIENCE_S, 0
        while True:
            with line.sidecar() as pipeline:
                steps_left = choice.randrange(20, 300) if died < DEATHS else -1
                while not done(pipeline, line.made.recording.end_ts):
                    assert time.monotonic() < until_s, pipeline.dump.progress
                    if choice.random() < 0.05:
                        faults.happen()
                    cluster.advance(choice.randrange(ROWS_A_STEP))
                    if cluster.is_at_end:
                        cluster.rest(1)
                    pipeline.step(poll_s=0.01)
                    steps_left -= 1
                    if not steps_left:
                        break
                else:
                    verdict = line.verdict(pipeline)
                    assert verdict.ok, [table for table in verdict.tables if not table.equal] or verdict.unexpected_rows
                    assert not line.verdict(pipeline, drop_nothing=True).ok, "changes did overtake what was read"
                    break
            died += 1
        assert died == DEATHS


def done(pipeline: Pipeline, end_ts: int) -> bool:
    progress = pipeline.dump.progress
    return progress is not None and progress.state is DumpState.FINISHED and pipeline.sequence.after_ts >= end_ts
