"""Rows, DDLs and resolved marks as Debezium's MySQL connector 3.x writes them, in the JSON of Kafka Connect's JsonConverter.

    row              key {the handle key's columns}     value {before, after, source, transaction, op, ts_ms, ts_us, ts_ns}
    DDL              key {databaseName}                 value {source, ts_ms, databaseName, schemaName, ddl, tableChanges}
    resolved mark    key {serverName}                   value {ts_ms, commit_ts}

    with schemas     {"schema": …, "payload": …} for key and value;  with debezium-disable-schema=true the payload alone

A message is a function of the log alone: all times are the commit's, at the top too, where Debezium has those of its own work.
`source.pos` is the commit_ts and `source.ts_ns` rises strictly with it, so a reader that keeps the greatest of either has each row as TiDB
has it. What is TiDB's own is `commit_ts`, the last field of `source` and of a resolved mark. There is no transaction metadata.

Options: debezium_fields.py. Topics: spark_merge/sinks/kafka/debezium_topics.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, overload

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

import sidecar
from sidecar.shared.errors import SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import CommitTs, TableName, TableSchema, physical_ms
from spark_merge.codecs.encode.debezium_ddl import table_changes
from spark_merge.codecs.encode.debezium_fields import DebeziumOptions
from spark_merge.codecs.encode.debezium_json import images, objects, quoted
from spark_merge.codecs.encode.debezium_rows import DebeziumRows, debezium_rows, key_fields, position_ms, position_ns, position_us
from spark_merge.codecs.encode.debezium_schema import (
    DDL_KEY,
    DDL_VALUE,
    HEARTBEAT_KEY,
    HEARTBEAT_VALUE,
    Schema,
    envelope_schema,
    key_schema,
    text_of,
)
from spark_merge.codecs.encode.messages import Architecture, RowMessage
from spark_merge.port.contract import CHANGES

_TABLES_MAX = 4096
"""Tables whose schema texts a process keeps."""

_BLOCK_BYTES_MAX = 32 << 20
"""Of texts encoded at a time, as in open_protocol.py."""

CONNECTOR = "mysql"

_TAIL = b"}"
"""Behind a payload with a schema."""


@dataclass(frozen=True, slots=True)
class DebeziumEncoder:
    """`spark_merge.codecs.encode.messages.Encoder`."""

    options: DebeziumOptions

    def rows(
        self,
        schema: TableSchema,
        changes: pa.Table,
        physical_ids: Sequence[int] | None,  # noqa: ARG002  (there is no partition in a message)
        *,
        keys_only: bool = False,
        topic: str = "",  # noqa: ARG002  (schemas are in the messages)
    ) -> Sequence[RowMessage]:
        messages: list[tuple[bytes, bytes]] = []
        for batch in _blocks(changes.select(CHANGES.names)):
            rows = debezium_rows(schema, batch, self.options, keys_only=keys_only)
            keys = objects(key_fields(schema, rows.fields), rows.key).cast(pa.binary()).to_pylist()
            values = self._payloads(schema.name, rows).cast(pa.binary()).to_pylist()
            messages += zip(keys, values, strict=True)
        return messages if self.options.bare else FramedMessages(messages, *_heads(schema, self.options))

    def location_message(self, whole: RowMessage, schema: TableSchema, location: str) -> RowMessage:  # noqa: ARG002  (there is none)
        raise SinkError(
            f"a row of {schema.name} is larger than a message, and Debezium's readers know no rows in files",
            hint="raise max-message-bytes in the sink's URI, and max.message.bytes of the topic to as much",
        )

    def resolved(self, ts: CommitTs) -> RowMessage:
        key, value = {"serverName": self.options.prefix}, {"ts_ms": physical_ms(ts), "commit_ts": ts}
        return self._message(HEARTBEAT_KEY, key), self._message(HEARTBEAT_VALUE, value)

    def ddl(self, ddl: DdlRecord, before: TableSchema | None, after: TableSchema | None) -> RowMessage:
        value = {
            "source": msgspec.Raw(_source_of_ddl(self.options.prefix, ddl)),
            "ts_ms": physical_ms(ddl.commit_ts),
            "databaseName": ddl.schema,
            "schemaName": None,
            "ddl": ddl.query,
            "tableChanges": table_changes(before, after),
        }
        return self._message(DDL_KEY, {"databaseName": ddl.schema}), self._message(DDL_VALUE, value)

    def _message(self, schema: Schema, payload: Mapping[str, Any]) -> bytes:
        return msgspec.json.encode(payload if self.options.bare else {"schema": schema, "payload": payload})

    def _payloads(self, table: TableName, rows: DebeziumRows) -> pa.Array:
        times = _times(rows.commit_ts)
        return _joined([
            '{"before":', images(rows.fields, rows.before), ',"after":', images(rows.fields, rows.after), ',"source":',
            *_source(self.options.prefix, table, times, rows.snapshot),
            ',"transaction":null,"op":"', rows.op, '","ts_ms":', times.ms, ',"ts_us":', times.us, ',"ts_ns":', times.ns, "}",
        ])  # fmt: skip


def encoder(*, architecture: Architecture, options: Mapping[str, str]) -> DebeziumEncoder:  # noqa: ARG001  (there is one form)
    """Raises ConfigError for an option's value that cannot be written."""
    return DebeziumEncoder(DebeziumOptions.of(options))


