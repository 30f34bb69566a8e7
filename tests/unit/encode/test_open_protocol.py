"""Rows, marks and DDLs of open-protocol: by hand, and columns against rows (open_slow.py). Against TiCDC's own: test_open_parity.py."""

from __future__ import annotations

import pickle
from dataclasses import replace
from random import Random
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from sidecar.shared.codecs.open_protocol import OpenProtocol as Codec
from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.log.manifest import DdlRecord
from sidecar.shared.model.nouns import Change, CommitTs, Ddl, IndexDefinition, IndexPart, Lane, Message, Resolved
from spark_merge.codecs.encode import open_protocol
from spark_merge.codecs.encode.messages import Architecture, RowMessage
from spark_merge.codecs.encode.open_protocol import OpenProtocolEncoder, encoder
from tests.lanes import examples
from tests.unit.encode import open_slow
from tests.unit.encode.open_tables import ALL, Image, changed, changes, pairs, table

CLASSIC, NEW = OpenProtocolEncoder("classic"), OpenProtocolEncoder("new")
PLAIN = table([("id", "int(11)"), ("b", "varchar(20)"), ("a", "varchar(20)")])


def envelope(message: RowMessage) -> Change | Ddl | Resolved:
    [result] = Codec().envelopes(Message(Lane("kafka/t/0"), 1, message[0], message[1]))
    return result


def change_of(message: RowMessage) -> Change:
    change = envelope(message)
    assert isinstance(change, Change)
    return change


def texts(encoder: OpenProtocolEncoder, *images: tuple[Image | None, Image | None]) -> list[tuple[str, str]]:
    """Key and value JSON of each row of PLAIN."""
    results = [change_of(message) for message in encoder.rows(PLAIN, changes(PLAIN, *images), None)]
    return [(one.key.decode(), one.value.decode()) for one in results]


def test_rows_of_the_classic_architecture_have_their_columns_by_name_and_the_row_id() -> None:
    rows = texts(CLASSIC, (None, ["1", "x", None]), (["1", "x", None], ["1", "y<", "z"]), (["1", "y", "z"], None))

    def image(a: str, b: str) -> str:
        return f'{{"a":{{"t":15,"f":64,"v":{a}}},"b":{{"t":15,"f":64,"v":{b}}},"id":{{"t":3,"h":true,"f":11,"v":1}}}}'

    first, last = image("null", '"x"'), image('"z"', '"y"')
    changed_image = image('"z"', '"y\\u003c"')
    assert rows == [
        ('{"ts":100,"scm":"shop","tbl":"t","rid":1,"t":1}', f'{{"u":{first}}}'),
        ('{"ts":101,"scm":"shop","tbl":"t","rid":1,"t":1}', f'{{"u":{changed_image},"p":{first}}}'),
        ('{"ts":102,"scm":"shop","tbl":"t","rid":1,"t":1}', f'{{"d":{last}}}'),
    ]


def test_rows_of_the_new_architecture_have_their_columns_in_table_order_and_no_row_id() -> None:
    [(key, value)] = texts(NEW, (None, ["1", "<", None]))
    assert key == '{"ts":100,"scm":"shop","tbl":"t","t":1}'
    assert value == '{"u":{"id":{"t":3,"h":true,"f":11,"v":1},"b":{"t":15,"f":64,"v":"<"},"a":{"t":15,"f":64,"v":null}}}'


def test_a_deleted_row_may_be_its_key_alone() -> None:
    key_encoder = encoder(architecture="new", options={"delete-only-output-handle-key-columns": "true"})
    rows = texts(key_encoder, (["1", "x", None], None), (["1", "x", None], ["1", "y", None]))
    assert rows[0][1] == '{"d":{"id":{"t":3,"h":true,"f":11,"v":1}}}'
    assert '"p":{"id":{"t":3,"h":true,"f":11,"v":1},"b":{"t":15,"f":64,"v":"x"}' in rows[1][1]


def test_the_row_id_is_the_signed_handle_and_zero_is_left_out() -> None:
    schema = table([("id", "bigint(20) unsigned")])
    messages = CLASSIC.rows(schema, changes(schema, (None, ["18446744073709551305"]), (None, ["0"])), None)
    assert [one[0][16:] for one in messages if one[0]] == [
        b'{"ts":100,"scm":"shop","tbl":"t","rid":-311,"t":1}',
        b'{"ts":101,"scm":"shop","tbl":"t","t":1}',
    ]


def test_a_key_that_is_not_the_handle_reports_no_row_id() -> None:
    schema = table([("id", "int(11)")], IndexDefinition("PRIMARY", (IndexPart("id"),), unique=True, primary=True, id=1))
    [message] = CLASSIC.rows(schema, changes(schema, (None, ["5"])), None)
    assert change_of(message).key == b'{"ts":100,"scm":"shop","tbl":"t","t":1}'


@pytest.mark.parametrize(
    ("of_table", "key"),
    [
        (CLASSIC, b'{"ts":100,"scm":"shop","tbl":"t","rid":5,"ptn":77,"t":1}'),
        (NEW, b'{"ts":100,"scm":"shop","tbl":"t","t":1,"ptn":77}'),
    ],
)
def test_a_row_of_a_partitioned_table_names_its_partition(of_table: OpenProtocolEncoder, key: bytes) -> None:
    schema = table([("id", "int(11)")], partitioning="PARTITION BY HASH (`id`) PARTITIONS 2")
    [message] = of_table.rows(schema, changes(schema, (None, ["5"])), [77])
    assert change_of(message).key == key
    with pytest.raises(SinkError, match=r"which partition of shop\.t"):
        of_table.rows(schema, changes(schema, (None, ["5"])), None)


