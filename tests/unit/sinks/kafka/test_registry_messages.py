"""Rows of avro and debezium-avro, read back by the registry: what was written is what is read, in any table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, cast

import pyarrow as pa
import pytest

from sidecar.shared.codecs.registry import written_codec
from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import Change, Lane, Message, TableName, TableSchema
from spark_merge.codecs.decode import avro, debezium_avro
from spark_merge.codecs.encode.messages import RowMessage
from spark_merge.codecs.protocols import encoder, written_decoder
from spark_merge.ddl.eras import Era, eras
from spark_merge.port.contract import CHANGES
from spark_merge.sinks.formats.messages import StoredChange, message_rows
from spark_merge.sinks.kafka.registry_messages import avro_in_json, debezium_in_json
from spark_merge.sinks.kafka.schema_registry import SchemaRegistry
from tests.lanes import examples
from tests.support import slow_avro, slow_canal
from tests.support.memory_registry import MemoryRegistry, in_json
from tests.unit.encode.test_avro import TS, changes

TABLE = slow_canal.table({"id": "int(11)", "a-b": "decimal(20,4)"}, ("id",))


def written(
    protocol: str, schema: TableSchema, rows: pa.Table, options: Mapping[str, str], *, keys_only: bool = False
) -> tuple[MemoryRegistry, Sequence[RowMessage]]:
    registry = MemoryRegistry()
    made = encoder(protocol, architecture="classic", options={"topic-prefix": "p"} | dict(options), schema_ids=registry)
    return registry, made.rows(schema, rows, None, keys_only=keys_only, topic="t")


def era_of(schema: TableSchema) -> Era:
    return eras(schema, [])[0]


def read(protocol: str, schema: TableSchema, rows: pa.Table, options: Mapping[str, str]) -> list[tuple[Any, ...]]:
    registry, messages = written(protocol, schema, rows, options)
    stored = []
    for message, commit_ts in zip(messages, rows["commit_ts"].to_pylist(), strict=True):
        row = in_json(protocol, registry, message, commit_ts, schema)
        assert row is not None
        [change] = written_codec(protocol).envelopes(row)
        assert isinstance(change, Change)
        stored.append(StoredChange(change))
    decoder = written_decoder(protocol, options, redefined=False)
    pieces = list(message_rows(stored, era_of(schema), protocol=protocol, time_zone="UTC", decoder=decoder))
    made: list[tuple[Any, ...]] = []
    for piece in pieces:
        assert piece.versions is not None
        columns = [
            *(column.to_pylist() for column in piece.rows.columns),
            piece.versions.commit_ts.to_pylist(),
            piece.versions.deleted.to_pylist(),
        ]
        made += zip(*columns, strict=True)
    return made


@pytest.mark.parametrize("seed", range(examples(40)))
def test_what_was_written_as_avro_is_what_is_read(seed: int) -> None:
    random = Random(seed)
    schema = slow_avro.random_table(random)
    rows = slow_avro.filled(random, schema, slow_canal.random_changes(random, schema, 30).to_pylist(), long_max=False)
    before = random.random() < 0.5
    options = {
        "avro-bigint-unsigned-handling-mode": "string",
        "avro-decimal-handling-mode": random.choice(["precise", "string"]),
        "avro-include-before-value": str(before).lower(),
        "enable-tidb-extension": random.choice(["true", "false"]),
    }
    truth = []
    for row in rows:
        gone = row["op"] == "delete"
        image = row["before"] if gone else row["after"]
        known = [text if not gone or before or one.name in schema.key else None for text, one in zip(image, schema.columns, strict=True)]
        truth.append((*known, row["commit_ts"], gone))
    assert read("avro", schema, pa.Table.from_pylist(rows, schema=CHANGES), options) == truth


@pytest.mark.parametrize("mode", ["precise", "string"])
def test_what_was_written_as_debezium_avro_is_what_is_read(mode: str) -> None:
    given = changes((None, ["1", "-1.2800"]), (["1", "-1.2800"], ["1", None]), (["1", None], None))
    assert read("debezium-avro", TABLE, given, {"decimal-handling-mode": mode}) == [
        ("1", "-1.2800", TS, False), ("1", None, TS, False), ("1", None, TS, True),
    ]  # fmt: skip


def test_a_tombstone_stays_one() -> None:
    assert debezium_in_json(cast(SchemaRegistry, MemoryRegistry()), Message(Lane("t/0"), 5, b"k", None), lambda _: None) is not None


@pytest.mark.parametrize("protocol", ["avro", "debezium-avro"])
def test_rows_of_another_table_are_passed_over(protocol: str) -> None:
    registry, [message] = written(protocol, TABLE, changes((None, ["1", None])), {})
    given, reader = Message(Lane("t/0"), 5, *message), cast(SchemaRegistry, registry)
    row = avro_in_json(reader, given, TS, lambda _: None) if protocol == "avro" else debezium_in_json(reader, given, lambda _: None)
    assert row is None


def test_a_row_of_ticdc_has_its_commit_ts_by_the_extension_or_is_refused() -> None:
    for extension in ("true", "false"):
        registry, [message] = written("avro", TABLE, changes((None, ["1", None])), {"enable-tidb-extension": extension})
        if extension == "true":
            row = in_json("avro", registry, message, None, TABLE)
            assert row is not None
            [change] = written_codec("avro").envelopes(row)
            assert isinstance(change, Change)
            assert (change.commit_ts, TableName(change.schema, change.table)) == (TS, TABLE.name)
        else:
            with pytest.raises(SinkError, match="offset 5: the record has no commit-ts: TiCDC wrote it"):
                in_json("avro", registry, message, None, TABLE)


@pytest.mark.parametrize("data", [b"", b'{"id":1}', b"\0\0\0\0\1", b"\0\0\0\0\1\x02\x02"])
def test_what_is_no_record_is_refused_with_its_place(data: bytes) -> None:
    registry, _ = written("avro", TABLE, changes((None, ["1", None])), {})
    with pytest.raises(SinkError, match="topic t/0, offset 5: it is no record of its schema"):
        in_json("avro", registry, (data, data), TS, TABLE)


def test_a_column_that_the_row_does_not_have_is_named() -> None:
    registry, [message] = written("avro", slow_canal.table({"id": "int(11)"}, ("id",)), changes((None, ["1"])), {})
    row = in_json("avro", registry, message, TS, TABLE)
    assert row is not None
    [change] = written_codec("avro").envelopes(row)
    assert isinstance(change, Change)
    with pytest.raises(SinkError, match="column a_b is in the schema and not in the row"):
        list(message_rows([StoredChange(change)], era_of(TABLE), protocol="avro", time_zone="UTC", decoder=avro.AvroDecoder()))


TYPES = {
    "int(11)": "5", "bigint(20)": "5", "int(10) unsigned": "5", "bigint(20) unsigned": "5", "year(4)": "2005", "float": "1.5",
    "double": "1.5", "decimal(20,4)": "1.5000", "bit(8)": "5", "blob": "68656C6C6F", "varchar(9)": "hello", "enum('hello')": "hello",
    "set('hello')": "hello", "json": "1", "date": "2020-01-01", "datetime": "2020-01-01 00:00:00", "timestamp": "2020-01-01 00:00:00",
    "time": "00:00:00",
}  # fmt: skip
INTEGERS = {one for one in TYPES if "int" in one}


@pytest.mark.parametrize("extension", ["true", "false"])
@pytest.mark.parametrize("was", TYPES)
def test_a_row_of_another_type_is_refused_and_never_read_as_of_the_present_one(was: str, extension: str) -> None:
    """But a number of an integer type is the same in all of them. A delete has the key alone."""
    before = slow_canal.table({"id": "int(11)", "c": was}, ("id", "c"))
    options = {"enable-tidb-extension": extension, "avro-bigint-unsigned-handling-mode": "string"}
    registry, messages = written("avro", before, changes((None, ["1", TYPES[was]]), (["1", TYPES[was]], None)), options)
    for is_now in TYPES:
        schema = slow_canal.table({"id": "int(11)", "c": is_now}, ("id", "c"))
        for message in messages:
            row = in_json("avro", registry, message, TS, schema)
            assert row is not None
            [change] = written_codec("avro").envelopes(row)
            assert isinstance(change, Change)
            read_back = message_rows([StoredChange(change)], era_of(schema), protocol="avro", time_zone="UTC", decoder=avro.AvroDecoder())
            if was == is_now or {was, is_now} <= INTEGERS:
                assert [piece.rows.to_pylist() for piece in read_back] == [[{"id": "1", "c": TYPES[was]}]]
            else:
                with pytest.raises(SinkError, match=r"column c: [A-Z ]+ is not what the column is now"):
                    list(read_back)


def test_dates_are_texts_in_avro_and_replaced_as_in_debezium() -> None:
    dated = slow_canal.table({"id": "int(11)", "d": "date"}, ("id",))
    options = {"invalid-dates": "null-or-epoch"}
    assert avro.replaced_dates(options, dated) == ()
    assert debezium_avro.replaced_dates(options, dated) == [("d", None)]


def test_a_small_decimal_has_its_digits() -> None:
    """Python's text of it would be 0E-10."""
    schema = slow_canal.table({"id": "int(11)", "d": "decimal(20,4)"}, ("id",))
    schema = replace(schema, columns=(schema.columns[0], replace(schema.columns[1], scale=10)))
    assert read("avro", schema, changes((None, ["1", "0.0000000000"])), {}) == [("1", "0.0000000000", TS, False)]
