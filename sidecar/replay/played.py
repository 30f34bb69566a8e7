"""A recording's feed as a cluster has it: what continues while sidecars live and die, and what each of them makes of it.

a Kafka changefeed     RecordingFeed, which is the feed itself         tables: still, or followed from DDL to DDL
kv                     RecordedPuller, and a KvFeed over it            tables: the feed's own, from TiDB's DDL jobs
binlog                 RecordedPumps, and a BinlogFeed over it         the same
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from sidecar.adapters.memory.schemas import StillSchemas
from sidecar.feeds.binlog.feed import BinlogFeed
from sidecar.feeds.binlog.jobs import BinlogJobs
from sidecar.feeds.kv.feed import KvFeed
from sidecar.feeds.kv.schemas import KvSchemas
from sidecar.ports import Clock, Feed, Schemas
from sidecar.replay.binlog import BinlogRecording, RecordedPumps
from sidecar.replay.feed import Play, RecordingFeed
from sidecar.replay.history import HistorySchemas, RecordedHistory
from sidecar.replay.judge.rows import Key, RowStep
from sidecar.replay.judge.verify import FalseDeletes
from sidecar.replay.kv import KvRecording, RecordedPuller
from sidecar.replay.recording import FeedConfig, Recording
from sidecar.replay.source import RecordedCluster
from sidecar.replay.tables import RecordedTables
from sidecar.shared.codecs.binlog import BinlogCodec
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.codecs.kv import KvCodec
from sidecar.shared.model.nouns import CommitTs, TableName
from sidecar.shared.ticdc.changefeed import FeedFilter
from sidecar.shared.ticdc.ddl_rules import DdlRules


class PlayedCluster(RecordedCluster, Protocol):
    """What outlives a sidecar."""

    @property
    def exhausted(self) -> bool: ...
    def played_part(self) -> float: ...
    def reached_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Attached:
    """What one sidecar has of the feed."""

    feed: Feed
    schemas: Schemas
    codec: Codec


class PlayedFeed:
    """The feed `name` of a recording: `kv`, `binlog` or a Kafka changefeed's. Raises FeedUnsuitable for one that is not there."""

    def __init__(self, recording: Recording, name: str | None) -> None:
        self.recording = recording
        self.config: FeedConfig | KvRecording | BinlogRecording
        match name or recording.default_feed:
            case KvRecording.codec:
                self.config = KvRecording(recording)
            case BinlogRecording.codec:
                self.config = BinlogRecording(recording)
            case _:
                self.config = recording.feed_config(name)

    @property
    def name(self) -> str:
        return self.config.name if isinstance(self.config, FeedConfig) else self.config.codec

    @property
    def changefeed_id(self) -> str:
        return self.config.changefeed_id if isinstance(self.config, FeedConfig) else self.config.codec

    @cached_property
    def history(self) -> RecordedHistory | None:
        """Where TiCDC's messages do not tell everything, and where the recording has schema changes."""
        if isinstance(self.config, FeedConfig):
            return RecordedHistory(self.recording) if self.recording.ddls else None
        return RecordedHistory(self.recording, self.config)

    @property
    def false_deletes(self) -> FalseDeletes:
        """What the feed has and TiDB did not do."""
        false_deletes: defaultdict[TableName, set[tuple[Key, CommitTs]]] = defaultdict(set)
        for one in self.config.false_deletes if isinstance(self.config, BinlogRecording) else ():
            false_deletes[one.table].add((one.key, one.commit_ts))
        return false_deletes

    @property
    def steps(self) -> tuple[RowStep, ...]:
        return () if self.history is None else self.history.steps

    def tables(self) -> RecordedTables:
        """What its SELECTs see."""
        return RecordedTables(self.recording, self.config if isinstance(self.config, FeedConfig) else None, history=self.history)

    def open(self, play: Play, *, clock: Clock | None = None) -> PlayedCluster:
        """Begin to play: recorded time goes by from here on."""
        if isinstance(self.config, KvRecording):
            return RecordedPuller(self.config, play, clock=clock)
        if isinstance(self.config, BinlogRecording):
            return RecordedPumps(self.config, play, clock=clock)
        return RecordingFeed(self.recording, self.config, play, clock=clock)

    def attach(self, cluster: PlayedCluster) -> Attached:
        """For one sidecar, over what `open` gave."""
        if isinstance(cluster, RecordedPuller):
            assert isinstance(self.config, KvRecording)
            rules = DdlRules.of(FeedFilter(rules=("*.*",)), new_architecture=False)
            schemas = KvSchemas(self.config.snapshot, rules)
            return Attached(KvFeed(cluster, schemas), schemas, KvCodec(schemas.mark_table))
        if isinstance(cluster, RecordedPumps):
            assert isinstance(self.config, BinlogRecording)
            schemas = self.config.schemas()
            feed = BinlogFeed(cluster, schemas, BinlogJobs(self.config.metas.get, wait_max_s=0.0))
            return Attached(feed, schemas, BinlogCodec(schemas.mark_table))
        assert isinstance(cluster, RecordingFeed)
        assert isinstance(self.config, FeedConfig)
        tables = StillSchemas(self.recording.schemas) if self.history is None else HistorySchemas(self.history)
        return Attached(cluster, tables, self.config.codec())
