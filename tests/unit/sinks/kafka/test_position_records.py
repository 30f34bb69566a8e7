"""The position topic's records as bytes: read back as written, and what is something else is refused."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from spark_merge.port.contract import Accepted, Outcome, Owner, Rows
from spark_merge.sinks.kafka.position_records import (
    CLAIM_KEY,
    OUTCOME_BYTES_MAX,
    Control,
    Slot,
    TopicBatch,
    current_control,
    slots_of,
)

CONTROL = Control(
    "log-1",
    "open-protocol",
    Owner(3, 7),
    Accepted(Seq(4), CommitTs(470625388367708162), "m4"),
    TopicBatch(Seq(5), Seq(6), "d", (1, 2), 3, "copy", "m6"),
    {"t": 3},
)


def test_a_control_record_comes_back() -> None:
    assert Control.of(CONTROL.to_bytes(), where="x") == CONTROL
    first = Control("log-1", "canal-json", Owner(0, 1))
    assert Control.of(first.to_bytes(), where="x") == first


@pytest.mark.parametrize("data", [b"", b"{}", b"somebody's", CONTROL.to_bytes().replace(b'"version":1', b'"version":2')])
def test_what_is_no_control_record_is_refused(data: bytes) -> None:
    with pytest.raises(SinkError, match="position topic x"):
        Control.of(data, where="position topic x")


@pytest.mark.parametrize("data", [b"somebody's", zlib.compress(b"somebody's"), zlib.compress(b"[9]"), b'[9,"live-5-0",[]]'])
def test_what_is_no_slot_is_rejected(data: bytes) -> None:
    with pytest.raises(SinkError, match="position topic x holds something else"):
        slots_of([(b"0", data)], where="position topic x")


def test_a_slot_comes_back_with_its_counts() -> None:
    slot = Slot(Seq(9), Outcome("live-5-0", {(Seq(5), TableName("s", 't"')): Rows(1, 2, 3)}))
    assert Slot.of(slot.to_bytes(), where="x") == slot


def test_a_slot_fits_into_a_message_whatever_it_counts() -> None:
    counts = {(Seq(seq), TableName("s", f"{hash((seq, n)):x}")): Rows(seq * n) for seq in range(200) for n in range(200)}
    data = Slot(Seq(9), Outcome("live-5-0", counts)).to_bytes()
    assert len(data) <= OUTCOME_BYTES_MAX
    assert Slot.of(data, where="x") == Slot(Seq(9), Outcome("live-5-0", {}))


def test_claims_that_releases_up_to_0_4_wrote_without_transactions_are_skipped() -> None:
    claim = b'{"batch":9,"task":"live-5-0","by":"term","attempt":"a","ends":{"t":[0,12],"u":[3]}}'
    slot = Slot(Seq(9), Outcome("live-5-0", {}))
    assert slots_of([(CLAIM_KEY, zlib.compress(claim, 1)), (b"0", slot.to_bytes()), (CLAIM_KEY, b""), (b"0", None)], where="x") == (slot,)


A, B = replace(CONTROL, token="a"), replace(CONTROL, owner=Owner(3, 8), token="b")


@pytest.mark.parametrize(
    ("records", "last"),
    [
        ([], None),
        ([A, replace(A, begun=None)], (1, replace(A, begun=None))),
        ([A, replace(B, accepted=None, opening=True)], (0, B)),
        ([A, replace(B, opening=True), replace(A, begun=None)], (0, B)),
        ([A, replace(B, opening=True), replace(B, begun=None), A], (2, replace(B, begun=None))),
        ([A, replace(B, token="c", opening=True), replace(B, opening=True)], (0, replace(B, token="c"))),
        ([replace(A, opening=True)], (0, replace(A, opening=True))),
        ([replace(CONTROL, owner=Owner(3, 9)), A], (0, replace(CONTROL, owner=Owner(3, 9)))),
    ],
)
def test_what_an_earlier_term_writes_after_a_later_one_has_opened_does_not_count(
    records: list[Control], last: tuple[int, Control] | None
) -> None:
    """A state is of the last term that has opened; a term goes on with what stood when it did; of two that open at once one is it."""
    assert current_control(enumerate(records)) == last
