"""Rows whose schemas are in a registry, read back: to the JSON that their protocol's codec reads (sidecar/shared/codecs/avro.py,
sidecar/shared/codecs/debezium_avro.py). A row's schema is the one by whose id it was written, whatever the table is now.

    avro            the record, with the commit_ts of its header and the table whose rows its topic had; decimals are texts
    debezium-avro   the payload, whose columns have their own names again; decimals are bytes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from io import BytesIO
from typing import Any

from msgspec import json

from sidecar.shared.codecs.avro import avro_name, row_json, wire_parts
from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import CommitTs, Message
from spark_merge.ddl.eras import Era
from spark_merge.sinks.kafka.schema_registry import SCHEMAS_MAX, SchemaRegistry

_COMMIT_TS = "_tidb_commit_ts"
_NOT_OURS = "deliver to a new topic, and let nothing else write it"


def avro_in_json(
    registry: SchemaRegistry, message: Message, commit_ts: CommitTs | None, era_at: Callable[[CommitTs], Era | None]
) -> Message | None:
    """`commit_ts`: of its header; None: TiCDC has written it. `era_at`: whose rows the topic had. None, of both: not those of the table
    that is read. Raises SinkError."""
    if commit_ts is not None and era_at(commit_ts) is None:
        return None
    key, value = (None if part is None else _record(registry, message, part) for part in (message.key, message.value))
    ts = (value or {}).get(_COMMIT_TS) if commit_ts is None else commit_ts
    if ts is None:
        raise SinkError(
            f"topic {message.lane}, offset {message.position}: the record has no commit-ts: TiCDC wrote it, and this sink continued the"
            " topic",
            hint="deliver to a new topic and dump again: rows without a commit-ts cannot be compared",
        )
    era = era_at(ts)
    if era is None:
        return None
    types = next(_types(registry, part) for part in (message.value, message.key) if part is not None)
    return message._replace(value=row_json(ts, *era.name, types, _texts(key), _texts(value)))


def debezium_in_json(registry: SchemaRegistry, message: Message, era_at: Callable[[CommitTs], Era | None]) -> Message | None:
    """As `avro_in_json`. A tombstone stays one."""
    if message.value is None:
        return message
    payload = _record(registry, message, message.value, logical=False)
    era = era_at(payload["source"]["commit_ts"])
    if era is None:
        return None
    names = {avro_name(one.name): one.name for one in era.columns if one.name is not None}
    images = {part: payload[part] and {names.get(name, name): one for name, one in payload[part].items()} for part in ("before", "after")}
    return message._replace(value=json.encode({**payload, **images}))


def _record(registry: SchemaRegistry, message: Message, data: bytes, *, logical: bool = True) -> Any:
    import fastavro  # 0.2 s that few tasks need

    try:
        schema_id, record = wire_parts(data)
        return fastavro.schemaless_reader(BytesIO(record), _parsed(registry, schema_id, logical), None)
    except SinkError:
        raise
    except Exception as error:  # fastavro raises errors of many kinds, some of its own, for bytes that are not of the schema
        raise SinkError(
            f"topic {message.lane}, offset {message.position}: it is no record of its schema: {type(error).__name__}: {error}",
            hint=_NOT_OURS,
        ) from error


@lru_cache(SCHEMAS_MAX)
def _parsed(registry: SchemaRegistry, schema_id: int, logical: bool) -> Any:
    import fastavro

    schema = json.decode(registry.schema(schema_id))
    return fastavro.parse_schema(schema if logical else _without_logical(schema))


def _types(registry: SchemaRegistry, data: bytes) -> str:
    """`types` of a row that `_record` has read."""
    return _tidb_types(registry, wire_parts(data)[0])


@lru_cache(SCHEMAS_MAX)
def _tidb_types(registry: SchemaRegistry, schema_id: int) -> str:
    types = {one["name"]: _tidb_type(one["type"]) for one in json.decode(registry.schema(schema_id))["fields"]}
    return json.encode(types).decode()


def _tidb_type(schema: Any) -> str:
    """Empty where it has none."""
    one = next((branch for branch in schema if branch != "null"), "") if isinstance(schema, list) else schema
    parameters = one.get("connect.parameters", {}) if isinstance(one, dict) else {}
    return str(parameters.get("tidb_type", ""))


def _without_logical(schema: Any) -> Any:
    match schema:
        case dict():
            return {name: _without_logical(one) for name, one in schema.items() if name != "logicalType"}
        case list():
            return [_without_logical(one) for one in schema]
        case _:
            return schema


def _texts(record: Mapping[str, Any] | None) -> Any:
    """With the digits of decimals; what `_ticdc_before` has is not read."""
    return record and {name: f"{one:f}" if isinstance(one, Decimal) else one for name, one in record.items() if not isinstance(one, dict)}
