"""Rows of changefeeds with column selectors: whether TiCDC has omitted the columns or not, they are the same rows without them.

The messages are the encoders' own of whole rows, from which the columns are taken by their names, as TiCDC's codecs do it.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.codecs.contract import Codec
from sidecar.shared.codecs.csv import CODEC, CsvCodec
from sidecar.shared.codecs.open_protocol import OpenProtocol
from sidecar.shared.codecs.simple import Simple
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.model.nouns import Change, Column, IndexDefinition, IndexPart, Lane, Message, TableName, TableSchema
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName, ColumnSelector
from sidecar.shared.ticdc.selected_columns import SelectedColumns
from spark_merge.codecs.decode.rows import decode
from spark_merge.codecs.encode.messages import Encoder
from spark_merge.codecs.protocols import encoder
from spark_merge.port.contract import CHANGES
from tests.lanes import examples
from tests.support.slow_canal import random_changes, random_table, table
from tests.unit.decode.log import logged
from tests.unit.encode.simple_slow import SimpleEncoder

NAME = TableName("shop", "t")
Image = Sequence[str | None]


class CsvEncoder:
    """Rows as the storage feed makes them of files whose schema file has the columns `file`."""

    def __init__(self, file: Sequence[str]) -> None:
        self._file = file

    def rows(self, schema: TableSchema, changes: pa.Table) -> list[tuple[bytes, bytes]]:
        return [(b"", self._row(schema, one)) for one in changes.to_pylist()]

    def _row(self, schema: TableSchema, change: dict[str, Any]) -> bytes:
        op, before, after = change["op"].upper(), change["before"], change["after"]
        data = self._image(schema, after if before is None or after is not None else before)
        old = {"old": [self._image(schema, before)]} if op == "UPDATE" else {}
        head = {"type": op, "database": schema.name.schema, "table": schema.name.table, "columns": self._file, "binary": "base64"}
        return _json(head | {"data": [data], **old, "_tidb": {"commitTs": change["commit_ts"]}, "isDdl": False})

    def _image(self, schema: TableSchema, image: Image) -> list[str | None]:
        return [text if text is None else self._text(one, text) for one, text in zip(schema.columns, image, strict=True)]

    def _text(self, column: Column, text: str) -> str:
        match column.kind:
            case "binary":
                return b64encode(bytes.fromhex(text)).decode()
            case "year":
                return str(int(text))
            case _:
                return text


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class Way(NamedTuple):
    codec: Codec
    encoder: Callable[[TableSchema], Any]


def _of(made: Encoder) -> Callable[[TableSchema], Any]:
    class Whole:
        def rows(self, schema: TableSchema, changes: pa.Table) -> Any:
            return made.rows(schema, changes, None)

    return lambda schema: Whole()


ON = {"enable-tidb-extension": "true"}
WAYS = {
    "canal-json": Way(CanalJson(), _of(encoder("canal-json", architecture="classic", options=ON))),
    "open-protocol": Way(OpenProtocol(), _of(encoder("open-protocol", architecture="classic", options={}))),
    "open-protocol-new": Way(OpenProtocol(), _of(encoder("open-protocol", architecture="new", options={}))),
    "simple": Way(Simple(), _of(SimpleEncoder())),
    CODEC: Way(CsvCodec(), lambda schema: CsvEncoder([*schema.column_names(), "a virtual one"])),
}


def selector(*columns: str, matcher: Sequence[str] = ("*.*",)) -> SelectedColumns:
    name = ChangefeedName("default", "default", "c")
    feed = Changefeed(name, "i", "kafka://h:9092/t", column_selectors=(ColumnSelector(tuple(matcher), columns),))
    return SelectedColumns.of(feed)


def random_narrowing(random: Random, whole: TableSchema) -> TableSchema:
    lost = [one.name for one in whole.columns if one.name not in whole.key and random.random() < 0.5]
    quoted = ['"' + name.replace('"', '""') + '"' for name in lost]
    return selector("*", *(f"!{one}" for one in quoted)).narrowed(whole)


def random_whole(random: Random) -> TableSchema:
    """With a key, and some more indexes, so that columns have flags."""
    drawn = random_table(random)
    assert drawn.definition is not None
    types = {"id": "int(11)", **{one.name: one.type_text for one in drawn.definition.columns}}
    whole = table(types, ("id",), drawn.name)
    names, definition = whole.column_names(), whole.definition
    assert definition is not None
    parts = [random.sample(names, min(len(names), random.choice([1, 2]))) for _ in range(3)]
    more = [
        IndexDefinition(f"i{number}", tuple(map(IndexPart, some)), unique=random.random() < 0.5, id=number)
        for number, some in enumerate(parts, 2)
    ]
    return replace(whole, definition=replace(definition, indexes=(*definition.indexes, *more)))


def keyed_changes(random: Random, whole: TableSchema, count: int) -> pa.Table:
    rows = random_changes(random, whole, count).to_pylist()
    for number, one in enumerate(rows):
        one.update({part: [str(number), *one[part][1:]] for part in ("before", "after") if one[part] is not None})
    return pa.Table.from_pylist(rows, schema=CHANGES)


def projected(image: Image | None, whole: TableSchema, narrowed: TableSchema) -> Image | None:
    kept = set(narrowed.column_names())
    return None if image is None else [text for one, text in zip(whole.columns, image, strict=True) if one.name in kept]


def without(changes: pa.Table, whole: TableSchema, narrowed: TableSchema) -> pa.Table:
    rows = [one | {part: projected(one[part], whole, narrowed) for part in ("before", "after")} for one in changes.to_pylist()]
    return pa.Table.from_pylist(rows, schema=changes.schema)


def read(way: Way, messages: Sequence[tuple[bytes | None, bytes | None]]) -> list[Change]:
    envelopes = [one for number, (key, value) in enumerate(messages) for one in way.codec.envelopes(Message(Lane("l"), number, key, value))]
    return [one for one in envelopes if isinstance(one, Change)]


def decoded(way: Way, messages: Sequence[tuple[bytes | None, bytes | None]], schema: TableSchema) -> list[dict[str, Any]]:
    rows = logged(read(way, messages), codec=way.codec.name)
    columns = ["commit_ts", "op", "key", "before", "after"]
    result: list[dict[str, Any]] = decode(rows, codec=way.codec.name, schemas={schema.name: schema}).select(columns).to_pylist()
    return result


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(examples(40)))
def test_a_narrowed_row_is_the_whole_one_without_the_columns_whatever_ticdc_has_sent(way: str, seed: int) -> None:
    random = Random(seed)
    whole = random_whole(random)
    narrowed, changes = random_narrowing(random, whole), keyed_changes(random, whole, 20)
    encode = WAYS[way].encoder(whole)
    sent_whole, sent = encode.rows(whole, changes), encode.rows(narrowed, without(changes, whole, narrowed))
    every = decoded(WAYS[way], sent_whole, whole)
    without_columns = [one | {part: projected(one[part], whole, narrowed) for part in ("before", "after")} for one in every]
    assert decoded(WAYS[way], sent, narrowed) == without_columns
    assert decoded(WAYS[way], sent_whole, narrowed) == without_columns


@pytest.mark.parametrize("seed", range(examples(40)))
@pytest.mark.parametrize("way", ["canal-json", "open-protocol", "open-protocol-new"])
def test_a_message_of_ours_is_ticdcs_without_the_columns(way: str, seed: int) -> None:
    """Its flags too, which indexes make of which a column is not carried."""
    random = Random(seed)
    whole = random_whole(random)
    narrowed, encode = random_narrowing(random, whole), WAYS[way].encoder(whole)
    changes = keyed_changes(random, whole, 5)
    kept = set(narrowed.column_names())

    def taken(value: bytes | None) -> Any:
        message = json.loads(value or b"")
        for part in message.keys() & {"u", "p", "d", "sqlType", "mysqlType"}:
            message[part] = {name: cell for name, cell in message[part].items() if name in kept}
        for part in ("data", "old"):
            if message.get(part):
                message[part] = [{name: cell for name, cell in message[part][0].items() if name in kept}]
        return message

    ours, theirs = encode.rows(narrowed, without(changes, whole, narrowed)), encode.rows(whole, changes)
    assert [key for key, _ in ours] == [key for key, _ in theirs]
    assert [json.loads(one.value or b"") for one in read(WAYS[way], ours)] == [taken(one.value) for one in read(WAYS[way], theirs)]


WHOLE = table({"id": "int(11)", "note": "varchar(20)", "paid": "int(11)"}, ("id",))
NARROWED = selector("*", "!note").narrowed(WHOLE)
ROWS: Mapping[str, Callable[[list[str]], bytes]] = {
    "canal-json": lambda names: _json(
        {
            "id": 0, "database": "shop", "table": "t", "pkNames": ["id"], "isDdl": False, "type": "INSERT", "es": 1, "ts": 1, "sql": "",
            "sqlType": dict.fromkeys(names, 4), "mysqlType": {name: "varchar" if name in ("note", "more") else "int" for name in names},
            "old": None, "data": [dict.fromkeys(names, "1")], "_tidb": {"commitTs": 100},
        }
    ),
    "simple": lambda names: _json(
        {
            "version": 1, "type": "INSERT", "database": "shop", "table": "t", "tableID": 1, "commitTs": 100, "buildTs": 1,
            "schemaVersion": 5, "data": dict.fromkeys(names, "1"),
        }
    ),
    CODEC: lambda names: _json(
        {
            "type": "INSERT", "database": "shop", "table": "t", "columns": ["id", "note", "paid", "more"], "binary": "base64",
            "data": [["1" for _ in names]], "_tidb": {"commitTs": 100}, "isDdl": False,
        }
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", ROWS)
def test_a_column_that_nobody_leaves_out_is_refused_and_so_is_the_lack_of_one_that_is_carried(way: str) -> None:
    for names in (["id", "paid"], ["id", "note", "paid"]):
        assert [one["after"] for one in decoded(WAYS[way], [(b"", ROWS[way](names))], NARROWED)] == [["1", "1"]]
    for names in (["id", "note", "paid", "more"], ["id"]):
        with pytest.raises(FeedUnsuitable, match="schema"):
            decoded(WAYS[way], [(b"", ROWS[way](names))], NARROWED)


def test_a_column_of_another_kind_that_is_omitted_is_not_looked_at() -> None:
    other = replace(NARROWED, omitted=(Column("note", "json"),))
    assert decoded(WAYS["canal-json"], [(b"", ROWS["canal-json"](["id", "note", "paid"]))], other)[0]["after"] == ["1", "1"]
