"""The line that key-values take in the sidecar: puller, feed, sequence, schemas, log, by the real pipeline, which may die and come back.

A life is a new feed and new schemas over the same log and the same cluster: nothing else is left of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from sidecar.adapters.memory.log import MemoryDisk, MemoryLog
from sidecar.adapters.memory.progress import MemoryProgress
from sidecar.feeds.kv.feed import KvFeed
from sidecar.feeds.kv.row_filter import RowFilter
from sidecar.feeds.kv.schemas import KvSchemas
from sidecar.pipeline import Outside, Pipeline, PipelineLimits, attach
from sidecar.ports import Puller
from sidecar.shared.codecs.kv import KvCodec
from sidecar.shared.errors import RefusedRequest
from sidecar.shared.log.manifest import DdlRecord, Manifest
from sidecar.shared.log.spill import MemorySpill
from sidecar.shared.model.messages import Command, Request, SourceEvent
from sidecar.shared.model.nouns import Change, CommitTs, Rank, Seq, TableName, TableSchema
from sidecar.shared.rowcodec.kv_layout import KvSnapshot
from sidecar.shared.ticdc.changefeed import FeedFilter
from sidecar.shared.ticdc.ddl_rules import DdlRules
from spark_merge.codecs.decode.rows import decode
from tests.unit.decode.log import logged


class NoSource:
    def __init__(self) -> None:
        self.followed: list[Mapping[TableName, TableSchema]] = []

    def request(self, command: Command) -> None:
        raise AssertionError(command)

    def follow(self, schemas: Mapping[TableName, TableSchema]) -> None:
        self.followed.append(schemas)

    def results(self) -> Sequence[SourceEvent]:
        return ()

    def close(self) -> None:
        pass


class NoRequests:
    def take(self) -> Request | None:
        return None

    def answer(self, refused: RefusedRequest | None) -> None:
        raise AssertionError(refused)


@dataclass
class Ticking:
    """An empty segment is written now and then."""

    s: float = 0.0

    def now_s(self) -> float:
        self.s += 0.1
        return self.s


def rules_of(*rules: str, feed_filter: FeedFilter | None = None) -> DdlRules:
    return DdlRules.of(feed_filter or FeedFilter(rules=rules or ("*.*",)), new_architecture=False)


class Stream(NamedTuple):
    """What a log says, however it was cut into segments. `rows`: Change without lane and position; at one commit_ts and rank by key.
    `schemas`: what names are made of content, one after another, of any owner of the log."""

    rows: list[tuple[CommitTs, Rank, str, str, bytes, bytes]]
    ddls: list[DdlRecord]
    schemas: list[str]


def _contents(name: str) -> str:
    """Of a schemas file's name without its owner's epoch."""
    return name.rpartition("/")[2]


@dataclass
class Line:
    """`disk` outlives every life."""

    puller: Puller
    snapshot: Callable[[], KvSnapshot]
    rules: DdlRules = field(default_factory=rules_of)
    row_filter: RowFilter | None = None
    keyspace: bytes = b""
    held_bytes_max: int = 1 << 30
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    lives: int = 0
    repeats: int = 0

    def __post_init__(self) -> None:
        self.live()

    def live(self) -> None:
        """A new life, from what the log holds."""
        self.lives += 1
        self.schemas = KvSchemas(self.snapshot, self.rules, self.row_filter)
        self.feed = KvFeed(self.puller, self.schemas, self.keyspace)
        self.source = NoSource()
        outside = Outside(
            feed=self.feed,
            codec=KvCodec(self.schemas.mark_table),
            log=MemoryLog(self.disk),
            source=self.source,
            schemas=self.schemas,
            progress=MemoryProgress(),
            requests=NoRequests(),
            clock=Ticking(),
            spill=MemorySpill(),
        )
        limits = PipelineLimits(held_bytes_max=self.held_bytes_max)
        self.pipeline: Pipeline = attach(outside, changefeed_id="kv", epoch=self.lives, limits=limits)

    def step(self) -> None:
        self.pipeline.step(poll_s=0.0)

    @property
    def upto_ts(self) -> CommitTs:
        return self.pipeline.sequence.after_ts

    def manifests(self) -> Iterator[Manifest]:
        log = MemoryLog(self.disk)
        seq = 0
        while (manifest := log.manifest(Seq(seq))) is not None:
            yield manifest
            seq += 1

    def rows(self, manifest: Manifest) -> list[Change]:
        return MemoryLog(self.disk).read_data(manifest)

    def schemas_of(self, manifest: Manifest) -> dict[TableName, TableSchema]:
        return MemoryLog(self.disk).read_schemas(manifest.schemas)

    def by_schemas(self) -> Iterator[tuple[dict[TableName, TableSchema], list[Change]]]:
        """The rows of the log, those of segments with one schemas file together, with that file and nothing else."""
        for _, group in groupby(self.manifests(), key=lambda manifest: manifest.schemas):
            manifests = list(group)
            yield self.schemas_of(manifests[0]), [row for manifest in manifests for row in self.rows(manifest)]

    def decoded(self) -> Iterator[dict[str, Any]]:
        """Every change in the log as Spark decodes it."""
        for schemas, rows in self.by_schemas():
            yield from decode(logged(rows, codec="kv"), codec="kv", schemas=schemas).to_pylist()

    def stream(self) -> Stream:
        manifests = list(self.manifests())
        return Stream(
            rows=[row[:6] for manifest in manifests for row in sorted(self.rows(manifest))],
            ddls=[ddl for manifest in manifests for ddl in manifest.ddls],
            schemas=[_contents(name) for name in (manifests[0].schemas, *(one.next_schemas for one in manifests)) if name],
        )

    def check_order(self) -> None:
        """Segments follow one another, rows of each lie in it, in commit order, deletes first, and a DDL ends its segment."""
        manifests = list(self.manifests())
        assert all(one.upto_ts == other.after_ts for one, other in pairwise(manifests))
        for manifest in manifests:
            rows = self.rows(manifest)
            assert all(manifest.after_ts < row.commit_ts <= manifest.upto_ts for row in rows)
            assert all((one.commit_ts, one.rank) <= (other.commit_ts, other.rank) for one, other in pairwise(rows))
            assert {ddl.commit_ts for ddl in manifest.ddls} <= {manifest.upto_ts}
            places = [(row.commit_ts, row.key) for row in rows]
            assert len(set(places)) == len(places), "each commit of a key is there once"
