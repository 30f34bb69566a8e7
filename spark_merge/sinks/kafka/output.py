"""What a Kafka sink writes, to where, and how: all that its URI says, small and picklable, for tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.ticdc.dispatch import Router
from spark_merge.codecs.encode.messages import Encoder
from spark_merge.sinks.kafka.client import SinkCluster
from spark_merge.sinks.kafka.schema_registry import SchemaRegistry

LIVE = 0
"""The transactional id of live rows, which mostly run in the worker's own process, where its producer stays warm."""

CHUNK_PARTS = 4
"""Transactional ids of a position topic that we make, beside LIVE: so many tasks write a window's chunks at once, each seen for itself."""


@dataclass(frozen=True, slots=True)
class ClaimFolder:
    """Where rows go that are larger than a message (large_rows.py). `raw`: a file is the message's value as it is. `log_id`: whose
    rows."""

    folder: Folder
    raw: bool
    log_id: str


@dataclass(frozen=True, slots=True)
class Output:
    """`topic`: the default one. `partition_num`: None where the URI does not name it. `producer`: librdkafka's settings of the
    writer. `protocol`: of the messages; live rows of a log in the same one are written as they are. `transactions`: see write_modes.py.
    `shape`: the encoder's options. `tombstones`: behind deletes. `ddl_done`: the DDLs that are not sent. `claims`: None: a row that is
    larger than a message stops the sink. `registry`: of the schemas of a protocol that has them there."""

    cluster: SinkCluster
    topic: str
    position_topic: str
    protocol: str
    encoder: Encoder
    router: Router
    max_message_bytes: int
    shape: Mapping[str, str] = field(default_factory=dict)
    tombstones: bool = False
    partition_num: int | None = None
    replicas: int = 1
    auto_create: bool = True
    transactions: bool = True
    producer: Mapping[str, str] = field(default_factory=dict)
    ddl_done: Collection[CommitTs] = frozenset()
    claims: ClaimFolder | None = None
    registry: SchemaRegistry | None = None

    def transactional_id(self, number: int) -> str:
        return f"{self.position_topic}-{number}"

    @property
    def control_id(self) -> str:
        return f"{self.position_topic}-control"

    def __str__(self) -> str:
        return f"kafka://{self.cluster.brokers}/{self.topic}"
