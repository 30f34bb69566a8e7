"""A row that is read from TiDB, written as a message of simple and decoded by the worker, has the texts that TiDB gave, of any type."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sidecar.feeds.encoded.read_rows import CodecWithReadRows
from sidecar.shared.codecs.open_protocol import OpenProtocol
from sidecar.shared.codecs.simple import encode_row
from sidecar.shared.columns.simple import written
from sidecar.shared.model.canonical import equal_text
from sidecar.shared.model.nouns import Change, Column, CommitTs, Lane, Message, TableName, TableSchema
from spark_merge.codecs.decode.rows import decode
from tests.lanes import examples
from tests.support.kv_values import EncodedRow, Table, encoded_rows, tables
from tests.unit.decode.log import logged

LANE = Lane("kafka/t/0")


@st.composite
def read(draw: st.DrawFn) -> tuple[Table, list[EncodedRow]]:
    table, values = draw(tables())
    return table, draw(st.lists(encoded_rows(table, values), min_size=1, max_size=4))


@settings(
    max_examples=examples(50),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(read())
def test_a_row_of_any_type_is_what_was_read(drawn: tuple[Table, list[EncodedRow]]) -> None:
    table, rows = drawn
    name, columns = TableName("s", "t"), table.kv.schema.columns
    schema = TableSchema(name, (Column("no", "int", nullable=False), *columns), ("no",))
    codec, changes = CodecWithReadRows(OpenProtocol()), list[Change]()
    for number, row in enumerate(rows):
        cells = {column.name: written(text, column) for column, text in zip(columns, row.texts, strict=True)}
        value = encode_row(name, CommitTs(100), before=None, after={"no": str(number)} | cells)
        changes += [one for one in codec.envelopes(Message(LANE, number, b"", value)) if isinstance(one, Change)]
    table_rows = decode(logged(changes, codec=codec.name), codec=codec.name, schemas={name: schema}, server_tz="Asia/Shanghai")
    for row, image in zip(rows, table_rows.column("after").to_pylist(), strict=True):
        for column, text, given_text in zip(columns, image[1:], row.texts, strict=True):
            assert equal_text(column.kind, text, given_text), column
