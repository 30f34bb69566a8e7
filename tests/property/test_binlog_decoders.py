"""TiDB-Binlog: what any table and row event decode to, the decoder by columns held equal to the slow one, and broken bytes refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import TableSchema
from sidecar.shared.rowcodec.binlog_event import event_value, settled_value
from sidecar.shared.rowcodec.binlog_row import DecodedBinlogRows, decode_logged
from spark_merge.codecs.decode.binlog import decode_events
from spark_merge.codecs.images import NO_IMAGE
from tests.lanes import examples
from tests.property.test_kv_decoders import mutations, same
from tests.support.binlog_encoder import ROWID, common_handle, int_handle, pairs
from tests.support.kv_encoder import Plain, column, row_1
from tests.support.kv_values import Table, Value, tables

_SETTINGS = settings(
    max_examples=examples(50),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking whole tables of rows takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

Texts = list[str | None]
Values = dict[int, Value]


@dataclass(frozen=True)
class EncodedEvent:
    value: bytes
    before: Texts | None
    after: Texts | None


def schema_of(table: Table) -> TableSchema:
    return replace(table.kv.schema, layout=table.layout)


@st.composite
def events(draw: st.DrawFn, table: Table, values: dict[int, st.SearchStrategy[Value]]) -> EncodedEvent:
    """One row event of any kind; rows may have what a dropped column left behind."""
    rowid = None if table.handle else draw(st.integers(-(1 << 63), (1 << 63) - 1))
    unknown = max([*table.columns, 1]) + 1
    columns = {**table.columns, **ROWID, unknown: column(unknown, "gone", "int")}
    gone: dict[int, Plain | None] = {unknown: draw(st.sampled_from([None, 5]))} if draw(st.booleans()) else {}

    def row() -> Values:
        return {id_: draw(values[id_] if id_ in table.handle else values[id_] | st.just(Value(None, None))) for id_ in table.columns}

    def whole(result: Values) -> bytes:
        return pairs(columns, {id_: value.plain for id_, value in result.items()} | gone, rowid)

    def new(result: Values) -> bytes:
        handle = rowid if rowid is not None else result[table.handle[0]].plain
        if table.kv.key_parts:
            parts = [(table.columns[id_], plain) for id_ in table.handle if (plain := result[id_].plain) is not None]
            start = common_handle(parts)
        else:
            assert isinstance(handle, int)
            start = int_handle(handle)
        left = {id_: value.plain for id_, value in result.items() if id_ not in table.handle}
        absent = {id_ for id_, plain in left.items() if plain is None and draw(st.booleans())}  # NULL where that is the default
        return start + row_1(columns, {id_: plain for id_, plain in left.items() if id_ not in absent} | gone)

    def texts(value: Values) -> Texts:
        return [value[id_].text for id_ in table.columns]

    ordinal, version = draw(st.integers(0, (1 << 32) - 1)), draw(st.integers(0, (1 << 63) - 1))
    old_row, new_row = row(), row()
    match draw(st.sampled_from("IiUuDdRSs")):
        case "I" | "i" as kind:
            return EncodedEvent(event_value(ordinal, ord(kind), version, new(new_row)), None, texts(new_row))
        case "U" | "u" as kind:
            both = whole(old_row) + whole(new_row)
            return EncodedEvent(event_value(ordinal, ord(kind), version, both), texts(old_row), texts(new_row))
        case "D" | "d" as kind:
            return EncodedEvent(event_value(ordinal, ord(kind), version, whole(old_row)), texts(old_row), None)
        case "R":
            made = settled_value(ordinal, version, whole(old_row), new(new_row), has_handle=True)
            return EncodedEvent(made, texts(old_row), texts(new_row))
        case "S":
            made = settled_value(ordinal, version, whole(old_row), whole(new_row), has_handle=False)
            return EncodedEvent(made, texts(old_row), texts(new_row))
        case _:
            return EncodedEvent(settled_value(ordinal, version, b"", whole(new_row), has_handle=False), None, texts(new_row))


@st.composite
def tables_with_events(draw: st.DrawFn) -> tuple[Table, list[EncodedEvent]]:
    table, values = draw(tables())
    return table, draw(st.lists(events(table, values), min_size=1, max_size=8))


def by_columns(schema: TableSchema, values: list[bytes]) -> list[DecodedBinlogRows]:
    images = decode_events(schema, pa.array(values, pa.binary()))
    for texts in images.columns:
        texts.validate(full=True)
    rows = [list(row) for row in zip(*(texts.to_pylist() for texts in images.columns), strict=True)]
    assert sorted(one for one in [*images.before, *images.after] if one != NO_IMAGE) == list(range(len(rows)))
    return [
        DecodedBinlogRows(None if old == NO_IMAGE else rows[old], None if new == NO_IMAGE else rows[new])
        for old, new in zip(images.before, images.after, strict=True)
    ]


def outcome(schema: TableSchema, value: bytes) -> DecodedBinlogRows | str:
    try:
        return decode_logged(schema, value)
    except MessageUnreadable as error:
        return str(error)


@_SETTINGS
@given(tables_with_events())
def test_every_event_decodes_to_its_rows(made: tuple[Table, list[EncodedEvent]]) -> None:
    table, rows = made
    for row in rows:
        decoded_binlog_rows = decode_logged(schema_of(table), row.value)
        for texts, expected in zip(decoded_binlog_rows, (row.before, row.after), strict=True):
            assert (texts is None) == (expected is None)
            for one, text, wanted in zip(table.kv.columns if texts else (), texts or (), expected or (), strict=True):
                assert same(one.column.kind, text, wanted), (one, text, wanted)


@_SETTINGS
@given(tables_with_events())
def test_the_decoder_by_columns_gives_what_the_slow_one_gives(made: tuple[Table, list[EncodedEvent]]) -> None:
    table, rows = made
    schema = schema_of(table)
    assert by_columns(schema, [row.value for row in rows]) == [decode_logged(schema, row.value) for row in rows]


@_SETTINGS
@given(st.data())
def test_both_decoders_refuse_the_same_broken_events_with_the_same_words(data: st.DataObject) -> None:
    table, rows = data.draw(tables_with_events())
    schema, broken = schema_of(table), [data.draw(mutations(row.value)) for row in rows]
    outcomes = [outcome(schema, value) for value in broken]
    refused = [text for text in outcomes if isinstance(text, str)]
    if refused:
        with pytest.raises(MessageUnreadable) as caught:
            by_columns(schema, broken)
        assert str(caught.value) == refused[0]
    fit = [value for value, result in zip(broken, outcomes, strict=True) if not isinstance(result, str)]
    if fit:
        assert by_columns(schema, fit) == [
            decoded_binlog_rows for decoded_binlog_rows in outcomes if not isinstance(decoded_binlog_rows, str)
        ]
