"""A message with the handle key's columns alone: what stays keeps its bytes. TiCDC's own: sinks/kafka/test_large_rows.py."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from sidecar.shared.codecs.contract import Claim
from sidecar.shared.codecs.open_protocol import OpenProtocol
from sidecar.shared.model.nouns import CommitTs, Lane, Message, TableName
from spark_merge.codecs.encode.easy_json import quoted
from spark_merge.codecs.encode.handle_key import fields_of, json_object, key_columns
from spark_merge.codecs.protocols import encoder
from tests.unit.encode.open_tables import table

DOC = table([("id", "int(11)"), ("b", "longtext")])
VALUES = st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=4)


@given(columns=st.dictionaries(st.text(), VALUES, max_size=8), data=st.data())
def test_columns_that_stay_keep_their_order_and_bytes(columns: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sets(st.sampled_from(sorted(columns)) if columns else st.nothing()))
    values = {name: json.dumps(value, ensure_ascii=False).encode() for name, value in columns.items()}
    whole = json_object(values.items(), quoted)
    assert {name: bytes(value) for name, value in fields_of(whole).items()} == values
    assert key_columns(Raw(whole), key, quoted) == json_object([one for one in values.items() if one[0] in key], quoted)


def test_the_new_architecture_says_twice_whether_it_is_the_key_alone() -> None:
    """As pingcap/ticdc pkg/sink/codec/open/codec.go; the last one counts."""
    own = encoder("open-protocol", architecture="new", options={})
    key, value = (b'{"ts":5,"scm":"s","tbl":"t","t":1,"ptn":9}', b'{"u":{"id":{"t":8,"v":1},"b":{"v":"<"}}}')
    framed = (1).to_bytes(8, "big") + len(key).to_bytes(8, "big") + key, len(value).to_bytes(8, "big") + value
    small_key, small_value = own.location_message(framed, DOC, "file:///a&b/c.json")
    assert (small_key or b"")[16:] == b'{"ts":5,"scm":"s","tbl":"t","t":1,"ohk":true,"ohk":false,"ccl":"file:///a&b/c.json","ptn":9}'
    assert (small_value or b"")[8:] == b'{"u":{"id":{"t":8,"v":1}}}'
    (part,) = OpenProtocol().parts(Message(Lane("t/0"), 0, small_key, small_value))
    assert part == Claim("file:///a&b/c.json", TableName("s", "t"), CommitTs(5))


def test_what_ticdc_writes_beside_the_commit_ts_stays_behind_the_location() -> None:
    """A feed's rows may have it (output-row-key)."""
    own = encoder("canal-json", architecture="new", options={"enable-tidb-extension": "true"})
    whole = b'{"database":"s","old":[{}],"data":[{"id":"1","b":"x"}],"sqlType":{"id":4,"b":12},"_tidb":{"commitTs":5,"rowkey":"dA=="}}'
    assert own.location_message((b"", whole), DOC, "s3://b/<.json") == (
        b"",
        b'{"database":"s","old":[{}],"data":[{"id":"1"}],"sqlType":{"id":4},'
        b'"_tidb":{"commitTs":5,"claimCheckLocation":"s3://b/\\u003c.json","rowkey":"dA=="}}',
    )
