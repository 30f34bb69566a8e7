"""The file of a row that is larger than a message. TiCDC's own files: tests/unit/feeds/test_encoded_claims.py, and the Kafka sink's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.shared.codecs.canal_json import CanalJson
from sidecar.shared.codecs.claim_file import NotThisRow, file_bytes, file_name, whole_message
from sidecar.shared.codecs.contract import Claim
from sidecar.shared.model.nouns import CommitTs, Lane, Message, TableName

ROW = '{"database":"s","table":"t","isDdl":false,"type":"INSERT","data":[{"id":%d}],"_tidb":{"commitTs":%d}}'
CLAIM = Claim("s3:/b/a-1_Z.json", TableName("s", "t"), CommitTs(5))
NAMED = Message(Lane("k/0"), 7, b"", b"a message that names it")


@given(number=st.integers(0), key=st.none() | st.binary(), raw=st.booleans())
def test_a_row_comes_out_as_it_went_in(number: int, key: bytes | None, raw: bool) -> None:
    value = (ROW % (number, 5)).encode()
    whole = whole_message(NAMED, CLAIM, file_bytes(key, value, raw=raw), CanalJson(), raw=raw)
    assert whole == NAMED._replace(key=NAMED.key if raw else key or None, value=value)


def test_an_empty_key_is_null_as_ticdc_has_it() -> None:
    assert file_bytes(b"", b"v", raw=False) == file_bytes(None, b"v", raw=False) == b'{"key":null,"value":"dg=="}'


@pytest.mark.parametrize("raw", [False, True])
def test_another_rows_file_is_none_of_it(raw: bool) -> None:
    with pytest.raises(NotThisRow, match=r"a file a-1_Z.json of another row"):
        whole_message(NAMED, CLAIM, file_bytes(None, (ROW % (1, 6)).encode(), raw=raw), CanalJson(), raw=raw)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"key":null,"value":"*"}', b'{"key":3,"value":""}', b"\xff"])
def test_a_file_of_another_form_is_none(data: bytes) -> None:
    with pytest.raises(NotThisRow, match="none of TiCDC's"):
        whole_message(NAMED, CLAIM, data, CanalJson(), raw=False)


@pytest.mark.parametrize(("place", "name"), [("file:///f/a.json", "a.json"), ("s3:/b/a.json", "a.json"), ("a.json", "a.json")])
def test_a_name_is_what_stands_behind_the_last_slash(place: str, name: str) -> None:
    assert file_name(CLAIM._replace(file=place)) == name


@pytest.mark.parametrize("place", ["", "s3://b/..", "s3://b/x.txt", "s3://b/a b.json"])
def test_a_name_that_ticdc_does_not_write_is_none(place: str) -> None:
    with pytest.raises(NotThisRow, match="none that TiCDC writes"):
        file_name(CLAIM._replace(file=place))
