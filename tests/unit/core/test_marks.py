"""Which watermark rows are ours, and in which order they must come."""

from __future__ import annotations

from functools import partial

import pytest

from sidecar.core.marks import DUMP_ID_LENGTH, Marks, mark_number, mark_uuid
from sidecar.shared.errors import MarkError
from sidecar.shared.model.nouns import CommitTs, Mark, MarkKind

DUMP = "d" * DUMP_ID_LENGTH
EPOCH = 7
UUID_COLUMN_LENGTH = 32


def marks(*sent: MarkKind) -> Marks:
    made = Marks("cf", partial(mark_number, DUMP, EPOCH))
    for kind in sent:
        made.send(kind)
    return made


def mark(number: int, kind: MarkKind, *, changefeed: str = "cf", dump: str = DUMP, epoch: int = EPOCH) -> Mark:
    return Mark(CommitTs(100), changefeed, mark_uuid(dump, epoch, number), kind)


@pytest.mark.parametrize(("epoch", "number"), [(0, 0), (1, 255), (0xFFFFFFFF, 0xFFFFFFFF)])
def test_a_uuid_fills_the_column_and_gives_its_number_back(epoch: int, number: int) -> None:
    uuid = mark_uuid(DUMP, epoch, number)
    assert len(uuid) == UUID_COLUMN_LENGTH
    assert mark_number(DUMP, epoch, uuid) == number


@pytest.mark.parametrize(
    "uuid",
    [
        "",
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
        mark_uuid("e" * DUMP_ID_LENGTH, EPOCH, 0),
        mark_uuid(DUMP, EPOCH - 1, 0),
        mark_uuid(DUMP, EPOCH, 0)[:-1] + "g",
    ],
)
def test_a_uuid_of_anything_else_has_no_number(uuid: str) -> None:
    assert mark_number(DUMP, EPOCH, uuid) is None


@pytest.mark.parametrize("ending", ["", "0", "0" * 7, "0" * 9, "      +1", "0x000001", "0000_001", "0000000A"])
def test_a_uuid_that_we_cannot_have_written_has_no_number(ending: str) -> None:
    assert mark_number(DUMP, EPOCH, f"{DUMP}{EPOCH:08x}{ending}") is None


def test_numbers_count_from_0_in_the_order_of_sending() -> None:
    made = marks()
    assert [made.send(kind) for kind in (MarkKind.LOW, MarkKind.LOW, MarkKind.HIGH)] == [0, 1, 2]
    assert (made.sent, made.seen) == (3, 0)


def test_marks_are_seen_in_the_order_in_which_they_were_sent() -> None:
    made = marks(MarkKind.LOW, MarkKind.HIGH)
    assert made.see(mark(0, MarkKind.LOW)) == 0
    assert made.send(MarkKind.LOW) == 2
    assert [made.see(mark(1, MarkKind.HIGH)), made.see(mark(2, MarkKind.LOW))] == [1, 2]


@pytest.mark.parametrize(
    "foreign",
    [
        mark(0, MarkKind.LOW, changefeed="other"),
        mark(5, MarkKind.HIGH, dump="e" * DUMP_ID_LENGTH),
        mark(0, MarkKind.HIGH, epoch=EPOCH - 1),
    ],
    ids=["changefeed", "dump", "epoch"],
)
def test_marks_that_are_not_ours_are_ignored_and_not_counted(foreign: Mark) -> None:
    made = marks(MarkKind.LOW)
    assert made.see(foreign) is None
    assert made.see(mark(0, MarkKind.LOW)) == 0


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (mark(0, MarkKind.LOW), "came a second time"),
        (mark(2, MarkKind.LOW), "number 1 must come first"),
        (mark(1, MarkKind.LOW), "is a low mark but was sent as a high mark"),
        (mark(3, MarkKind.LOW), "was never sent"),
    ],
    ids=["doubled", "out of order", "wrong kind", "never sent"],
)
def test_a_wrong_mark_raises_with_a_way_out_and_changes_nothing(wrong: Mark, what: str) -> None:
    made = marks(MarkKind.LOW, MarkKind.HIGH, MarkKind.LOW)
    made.see(mark(0, MarkKind.LOW))
    with pytest.raises(MarkError, match=what) as raised:
        made.see(wrong)
    assert f"{wrong.uuid} of changefeed cf at commit_ts 100" in str(raised.value)
    assert "dumpresume" in raised.value.hint
    assert made.see(mark(1, MarkKind.HIGH)) == 1