def test_a_table_without_partitions_names_none() -> None:
    [message] = NEW.rows(PLAIN, changes(PLAIN, (None, ["5", None, None])), [77])
    assert b"ptn" not in (message[0] or b"")


def test_resolved_marks_and_ddls_are_read_back() -> None:
    mark = CLASSIC.resolved(CommitTs(415508856908021766))
    assert mark == NEW.resolved(CommitTs(415508856908021766))
    assert mark[0] == bytes.fromhex("0000000000000001000000000000001f") + b'{"ts":415508856908021766,"t":3}'
    assert mark[1] == bytes(8)
    record = DdlRecord(CommitTs(7), "shop", "t", "ALTER TABLE t ADD c INT DEFAULT '<'")
    assert envelope(NEW.ddl(record, None, None))[2:5] == ("shop", "t", record.query)
    assert CLASSIC.ddl(record, None, None)[1] == (b"\0" * 7 + b"\x36" + b'{"q":"ALTER TABLE t ADD c INT DEFAULT \'\\u003c\'","t":5}')


def test_a_schemas_ddl_names_no_table() -> None:
    record = DdlRecord(CommitTs(7), "shop", "", "CREATE DATABASE shop")
    assert (CLASSIC.ddl(record, None, None)[0] or b"")[16:] == b'{"ts":7,"scm":"shop","t":2}'
    assert (NEW.ddl(record, None, None)[0] or b"")[16:] == b'{"ts":7,"scm":"shop","tbl":"","t":2}'


def test_a_ddl_of_no_known_kind_is_refused() -> None:
    with pytest.raises(SinkError, match=r"(?s)WHATEVER.*ddl-done=7"):
        NEW.ddl(DdlRecord(CommitTs(7), "shop", "t", "ALTER TABLE t WHATEVER"), None, None)


def test_no_rows_are_no_messages() -> None:
    assert NEW.rows(PLAIN, changes(PLAIN), None) == []


def test_a_text_that_is_none_of_its_kind_is_refused_by_table_and_column() -> None:
    for sql, text in {
        "enum('a','b')": "z",
        "set('a','b','c')": "a,z",
        "double": "x",
        "varbinary(20)": "0",
        "year(4)": "x",
        "bit(9)": "-1",
    }.items():
        schema = table([("id", "int(11)"), ("v", sql)])
        with pytest.raises(SinkError, match=r"shop\.t\.v holds a text that is no"):
            NEW.rows(schema, changes(schema, (None, ["1", text])), None)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("large-message-handle-compression", "lz4"),
        ("only-output-updated-columns", "true"),
        ("time-zone", "No/Where"),
        ("delete-only-output-handle-key-columns", "maybe"),
    ],
)
def test_options_that_cannot_be_had_are_refused_by_name(option: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{option}.*{value}"):
        encoder(architecture="classic", options={option: value})


def test_an_encoder_can_be_sent_to_a_task() -> None:
    own_encoder = encoder(
        architecture="new",
        options={"time-zone": "Asia/Shanghai", "large-message-handle-compression": "none", "only-output-updated-columns": "false"},
    )
    assert pickle.loads(pickle.dumps(own_encoder)) == own_encoder


# ---- columns against rows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tz", ["UTC", "America/New_York"])
@pytest.mark.parametrize("architecture", ["classic", "new"])
def test_columns_give_what_rows_give(architecture: Architecture, tz: str) -> None:
    for seed in range(examples(50)):
        images = pairs(ALL, Random(seed))
        expected = [
            open_slow.row(ALL, 100 + place, before, after, architecture=architecture, tz=tz) for place, (before, after) in enumerate(images)
        ]
        assert OpenProtocolEncoder(architecture, ZoneInfo(tz)).rows(ALL, changes(ALL, *images), None) == expected, seed


def test_many_rows_are_encoded_in_blocks_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_protocol, "_BLOCK_BYTES_MAX", 300)
    schema = table([("id", "int(11)"), ("v", "varchar(20)")], partitioning="PARTITION BY HASH (`id`) PARTITIONS 2")
    rows = pa.concat_tables([changes(schema, (None, [str(number), "x" * 100])) for number in range(40)])
    keys = [change_of(message).key for message in CLASSIC.rows(schema, rows, list(range(1000, 1040)))]
    assert keys == [
        f'{{"ts":100,"scm":"shop","tbl":"t",{rid}"ptn":{1000 + number},"t":1}}'.encode()
        for number in range(40)
        if (rid := f'"rid":{number},' if number else "") is not None
    ]


def test_labels_of_an_enum_and_the_empty_one() -> None:
    schema = changed(table([("id", "int(11)"), ("e", "enum('a','b')")]), "e", type_text="enum('','b')")
    schema = replace(schema, columns=(schema.columns[0], replace(schema.columns[1], elements=("", "b"))))
    values = [message[1] or b"" for message in NEW.rows(schema, changes(schema, (None, ["1", ""]), (None, ["2", "b"])), None)]
    assert [b'"e":{"t":247,"f":64,"v":%d}' % number in value for number, value in zip((1, 2), values, strict=True)] == [True, True]
