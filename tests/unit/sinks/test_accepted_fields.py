"""What is accepted, as the fields of each store: one pair of functions, and the names that 0.4 and before wrote."""

from __future__ import annotations

import json

import pytest

from sidecar.shared.model.nouns import CommitTs, Seq
from spark_merge.port.contract import Accepted, Owner
from spark_merge.sinks.http.state import ReceiverState, state_of
from spark_merge.sinks.kit.position import OutputState, as_text, from_fields, to_fields
from spark_merge.sinks.opensearch import position as opensearch

LATE = CommitTs((1 << 63) - 1)
CASES = [None, Accepted(Seq(0), CommitTs(0), "id"), Accepted(Seq(5), LATE, "id"), Accepted(Seq(5))]


@pytest.mark.parametrize("accepted", CASES)
def test_fields_come_back_as_numbers_and_as_texts(accepted: Accepted | None) -> None:
    seq, upto_ts, manifest = to_fields(accepted)
    assert from_fields(seq, upto_ts, manifest) == from_fields(as_text(seq), as_text(upto_ts), manifest) == accepted


@pytest.mark.parametrize("accepted", CASES)
def test_each_store_has_the_names_that_0_4_wrote(accepted: Accepted | None) -> None:
    seq, upto_ts, manifest = to_fields(accepted)
    named = {"seq": seq, "upto_ts": as_text(upto_ts), "manifest": manifest}
    document = {"log": "l", "epoch": 3, "incarnation": 4, "by": "b", "accepted": named if accepted else None, "written": None}
    state: OutputState[opensearch.WrittenBatch] = OutputState("l", Owner(3, 4), accepted)
    assert opensearch._state_of(document) == state
    assert opensearch._as_json(state) | {"by": "b"} == document
    line = {"log": "l", "epoch": 3, "incarnation": 4, "by": "b", **named, "begun": None, "version": 1}
    assert state_of(json.dumps(line), where="x").accepted == accepted
    assert json.loads(ReceiverState("l", 3, 4, "b").standing(accepted, None).text) == line
