"""The push feed and TiKV's change feed for real, through the whole line: server, puller, feed, schemas by DDL jobs, log, decode. From the
truth at the start, the output with its DDLs leads to the truth at every snapshot. In the middle the sidecar dies."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from sidecar.adapters.clock import MonotonicClock
from sidecar.adapters.memory.log import MemoryDisk, MemoryLog
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.feeds.kv.feed import KvFeed
from sidecar.feeds.kv.schemas import KvSchemas
from sidecar.feeds.push.puller import PushPuller
from sidecar.feeds.tikv.puller import TikvPuller
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.ports import Puller
from sidecar.replay.kv import KvRecording
from sidecar.replay.replay import NoSource
from sidecar.shared.codecs.kv import KvCodec
from sidecar.shared.config import PushSection
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.ticdc.changefeed import FeedFilter
from sidecar.shared.ticdc.ddl_rules import DdlRules
from tests.integration.test_push_feed import CHANGEFEED, Taking, playing
from tests.support.from_start import check_from_start
from tests.support.replaying import Stage, output_of, stage
from tests.support.tikv import recorded
from tests.support.tikv.cluster import Cluster
from tests.support.tikv.server import TikvServers
from tests.unit.test_pipeline import FakeRequests, Notes

pytestmark = [pytest.mark.recordings, pytest.mark.xdist_group("kv-stream")]

PATIENCE_S = 300.0


@dataclass
class Line:
    """One log, and the sidecars that write it one after another."""

    made: Stage
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    epoch: int = 0

    def attach(self, puller: Puller) -> Pipeline:
        self.epoch += 1
        assert isinstance(self.made.feed.config, KvRecording)
        schemas = KvSchemas(self.made.feed.config.snapshot, DdlRules.of(FeedFilter(rules=("*.*",)), new_architecture=False))
        outside = Outside(
            feed=KvFeed(puller, schemas),
            codec=KvCodec(schemas.mark_table),
            log=MemoryLog(self.disk),
            source=NoSource(),
            schemas=schemas,
            progress=MemoryProgress(),
            requests=FakeRequests(Notes()),
            clock=MonotonicClock(),
            spill=MemorySpill(),
        )
        return attach(outside, changefeed_id="none", epoch=self.epoch, limits=PipelineLimits())

    def run(self, puller: Puller, until: Callable[[CommitTs], bool]) -> None:
        """With a new sidecar, until its log is far enough; then it dies."""
        pipeline, until_s = self.attach(puller), time.monotonic() + PATIENCE_S
        while not until(pipeline.sequence.after_ts):
            assert time.monotonic() < until_s, {lane: ts for lane, ts in pipeline.lane_lags().items() if ts is None or not until(ts)}
            pipeline.step(poll_s=0.02)

    def check(self) -> None:
        check_from_start(self.made, output_of(self.made, self.disk))


def middle(made: Stage) -> CommitTs:
    return made.recording.truth_ts[len(made.recording.truth_ts) // 2]


@pytest.mark.parametrize("name", ["shop", "ddl"])
def test_a_custom_sinks_push_leads_to_the_truth(name: str) -> None:
    """The sender goes on while one sidecar follows another at its address, and sends again what was not acknowledged."""
    line = Line(stage(name, "kv"))
    first = PushPuller(PushSection(listen="127.0.0.1:0"), changefeed=CHANGEFEED)
    with playing(Taking(name, first), keep=True):
        with closing(first):
            line.run(first, lambda ts: ts >= middle(line.made))
        with closing(PushPuller(PushSection(listen=f"127.0.0.1:{first.port}"), changefeed=CHANGEFEED)) as second:
            line.run(second, lambda ts: ts >= line.made.recording.end_ts)
    line.check()


@pytest.mark.parametrize("name", ["shop", "ddl"])
def test_tikvs_change_feed_leads_to_the_truth(name: str) -> None:
    line, cluster = Line(stage(name, "kv")), Cluster(recorded.history(name), seed=1)
    with TikvServers(cluster) as servers:
        cluster.advance(len(cluster.history.log) * 2 // 3)
        with closing(TikvPuller(servers.section(), name="default/test")) as puller:
            line.run(puller, lambda ts: ts >= middle(line.made))
        cluster.advance(len(cluster.history.log))
        with closing(TikvPuller(servers.section(), name="default/test")) as puller:
            line.run(puller, lambda ts: ts >= line.made.recording.end_ts)
    line.check()
