"""Messages whose schemas are in a registry, read back: to the JSON that their protocol's codec reads (sidecar/shared/codecs/avro.py).

A row's schema is the one by whose id it was written, whatever the table is now. Decimals are texts, bytes become base64.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from io import BytesIO
from typing import Any

from msgspec import json

from sidecar.shared.codecs.avro import row_json, wire_parts
from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import CommitTs, Message, TableName
from spark_merge.sinks.kafka.schema_registry import SCHEMAS_MAX, SchemaRegistry

_COMMIT_TS = "_tidb_commit_ts"
_NOT_OURS = "deliver to a new topic, and let nothing else write it"


def row_in_json(
    registry: SchemaRegistry, message: Message, commit_ts: CommitTs | None, table_at: Callable[[CommitTs], TableName | None]
) -> Message | None:
    """A row of avro. `commit_ts`: of its header; None: TiCDC has written it. `table_at`: whose rows the topic had. None, of both: not those
    of the table that is read. Raises SinkError."""
    if commit_ts is not None and table_at(commit_ts) is None:
        return None
    key, value = (None if part is None else _record(registry, message, part) for part in (message.key, message.value))
    ts = (value or {}).get(_COMMIT_TS) if commit_ts is None else commit_ts
    if ts is None:
        raise SinkError(
            f"topic {message.lane}, offset {message.position}: the record has no commit-ts: TiCDC wrote it, and this sink continued the"
            " topic",
            hint="deliver to a new topic and dump again: rows without a commit-ts cannot be compared",
        )
    table = table_at(ts)
    return None if table is None else message._replace(value=row_json(ts, *table, key, value))


def _record(registry: SchemaRegistry, message: Message, data: bytes) -> Any:
    import fastavro  # 0.2 s that few tasks need

    try:
        schema_id, record = wire_parts(data)
        file = BytesIO(record)
        return _plain(fastavro.schemaless_reader(file, _parsed(registry, schema_id), None))
    except SinkError:
        raise
    except Exception as error:  # fastavro raises errors of many kinds, some of its own, for bytes that are not of the schema
        raise SinkError(
            f"topic {message.lane}, offset {message.position}: it is no record of its schema: {type(error).__name__}: {error}",
            hint=_NOT_OURS,
        ) from error


@lru_cache(SCHEMAS_MAX)
def _parsed(registry: SchemaRegistry, schema_id: int) -> Any:
    import fastavro

    return fastavro.parse_schema(json.decode(registry.schema(schema_id)))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case Decimal():
            return f"{value:f}"
        case _:
            return value
