"""A schema registry in memory, and encoders of its protocols whose rows are read back as soon as they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa

from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import CommitTs, Lane, Message, TableSchema
from spark_merge.codecs.encode.messages import Architecture, Encoder, RowMessage
from spark_merge.codecs.protocols import encoder
from spark_merge.ddl.eras import eras
from spark_merge.sinks.kafka.registry_messages import avro_in_json, debezium_in_json
from spark_merge.sinks.kafka.schema_registry import SchemaRegistry


@dataclass(eq=False)
class MemoryRegistry:
    """All subjects have the same ids."""

    texts: list[str] = field(default_factory=list)

    def id_of(self, subject: str, schema: str) -> int:
        if schema not in self.texts:
            self.texts.append(schema)
        return self.texts.index(schema)

    def schema(self, schema_id: int) -> str:
        return self.texts[schema_id]


def in_json(protocol: str, registry: MemoryRegistry, message: RowMessage, commit_ts: int | None, schema: TableSchema) -> Message | None:
    """`commit_ts`: of the header."""
    given, era, reader = Message(Lane("t/0"), 5, *message), eras(schema, [])[0], cast(SchemaRegistry, registry)
    if protocol == "avro":
        return avro_in_json(reader, given, None if commit_ts is None else CommitTs(commit_ts), lambda _: era)
    return debezium_in_json(reader, given, lambda _: era)


@dataclass(frozen=True)
class InJson:
    """Rows are what their codec reads."""

    protocol: str
    registry: MemoryRegistry
    encoder: Encoder

    @classmethod
    def of(cls, protocol: str, architecture: Architecture, options: Mapping[str, str]) -> InJson:
        registry = MemoryRegistry()
        return cls(protocol, registry, encoder(protocol, architecture=architecture, options=options, schema_ids=registry))

    def rows(
        self, schema: TableSchema, changes: pa.Table, physical_ids: Sequence[int] | None, *, keys_only: bool = False, topic: str = ""
    ) -> Sequence[RowMessage]:
        messages = self.encoder.rows(schema, changes, physical_ids, keys_only=keys_only, topic=topic)
        read = [
            in_json(self.protocol, self.registry, message, commit_ts, schema)
            for message, commit_ts in zip(messages, changes["commit_ts"].to_pylist(), strict=True)
        ]
        return [(one.key, one.value) for one in read if one is not None]

    def location_message(self, whole: RowMessage, schema: TableSchema, location: str) -> RowMessage:
        return self.encoder.location_message(whole, schema, location)

    def resolved(self, ts: CommitTs) -> RowMessage:
        return self.encoder.resolved(ts)

    def ddl(self, ddl: DdlRecord, before: TableSchema | None, after: TableSchema | None) -> RowMessage:
        return self.encoder.ddl(ddl, before, after)
