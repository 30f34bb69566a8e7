"""A real stream with schema changes: everything before the first DDL is in the log, the DDL stops a sidecar whose source
cannot tell the tables after it, nothing after it is written, and after a restart it stops there again (P4, P6)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from sidecar.adapters.clock import MonotonicClock
from sidecar.adapters.memory.log import MemoryDisk, MemoryLog
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.adapters.memory.schemas import StillSchemas
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.replay.feed import RecordingFeed
from sidecar.replay.recording import FeedConfig, Recording
from sidecar.replay.replay import NoSource
from sidecar.shared.errors import RefusedRequest, UnsupportedDdl
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.messages import Request
from sidecar.shared.model.nouns import Change, Message, Seq
from tests.support.recordings import recording


class NoRequests:
    def take(self) -> Request | None:
        return None

    def answer(self, refused: RefusedRequest | None) -> None:
        raise AssertionError(f"nobody asked: {refused}")


@pytest.mark.recordings
@pytest.mark.parametrize("feed", ["open-protocol", "canal-json"])
def test_a_schema_change_stops_the_sidecar_before_it_and_loses_nothing(feed: str) -> None:
    result = Recording(recording("ddl"))
    config = result.feed_config(feed)
    disk, stored, played = MemoryDisk(), MemoryProgress(), RecordingFeed(result, config)
    lasts = []
    for epoch in (1, 2):
        outside = Outside(
            feed=played,
            codec=config.codec(),
            log=MemoryLog(disk),
            source=NoSource(),
            schemas=StillSchemas(result.schemas),
            progress=stored,
            requests=NoRequests(),
            clock=MonotonicClock(),
            spill=MemorySpill(),
        )
        pipeline = attach(outside, changefeed_id="none", epoch=epoch, limits=PipelineLimits())
        with pytest.raises(UnsupportedDdl, match=r"alter table|ALTER TABLE") as stopped:
            _run(pipeline)
        assert "what to do" in str(stopped.value)
        lasts.append(MemoryLog(disk).manifest(Seq(pipeline.next_seq - 1)))
    first, second = lasts
    assert first is not None
    assert first == second
    assert not first.ddls
    ddl_ts = int(re.findall(r"DDL at commit_ts (\d+)", str(stopped.value))[0])
    rows = [change for seq in range(first.seq + 1) for change in _rows(disk, seq)]
    below = {change.commit_ts for change in _changes(result, config) if change.commit_ts < ddl_ts}
    assert {change.commit_ts for change in rows} == below, "everything below the DDL is in the log, nothing at or above it"


def _run(pipeline: Pipeline) -> None:
    for _ in range(100_000):
        pipeline.step(poll_s=0)


def _rows(disk: MemoryDisk, seq: int) -> list[Change]:
    manifest = MemoryLog(disk).manifest(Seq(seq))
    assert manifest is not None
    return MemoryLog(disk).read_data(manifest)


def _changes(value: Recording, config: FeedConfig) -> Iterator[Change]:
    codec = config.codec()
    for lane, messages in value.messages(config).items():
        for position, message in enumerate(messages):
            yield from (e for e in codec.envelopes(Message(lane, position, message.key, message.value)) if isinstance(e, Change))
