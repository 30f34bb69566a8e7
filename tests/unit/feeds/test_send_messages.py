"""When the sender in deploy/push lets a message go, and what it sends again. No sockets: what it says, and what it is told."""

from __future__ import annotations

from typing import Any

from sidecar.shared.model.nouns import Change, CommitTs, Ddl, Lane, Rank
from tests.support.senders import sender_script
from ticdc_dump.v1 import feed_pb2 as pb

send_messages: Any = sender_script("send_messages")
LANE = Lane("kafka/t/0")


def partition(number: int, *items: str) -> Any:
    """`r5` is a row of `shop.t` at 5, `o5` one of another table, `d7` a DDL of `t`, `m9` a mark; each has its place for a time."""
    return send_messages.Partition(number, [_item(at, kind=item[0], ts=CommitTs(int(item[1:]))) for at, item in enumerate(items)])


def _item(at: int, *, kind: str, ts: CommitTs) -> Any:
    message, table = pb.TopicMessage(value=f"{kind}{ts}".encode()), "other" if kind == "o" else "t"
    match kind:
        case "m":
            return send_messages.Item(at, message, ts)
        case "d":
            return send_messages.Item(at, message, 0, (Ddl(ts, Rank.DDL, "shop", table, "", LANE, at),))
        case _:
            return send_messages.Item(at, message, 0, (Change(ts, Rank.PUT, "shop", table, b"", b"", LANE, at),))


def two(first: Any, second: Any) -> list[Any]:
    """A sender for each, welcomed."""
    senders: list[Any] = send_messages.senders_of([first, second], ["a", "b"], send_messages.Target(""))
    for sender in senders:
        receive(sender, welcome=pb.Welcome(version=2, credit_bytes=1 << 20, batch_bytes=1 << 20, silent_max_ms=60_000))
    return senders


def receive(sender: Any, **body: Any) -> None:
    sender._receive(pb.SidecarMessage(number=sender._received + 1, **body))


def said(sender: Any) -> list[str]:
    message = sender._next()
    return [] if message is None else [one.value.decode() for one in message.messages.messages]


def keep(sender: Any) -> None:
    """All that it has said."""
    receive(sender, kept=pb.Kept(number=sender._number))


def test_a_mark_goes_when_what_it_covers_is_kept_whoever_sends_it() -> None:
    a, b = two(partition(0, "r5", "m9", "r10"), partition(1, "r7", "m9", "r11"))
    assert said(a) == ["r5"]
    keep(a)
    assert said(a) == [], "b's row is not sent"
    assert said(b) == ["r7"]
    assert said(a) == [], "and not kept"
    keep(b)
    assert said(a) == ["m9", "r10"]
    assert said(b) == ["m9", "r11"]


def test_a_mark_that_a_partition_does_not_come_to_stays() -> None:
    a, b = two(partition(0, "r5", "m9"), partition(1, "r7", "m8"))
    for sender in (a, b, a, b):
        said(sender)
        keep(sender)
    assert (a.partitions[0].kept, b.partitions[0].kept) == (1, 2)


def test_what_was_not_kept_goes_again_in_the_next_stream() -> None:
    a, _ = two(partition(0, "r1", "r2"), partition(1, "r3"))
    a._batch_bytes = 1
    assert said(a) == ["r1"]
    keep(a)
    assert said(a) == ["r2"]
    a._begin()
    assert said(a) == ["r2"]


def test_marks_that_go_back_go_at_once() -> None:
    """TiCDC sends again from its checkpoint."""
    a, b = two(partition(0, "r5", "m9", "r8", "m8"), partition(1, "m9", "m8"))
    assert said(a) == ["r5"]
    keep(a)
    assert said(b) == ["m9", "m8"]
    assert said(a) == ["m9", "r8", "m8"]


def test_a_ddl_waits_for_its_tables_rows_and_not_for_others_which_a_mark_does() -> None:
    """In the new architecture only the table's own dispatcher waits."""
    a, b = two(partition(0, "d7", "o6", "m9"), partition(1, "r5", "d7", "m9"))
    assert said(a) == []
    assert said(b) == ["r5"]
    keep(b)
    assert said(a) == ["d7", "o6"]
    assert said(b) == ["d7"], "o6 is not kept"
    keep(a)
    keep(b)
    assert (said(a), said(b)) == (["m9"], ["m9"])
