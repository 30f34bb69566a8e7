"""Entries as real pumps and drainers wrote them."""

from __future__ import annotations

import json

import pytest

from sidecar.binlog.nodes import PAUSED, Node, node_of
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import CommitTs, ts_at
from tests.support.recordings import recording

RECORDED = (
    b'{"nodeId":"drainer-binlog","host":"127.0.0.1:8249","state":"paused","isAlive":false,"score":0,"label":null,'
    b'"maxCommitTS":470625055924551681,"updateTS":470625056540590081}'
)


def test_an_entry_is_written_as_a_real_drainer_writes_it() -> None:
    node = Node("drainer-binlog", "127.0.0.1:8249", PAUSED, CommitTs(470625055924551681), CommitTs(470625056540590081))
    assert node.to_json() == RECORDED
    assert node_of("k", RECORDED) == node


def test_every_recorded_entry_is_read_and_written_back() -> None:
    result = json.loads((recording("binlog") / "pumps" / "pumps.json").read_text())["registry_at_end"]
    for key, value in result.items():
        assert node_of(key, value.encode()).to_json() == value.encode()
    assert len(result) == 3


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"nodeId":1}', RECORDED.replace(b"470625055924551681", b'"x"')])
def test_what_is_no_entry_names_its_key(value: bytes) -> None:
    with pytest.raises(MessageUnreadable, match="etcd key /tidb-binlog/v1/pumps/x is not"):
        node_of("/tidb-binlog/v1/pumps/x", value)


def test_a_node_that_has_not_written_for_long_is_silent() -> None:
    node = node_of("k", RECORDED)
    assert not node.silent_at(node.update_ts)
    assert not node.silent_at(CommitTs(node.update_ts + ts_at(10_000)))
    assert node.silent_at(CommitTs(node.update_ts + ts_at(10_001)))
