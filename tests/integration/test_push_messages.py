"""Messages of TiCDC's own sinks for real, through the whole line: two senders, gRPC, inbox, log, decode, rule. The log is what an
undisturbed line makes of the same changefeed in Kafka; and from the truth at the start the output leads to the truth at every snapshot.

In the middle a sender's connection breaks, and another sidecar takes over amid the stream, while the former one still listens.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sidecar.adapters.clock import MonotonicClock
from sidecar.adapters.memory.log import MemoryDisk, MemoryLog
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.adapters.memory.schemas import StillSchemas
from sidecar.feeds.push.messages import MessageFeed
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.ports import Feed
from sidecar.replay.feed import Play, RecordingFeed
from sidecar.replay.history import HistorySchemas
from sidecar.replay.played import PlayedFeed
from sidecar.replay.recording import FeedConfig, Recording
from sidecar.replay.replay import NoSource
from sidecar.shared.config import PushSection
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import CommitTs, Seq
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.lanes import LANE
from tests.support.from_start import check_from_start
from tests.support.messages_sent import sending
from tests.support.recordings import recording
from tests.support.replaying import Stage, output_of, stage
from tests.support.services.ports import free_ports
from tests.unit.test_pipeline import FakeRequests, Notes

PATIENCE_S = 300.0
CHANGEFEED = ChangefeedName("default", "default", "cf")
AHEAD_BYTES_MAX = 64 << 10
"""So that senders are in the middle when the line is."""

TRUE = ("large", "restart", "rowformats", "shop", "shop-new") if LANE.whole else ()
NOT_TRUE = ("ddl", "ddl-new", "filter", "tz") if LANE.whole else ()
"""What TiCDC's messages tell beside a DDL is wrong in places (deploy/KV.md), filters leave rows out, and times are in another zone: through
Kafka, too."""


@dataclass
class Line:
    """One log, and the sidecars that write it one after another."""

    played: PlayedFeed
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    epoch: int = 0

    def attach(self, feed: Feed) -> Pipeline:
        self.epoch += 1
        history = self.played.history
        assert isinstance(self.played.config, FeedConfig)
        outside = Outside(
            feed=feed,
            codec=self.played.config.codec(),
            log=MemoryLog(self.disk),
            source=NoSource(),
            schemas=StillSchemas(self.played.recording.schemas) if history is None else HistorySchemas(history),
            progress=MemoryProgress(),
            requests=FakeRequests(Notes()),
            clock=MonotonicClock(),
            spill=MemorySpill(),
        )
        return attach(outside, changefeed_id="none", epoch=self.epoch, limits=PipelineLimits())

    def run(self, feed: Feed, until: Callable[[CommitTs], bool]) -> None:
        """With a new sidecar, until its log is far enough; then it dies."""
        pipeline, until_s = self.attach(feed), time.monotonic() + PATIENCE_S
        while not until(pipeline.sequence.after_ts):
            assert time.monotonic() < until_s, pipeline.lane_lags()
            pipeline.step(poll_s=0.02)

    def changes(self) -> Counter[object]:
        """Rows and DDLs up to the recording's end: how far a line comes beyond it is its own affair."""
        log, changes, seq = MemoryLog(self.disk), Counter[object](), 0
        while (manifest := log.manifest(Seq(seq))) is not None:
            changes.update(change[:-2] for change in log.read_data(manifest) if change.commit_ts <= self.played.recording.end_ts)
            changes.update((ddl.commit_ts, ddl.schema, ddl.table) for ddl in manifest.ddls if ddl.commit_ts <= self.played.recording.end_ts)
            seq += 1
        return changes

    def rows(self, made: Stage) -> Iterator[dict[str, Any]]:
        return (row for row in output_of(made, self.disk) if int(row["commit_ts"]) <= made.recording.end_ts)


def undisturbed(played: PlayedFeed) -> Line:
    """By the recorded partitions, as Kafka has them."""
    assert isinstance(played.config, FeedConfig)
    line = Line(played)
    feed = RecordingFeed(played.recording, played.config, Play(batch_messages_max=500))
    line.run(feed, lambda ts: ts >= played.recording.end_ts)
    return line


@pytest.mark.parametrize("feed", ["open-protocol", "canal-json"])
@pytest.mark.parametrize("name", ["demo", *(pytest.param(name, marks=pytest.mark.recordings) for name in (*TRUE, *NOT_TRUE))])
def test_a_changefeed_sent_as_messages_is_what_it_is_in_kafka(name: str, feed: str, tmp_path: Path) -> None:
    played = PlayedFeed(Recording(recording(name)), feed)
    truths, end_ts = played.recording.truth_ts, played.recording.end_ts
    line, ports = Line(played), free_ports(2)
    addresses = ",".join(f"127.0.0.1:{port}" for port in ports)

    def owner(port: int, **settings: object) -> MessageFeed:
        section = PushSection(listen=f"127.0.0.1:{port}", form="messages", **settings)  # type: ignore[arg-type]  # by name
        return MessageFeed(section, open_folder(str(tmp_path)), changefeed=CHANGEFEED)

    with sending(played.recording, feed, addresses, changefeed=str(CHANGEFEED)) as sent:
        with closing(owner(ports[0], ahead_bytes_max=AHEAD_BYTES_MAX)) as first:
            line.run(first, lambda ts: ts >= truths[1])
            sent.senders[0].break_connection()
            line.run(first, lambda ts: ts >= truths[len(truths) // 2])
            second = owner(ports[1])
        with closing(second):
            line.run(second, lambda ts: ts >= end_ts)
            sent.check()
    due, result = undisturbed(played).changes(), line.changes()
    assert result == due, f"lost: {[*(due - result)][:3]}; too many: {[*(result - due)][:3]}"
    if name not in NOT_TRUE:
        made = stage(name, feed)
        check_from_start(made, line.rows(made))