class FramedMessages(Sequence[RowMessage]):
    """Payloads as messages with schemas. A message is made when it is read: a schema's text is larger than most rows, and thousands of rows
    are encoded at once."""

    def __init__(self, payloads: Sequence[tuple[bytes, bytes]], key_head: bytes, value_head: bytes) -> None:
        self._payloads, self._key_head, self._value_head = payloads, key_head, value_head

    def __len__(self) -> int:
        return len(self._payloads)

    @overload
    def __getitem__(self, place: int) -> RowMessage: ...
    @overload
    def __getitem__(self, place: slice) -> FramedMessages: ...
    def __getitem__(self, place: int | slice) -> RowMessage | FramedMessages:
        if isinstance(place, slice):
            return FramedMessages(self._payloads[place], self._key_head, self._value_head)
        key, value = self._payloads[place]
        return self._key_head + key + _TAIL, self._value_head + value + _TAIL

    def __iter__(self) -> Iterator[RowMessage]:
        key_head, value_head = self._key_head, self._value_head
        return ((key_head + key + _TAIL, value_head + value + _TAIL) for key, value in self._payloads)


@lru_cache(maxsize=_TABLES_MAX)
def _heads(schema: TableSchema, options: DebeziumOptions) -> tuple[bytes, bytes]:
    """What is before a key's and a value's payload."""
    key, value = (f'{{"schema":{text_of(one(schema, options))},"payload":'.encode() for one in (key_schema, envelope_schema))
    return key, value


class _Times(NamedTuple):
    """Of each row, as text."""

    ms: pa.Array
    us: pa.Array
    ns: pa.Array
    commit_ts: pa.Array


def _times(commit_ts: pa.Array) -> _Times:
    return _Times(
        *(pc.cast(one, pa.string()) for one in (position_ms(commit_ts), position_us(commit_ts), position_ns(commit_ts), commit_ts))
    )


def _source(prefix: str, table: TableName, times: _Times, snapshot: pa.Array | str) -> list[object]:
    """Texts, and arrays of them."""
    return [
        f'{{"version":"{sidecar.__version__}","connector":"{CONNECTOR}","name":{quoted(prefix)},"ts_ms":', times.ms,
        ',"snapshot":"', snapshot, f'","db":{quoted(table.schema)},"sequence":null,"ts_us":', times.us, ',"ts_ns":', times.ns,
        f',"table":{quoted(table.table) if table.table else "null"},"server_id":0,"gtid":null,"file":"","pos":', times.commit_ts,
        ',"row":0,"thread":null,"query":null,"commit_ts":', times.commit_ts, "}",
    ]  # fmt: skip


def _source_of_ddl(prefix: str, ddl: DdlRecord) -> bytes:
    times = _times(pa.array([ddl.commit_ts], pa.int64()))
    text: str = _joined(_source(prefix, TableName(ddl.schema, ddl.table), times, "false"))[0].as_py()
    return text.encode()


def _joined(parts: Sequence[object]) -> pa.Array:
    """Neighbouring texts are one."""
    merged: list[Any] = []
    for part in parts:
        if isinstance(part, str) and merged and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    return pc.binary_join_element_wise(*merged, "")


def _blocks(changes: pa.Table) -> Iterator[pa.RecordBatch]:
    """Halves of halves, until each is small enough or one row."""
    if len(changes) > 1 and changes.nbytes > _BLOCK_BYTES_MAX:
        half = len(changes) // 2
        yield from _blocks(changes.slice(0, half))
        yield from _blocks(changes.slice(half))
    elif len(changes):
        yield from changes.combine_chunks().to_batches()
