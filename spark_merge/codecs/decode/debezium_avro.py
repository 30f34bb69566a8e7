"""debezium-avro, read back: payloads of debezium without their schema, which a row had in the registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sidecar.shared.model.nouns import TableSchema
from spark_merge.codecs.decode import debezium
from spark_merge.codecs.protocols import DecoderModule


def decoder(options: Mapping[str, str], *, redefined: bool) -> DecoderModule:
    return debezium.decoder(options, redefined=redefined)


def replaced_dates(options: Mapping[str, str], schema: TableSchema) -> Sequence[tuple[str, str | None]]:
    return debezium.replaced_dates(options, schema)
