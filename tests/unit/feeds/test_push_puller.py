"""The push feed's conversation over TCP, message by message: what a sender is told, and what ends what."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import grpc
import pytest

from sidecar.feeds.push import server
from sidecar.feeds.push.credits import SENDERS_MAX
from sidecar.feeds.push.puller import PushPuller
from sidecar.feeds.push.server import HELLO_BYTES_MAX
from sidecar.shared.config import PushSection, Tls
from sidecar.shared.errors import ConfigError, FeedLost, FeedUnsuitable, MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEntry, Pulled, rows_of
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.support.eventually import eventually
from tests.unit.feeds.pushing import Polling, RawSender, sent, waiting
from ticdc_dump.v1 import feed_pb2 as pb

ORDERS, ITEMS = rows_of(104), rows_of(107)
KEY = ORDERS.start + b"\x80\0\0\0\0\0\0\1"
T0 = CommitTs(100)
LOOPBACK = PushSection(listen="127.0.0.1:0")
SHORT_S = 0.5


def section(**settings: object) -> PushSection:
    return PushSection(**{"listen": "127.0.0.1:0"} | settings)  # type: ignore[arg-type]  # by name


@pytest.fixture
def puller() -> Iterator[PushPuller]:
    with closing(PushPuller(LOOPBACK)) as made:
        made.want({ORDERS: T0})
        yield made


@pytest.fixture
def polling(puller: PushPuller) -> Polling:
    return Polling(puller)


@pytest.fixture
def sender(puller: PushPuller, polling: Polling) -> Iterator[RawSender]:
    """`node-1`, with all of ORDERS open as span 1."""
    with RawSender(puller.port) as made:
        made.hello("node-1")
        made_welcome(polling, made)
        made.open(1, ORDERS)
        polling.until(lambda: made.of_kind("opened"))
        yield made


def made_welcome(polling: Polling, sender: RawSender) -> None:
    polling.until(lambda: sender.of_kind("welcome"))


def end(polling: Polling, sender: RawSender) -> tuple[grpc.StatusCode, str]:
    polling.until(lambda: sender.ended)
    assert sender.ended is not None
    return sender.ended


def open_at_once(puller: PushPuller, sender: RawSender, span: KeyRange, *, available_ts: int = 0) -> None:
    """With one poll only, so that no time passes that silence is measured in."""
    sender.open(1, span, available_ts=available_ts)
    assert waiting(lambda: any(view.waiting_bytes for view in puller.senders()))
    puller.poll(timeout_s=0.0)


# ---- the beginning --------------------------------------------------------------------------------------------------


def test_a_sender_is_welcomed_and_gets_what_is_wanted_and_from_where_to_send(polling: Polling, sender: RawSender) -> None:
    assert sender.of_kind("welcome")[0].version == 1
    assert sender.of_kind("welcome")[0].silent_max_ms == 60_000
    assert [(range.start, range.end, range.from_ts) for range in sender.of_kind("wanted")[0].ranges] == [(*ORDERS, T0)]
    assert sender.of_kind("opened") == [pb.SpanOpened(span=1, from_ts=T0)]
    assert [answer.number for answer in sender.answers] == [1, 2, 3]


def test_of_the_versions_that_both_speak_the_highest_is_taken(puller: PushPuller, polling: Polling) -> None:
    with RawSender(puller.port) as sender:
        sender.hello(version_min=1, version_max=9)
        made_welcome(polling, sender)
        assert sender.of_kind("welcome")[0].version == 2


@pytest.mark.parametrize(("lowest", "highest"), [(3, 4), (0, 0)])
def test_a_sender_of_another_version_is_turned_away_and_nothing_stops(
    puller: PushPuller, polling: Polling, lowest: int, highest: int
) -> None:
    with RawSender(puller.port) as sender:
        sender.hello(version_min=lowest, version_max=highest)
        code, text = end(polling, sender)
        assert code == grpc.StatusCode.FAILED_PRECONDITION
        assert f"versions {lowest} to {highest}" in text


def test_a_sender_of_another_form_is_turned_away_with_both_named(puller: PushPuller, polling: Polling) -> None:
    with RawSender(puller.port) as sender:
        sender.hello(version_min=2, version_max=2, form=pb.FORM_MESSAGES)
        code, text = end(polling, sender)
        assert code == grpc.StatusCode.FAILED_PRECONDITION
        assert "sends messages, the sidecar takes key-values" in text


def test_a_sender_of_another_changefeed_is_turned_away() -> None:
    with closing(PushPuller(LOOPBACK, changefeed=ChangefeedName("c", "default", "cf"))) as puller:
        polling = Polling(puller)
        with RawSender(puller.port) as stranger, RawSender(puller.port) as ours:
            stranger.hello(changefeed="c/default/other")
            ours.hello(changefeed="c/default/cf")
            assert end(polling, stranger)[0] == grpc.StatusCode.FAILED_PRECONDITION
            made_welcome(polling, ours)


def test_a_sender_without_a_name_is_turned_away(puller: PushPuller, polling: Polling) -> None:
    with RawSender(puller.port) as sender:
        sender.hello("")
        assert end(polling, sender)[0] == grpc.StatusCode.INVALID_ARGUMENT


def test_what_is_no_hello_ends_the_stream_and_nothing_stops(puller: PushPuller, polling: Polling) -> None:
    with RawSender(puller.port) as sender, RawSender(puller.port) as junk:
        sender.open(1, ORDERS)
        junk.send_bytes(b"\xff\xff\xff")
        assert end(polling, sender)[0] == grpc.StatusCode.INVALID_ARGUMENT
        assert end(polling, junk)[0] == grpc.StatusCode.INVALID_ARGUMENT


def test_until_welcome_one_message_is_taken_from_the_network(puller: PushPuller, polling: Polling) -> None:
    """Whatever follows Hello costs nothing here before credit for it was given."""
    with RawSender(puller.port) as sender:
        sender.hello()
        sender.open(1, ORDERS)
        assert waiting(lambda: puller._streams._new)
        (stream,) = puller._streams._new
        assert waiting(stream.waiting_bytes)
        assert stream.waiting_bytes() == pb.SenderMessage(number=1, hello=pb.Hello(version_min=1, version_max=1, sender="a")).ByteSize()
        polling.until(lambda: sender.of_kind("opened"))


def test_a_first_message_that_is_too_large_for_hello_is_turned_away(puller: PushPuller) -> None:
    with RawSender(puller.port) as sender:
        sender.hello("x" * HELLO_BYTES_MAX)
        code, text = sender.wait_end()
        assert code == grpc.StatusCode.INVALID_ARGUMENT
        assert f"more than {HELLO_BYTES_MAX:,}" in text


def test_streams_that_say_nothing_end_soon_and_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HELLO_S", SHORT_S)
    with closing(PushPuller(LOOPBACK)) as puller:
        silent = [RawSender(puller.port) for _ in range(SENDERS_MAX + 1)]
        for sender in silent:
            assert sender.wait_end()[0] in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE)
            sender.kill()
        monkeypatch.undo()
        puller.want({ORDERS: T0})
        polling = Polling(puller)
        with RawSender(puller.port) as sender:
            sender.hello()
            made_welcome(polling, sender)


def test_no_more_senders_come_than_have_a_window(puller: PushPuller, polling: Polling) -> None:
    senders = []
    for number in range(SENDERS_MAX):
        senders.append(RawSender(puller.port))
        senders[-1].hello(f"node-{number}")
    polling.until(lambda: all(sender.of_kind("welcome") for sender in senders))
    with RawSender(puller.port) as late:
        late.hello("late")
        assert end(polling, late)[0] == grpc.StatusCode.RESOURCE_EXHAUSTED
    for sender in senders:
        sender.kill()


# ---- spans ----------------------------------------------------------------------------------------------------------


def test_entries_and_marks_arrive(polling: Polling, sender: RawSender) -> None:
    sender.entries(1, sent(KEY, 120, b"new", old_value=b"old", start_ts=110, region=7))
    sender.entries(1, sent(KEY, 130, b""))
    sender.resolved(1, 140, entries=2)
    polling.until(polling.pulled)
    assert polling.events == [
        KvEntry(CommitTs(120), 110, KEY, b"new", b"old", 7),
        KvEntry(CommitTs(130), 129, KEY, b"", b""),
        Pulled(ORDERS, CommitTs(140)),
    ]


def test_a_span_that_nobody_wants_is_refused_and_opens_when_it_is_wanted(puller: PushPuller, polling: Polling, sender: RawSender) -> None:
    sender.open(2, ITEMS)
    sender.entries(2, sent(ITEMS.start, 120))
    sender.resolved(2, 130, entries=1)
    polling.until(lambda: sender.of_kind("refused"))
    assert sender.of_kind("refused")[0].reason == pb.SpanRefused.REASON_NOT_WANTED
    puller.want({ORDERS: T0, ITEMS: CommitTs(110)})
    polling.until(lambda: ITEMS in sender.wanted())
    sender.open(3, ITEMS)
    polling.until(lambda: len(sender.of_kind("opened")) == 2)
    sender.resolved(3, 130)
    polling.until(lambda: polling.upto_ts(ITEMS) == 130)
    assert polling.entries() == []


def test_a_range_that_ends_is_reported_and_what_still_comes_of_it_is_dropped(
    puller: PushPuller, polling: Polling, sender: RawSender
) -> None:
    puller.want({ITEMS: T0})
    sender.entries(1, sent(KEY, 120))
    sender.resolved(1, 130, entries=1)
    polling.until(lambda: sender.of_kind("lost"))
    assert sender.of_kind("lost")[0].reason == pb.SpanLost.REASON_NOT_WANTED
    polling.until(lambda: [KeyRange(ended.start, ended.end) for message in sender.of_kind("wanted") for ended in message.ended] == [ORDERS])
    sender.open(2, ITEMS)
    polling.until(lambda: len(sender.of_kind("opened")) == 2)
    assert polling.events == []


def test_a_span_moves_to_the_sender_that_opens_it_and_the_previous_one_gets_a_message(
    puller: PushPuller, polling: Polling, sender: RawSender
) -> None:
    sender.entries(1, sent(KEY, 120))
    sender.resolved(1, 110, entries=0 + 1)
    sender.entries(1, sent(KEY, 130))
    polling.until(lambda: len(polling.entries()) == 2)
    with RawSender(puller.port) as other:
        other.hello("node-2")
        made_welcome(polling, other)
        other.open(1, ORDERS)
        polling.until(lambda: other.of_kind("opened") and sender.of_kind("lost"))
        assert other.of_kind("opened")[0].from_ts == 110
        assert "node-2" in sender.of_kind("lost")[0].text
        sender.entries(1, sent(KEY, 140))
        sender.resolved(1, 150, entries=3)
        other.entries(1, sent(KEY, 120), sent(KEY, 130), sent(KEY, 140))
        other.resolved(1, 145, entries=3)
        polling.until(lambda: polling.upto_ts(ORDERS) == 145)
        assert [entry.commit_ts for entry in polling.entries()] == [120, 130, 120, 130, 140]


def test_a_sender_that_connects_again_goes_on_after_all_that_its_previous_stream_sent(
    puller: PushPuller, polling: Polling, sender: RawSender
) -> None:
    def waiting_bytes() -> int:
        return sum(view.waiting_bytes for view in puller.senders())

    sender.entries(1, sent(KEY, 120))
    assert waiting(waiting_bytes)
    entries = waiting_bytes()
    sender.resolved(1, 130, entries=1)
    assert waiting(lambda: waiting_bytes() > entries), "what is still on its way when the other stream begins is not sent yet"
    with RawSender(puller.port) as again:
        again.hello("node-1")
        made_welcome(polling, again)
        again.open(1, ORDERS)
        polling.until(lambda: again.of_kind("opened"))
        assert again.of_kind("opened")[0].from_ts == 130
        assert end(polling, sender)[0] == grpc.StatusCode.ABORTED


def test_every_sender_has_its_turn_however_much_the_others_send(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sidecar.feeds.push.puller.POLL_BYTES_MAX", 64 << 10)
    with closing(PushPuller(LOOPBACK)) as puller:
        polling = Polling(puller)
        ranges = [rows_of(200 + number) for number in range(8)]
        puller.want(dict.fromkeys(ranges, T0))
        senders = []
        for number, range_ in enumerate(ranges):
            senders.append(sender := RawSender(puller.port))
            sender.hello(f"node-{number}")
            made_welcome(polling, sender)
            sender.open(1, range_)
        polling.until(lambda: all(sender.of_kind("opened") for sender in senders))
        size = 0
        for sender, range_ in zip(senders, ranges, strict=True):
            size += sum(sender.entries(1, sent(range_.start, commit_ts, b"x" * 2000)) for commit_ts in range(200, 210))
        assert waiting(lambda: sum(view.waiting_bytes for view in puller.senders()) == size)
        taken = [event.key for event in puller.poll(timeout_s=0.0) if isinstance(event, KvEntry)]
        assert len(taken) < 80
        assert {*taken[:8]} == {*taken[8:16]} == {range_.start for range_ in ranges}
        for sender in senders:
            sender.kill()


def test_what_a_sender_sent_before_it_died_counts_and_its_span_is_free(puller: PushPuller, polling: Polling, sender: RawSender) -> None:
    sender.entries(1, sent(KEY, 120))
    sender.resolved(1, 130, entries=1)
    sender.finish()
    polling.until(lambda: not puller.senders())
    assert polling.upto_ts(ORDERS) == 130
    assert sender.wait_end()[0] == grpc.StatusCode.OK


def test_a_closed_span_has_no_owner(puller: PushPuller, polling: Polling, sender: RawSender) -> None:
    sender.send(close=pb.CloseSpan(span=1))
    polling.until(lambda: puller.senders()[0].spans == 0)
    assert len(puller.senders()) == 1, "the sender stays"


def test_durable_is_reported_by_span(puller: PushPuller, polling: Polling, sender: RawSender) -> None:
    puller.acknowledge({ORDERS: CommitTs(120), ITEMS: CommitTs(500)})
    polling.until(lambda: sender.of_kind("durable"))
    assert sender.of_kind("durable") == [pb.Durable(spans=[pb.SpanDurable(span=1, ts=120)])]
    with RawSender(puller.port) as other:
        other.hello("node-2")
        made_welcome(polling, other)
        other.open(1, ORDERS)
        polling.until(lambda: other.of_kind("opened"))
        assert other.of_kind("opened")[0].durable_ts == 120


def test_operators_see_the_senders(puller: PushPuller, polling: Polling, sender: RawSender) -> None:
    sender.resolved(1, 130)
    polling.until(polling.pulled)
    (view,) = puller.senders()
    assert (view.sender, view.spans, view.waiting_bytes, view.resolved_ts) == ("node-1", 1, 0, 130)
    assert view.peer.startswith("ipv4:127.0.0.1:")


# ---- what is wrong --------------------------------------------------------------------------------------------------

BROKEN = {
    "a key outside its span": (pb.Entries(span=1, entries=[sent(ITEMS.start, 120)]), "outside the span"),
    "a commit_ts at its start_ts": (pb.Entries(span=1, entries=[sent(KEY, 120, start_ts=120)]), "not above start_ts"),
    "an entry at the span's mark": (pb.Entries(span=1, entries=[sent(KEY, 110)]), "not above the span's own mark 110"),
    "a put without a value": (pb.Entries(span=1, entries=[sent(KEY, 120, b"", op=pb.OP_PUT)]), "a put without a value"),
    "an op of its own": (pb.Entries(span=1, entries=[sent(KEY, 120, op=5)]), "op 5"),
    "a span never opened": (pb.Entries(span=9, entries=[sent(KEY, 120)]), "span 9 was never opened"),
    "a mark that goes back": (pb.Resolved(spans=[pb.SpanResolved(span=1, ts=109)]), "goes back from 110 to 109"),
    "a span number again": (pb.OpenSpan(span=1, start=ORDERS.start, end=ORDERS.end), "span 1 is opened after span 1"),
    "a second hello": (pb.Hello(version_min=1, version_max=1, sender="x"), "is hello"),
}
FIELDS = {pb.Entries: "entries", pb.Resolved: "resolved", pb.OpenSpan: "open", pb.Hello: "hello"}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_sender_stops_the_sidecar_with_its_name(polling: Polling, sender: RawSender, name: str) -> None:
    body, wrong = BROKEN[name]
    sender.resolved(1, 110)
    fields: dict[str, Any] = {FIELDS[type(body)]: body}
    sender.send(**fields)
    error = polling.until_raises()
    assert isinstance(error, MessageUnreadable)
    assert wrong in str(error)
    assert "node-1" in str(error)
    code, text = sender.wait_end()
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert wrong in text
    with pytest.raises(MessageUnreadable):
        polling.puller.poll(timeout_s=0.0)


@pytest.mark.parametrize("data", [b"\xff\xff\xff", pb.SenderMessage(number=3).SerializeToString(), b"\x08\x03\xfa\x01\x00"])
def test_bytes_that_are_no_message_stop_the_sidecar(polling: Polling, sender: RawSender, data: bytes) -> None:
    sender.send_bytes(data)
    error = polling.until_raises()
    assert isinstance(error, MessageUnreadable)
    assert "node-1" in str(error)


@pytest.mark.parametrize("number", [2, 4, 0])
def test_a_message_that_is_missing_or_doubled_ends_the_stream_and_is_sent_again(
    puller: PushPuller, polling: Polling, sender: RawSender, number: int
) -> None:
    sender.send(number=number, resolved=pb.Resolved(spans=[pb.SpanResolved(span=1, ts=200)]))
    code, text = end(polling, sender)
    assert code == grpc.StatusCode.DATA_LOSS
    assert f"message {number} came in the place of 3" in text
    assert polling.events == []
    with RawSender(puller.port) as again:
        again.hello("node-1")
        made_welcome(polling, again)
        again.open(1, ORDERS)
        polling.until(lambda: again.of_kind("opened"))
        assert again.of_kind("opened")[0].from_ts == T0


def test_an_entry_that_got_lost_on_the_senders_way_is_found_at_the_mark(polling: Polling, sender: RawSender) -> None:
    sender.entries(1, sent(KEY, 120))
    sender.send(close=pb.CloseSpan(span=1))
    sender.open(2, KeyRange(ORDERS.start, KEY))
    sender.open(3, KeyRange(KEY, ORDERS.end))
    sender.entries(3, sent(KEY, 120))
    sender.send(resolved=pb.Resolved(spans=[pb.SpanResolved(span=2, ts=130), pb.SpanResolved(span=3, ts=130, entries=2)]))
    assert end(polling, sender)[0] == grpc.StatusCode.DATA_LOSS
    assert polling.pulled() == [], "of no span of that message"


def test_what_came_before_a_broken_message_is_delivered_first(polling: Polling, sender: RawSender) -> None:
    sender.entries(1, sent(KEY, 120))
    sender.entries(1, sent(KEY, 120, start_ts=120))
    assert isinstance(polling.until_raises(), MessageUnreadable)
    assert [entry.commit_ts for entry in polling.entries()] == [120]


# ---- silence --------------------------------------------------------------------------------------------------------


def test_a_range_that_no_sender_opens_is_named(puller: PushPuller) -> None:
    with closing(PushPuller(section(silent_max_s=SHORT_S))) as short:
        polling = Polling(short)
        with RawSender(short.port) as other:
            other.hello(version_min=7, version_max=8)
            end(polling, other)
            short.want({ORDERS: T0})
            error = polling.until_raises()
    assert isinstance(error, FeedLost)
    assert "table 104: no sender has sent it" in str(error)
    assert "versions 7 to 8" in str(error), "how the last stream ended tells why"


def test_a_part_that_no_sender_opens_is_named() -> None:
    with closing(PushPuller(section(silent_max_s=SHORT_S))) as short, RawSender(short.port) as sender:
        polling = Polling(short)
        sender.hello("node-1")
        made_welcome(polling, sender)
        short.want({ORDERS: T0})
        open_at_once(short, sender, KeyRange(KEY, ORDERS.end))
        error = polling.until_raises()
    assert isinstance(error, FeedLost)
    assert f"table 104, of it {ORDERS.start.hex()} to {KEY.hex()}" in str(error)
    assert "senders: node-1" in str(error)


def test_the_sender_that_had_a_range_last_is_named() -> None:
    with closing(PushPuller(section(silent_max_s=SHORT_S))) as short, RawSender(short.port) as sender:
        polling = Polling(short)
        sender.hello("node-1")
        made_welcome(polling, sender)
        short.want({ORDERS: T0})
        open_at_once(short, sender, ORDERS)
        sender.kill()
        assert "sender node-1 at ipv4:127.0.0.1" in str(polling.until_raises())


def test_a_sender_that_says_nothing_is_named_and_one_with_heartbeats_is_not() -> None:
    with closing(PushPuller(section(silent_max_s=SHORT_S))) as short, RawSender(short.port) as silent, RawSender(short.port) as alive:
        polling = Polling(short)
        for sender, name in ((silent, "node-1"), (alive, "node-2")):
            sender.hello(name)
            made_welcome(polling, sender)
        short.want({ORDERS: T0, ITEMS: T0})
        open_at_once(short, silent, ORDERS)
        open_at_once(short, alive, ITEMS)

        def received_until() -> BaseException | None:
            alive.send(heartbeat=pb.Heartbeat())
            try:
                short.poll(timeout_s=0.05)
            except FeedLost as error:
                return error
            return None

        error = next(filter(None, iter(received_until, ())))
    assert "table 104: sender node-1" in str(error)


def test_time_in_which_nobody_polls_is_not_silence() -> None:
    clock = Clock()
    with closing(PushPuller(section(silent_max_s=5.0), clock=clock)) as puller, RawSender(puller.port) as sender:
        polling = Polling(puller)
        puller.want({ORDERS: T0})
        sender.hello("node-1")
        made_welcome(polling, sender)
        sender.open(1, ORDERS)
        polling.until(lambda: sender.of_kind("opened"))
        clock.ahead_s += 1000
        assert puller.poll(timeout_s=0.0) == []
        for _ in range(20):
            clock.ahead_s += 0.9
            try:
                puller.poll(timeout_s=0.0)
            except FeedLost:
                break
        else:
            pytest.fail("silence is never noticed")
        assert clock.ahead_s > 1005


class Clock:
    """The machine's, put forward by the test."""

    ahead_s = 0.0

    def now_s(self) -> float:
        return time.monotonic() + self.ahead_s


def test_a_sender_that_begins_too_late_leaves_a_hole_and_stops_the_sidecar() -> None:
    with closing(PushPuller(section(silent_max_s=SHORT_S))) as short, RawSender(short.port) as sender:
        polling = Polling(short)
        sender.hello("node-1")
        made_welcome(polling, sender)
        short.want({ORDERS: T0})
        open_at_once(short, sender, ORDERS, available_ts=150)
        assert waiting(lambda: sender.of_kind("refused"))
        assert sender.of_kind("refused")[0].reason == pb.SpanRefused.REASON_STARTS_TOO_LATE
        assert sender.of_kind("refused")[0].from_ts == T0
        error = polling.until_raises()
    assert isinstance(error, FeedUnsuitable)
    assert "table 104 is complete up to 100, and sender node-1 can give it from 150 only" in str(error)


def test_a_stream_without_a_hello_is_ended() -> None:
    with closing(PushPuller(section(silent_max_s=SHORT_S))) as short, RawSender(short.port) as mute:
        assert end(Polling(short), mute)[0] == grpc.StatusCode.DEADLINE_EXCEEDED


# ---- bytes ----------------------------------------------------------------------------------------------------------


def test_a_sender_that_sends_without_credit_is_cut_off_before_it_costs_memory(polling: Polling, sender: RawSender) -> None:
    entries = [sent(KEY, 200 + number, b"x" * 100_000) for number in range(5)]
    while sender.ended is None:
        sender.entries(1, *entries)
    assert sender.ended[0] == grpc.StatusCode.RESOURCE_EXHAUSTED
    (view,) = polling.puller.senders()  # type: ignore[attr-defined]  # PushPuller's own
    assert view.waiting_bytes <= LOOPBACK.queue_bytes_max


@pytest.mark.parametrize("senders", [1, 5])
def test_what_waits_of_all_senders_is_bounded_and_credit_comes_back(senders: int) -> None:
    bound = 256 << 10
    with closing(PushPuller(section(queue_bytes_max=bound))) as puller:
        polling = Polling(puller)
        puller.want({ORDERS: T0})
        raws = []
        for number in range(senders):
            raws.append(raw := RawSender(puller.port))
            raw.hello(f"node-{number}")  # at once: who says nothing gives way to others
            made_welcome(polling, raw)
            raw.sent_bytes = 0
        raws[0].open(1, ORDERS)
        batch = raws[0].of_kind("welcome")[0].batch_bytes
        passed_bytes, commit_ts = 0, 200
        raws[0].entries(1)
        for raw in raws[1:]:
            raw.open(1, ITEMS)  # refused, and dropped: bytes they are all the same
        while passed_bytes < 4 * bound:
            for raw in raws:
                while raw.credit() > 0:
                    commit_ts += 1
                    size = raw.entries(1, sent(KEY, commit_ts, b"x" * (batch - 100)))
                    assert size <= batch
                    passed_bytes += size
            assert sum(view.waiting_bytes for view in puller.senders()) <= bound
            before = [raw.credit() for raw in raws]
            polling.until(lambda before=before: any(raw.credit() > was for raw, was in zip(raws, before, strict=True)))  # type: ignore[misc]  # one loop's
        assert all(raw.ended is None for raw in raws)
        for raw in raws:
            raw.kill()


def test_an_entry_larger_than_a_window_passes(puller: PushPuller) -> None:
    with closing(PushPuller(section(queue_bytes_max=64 << 10))) as small, RawSender(small.port) as sender:
        polling = Polling(small)
        small.want({ORDERS: T0})
        sender.hello("node-1")
        made_welcome(polling, sender)
        sender.open(1, ORDERS)
        sender.entries(1, sent(KEY, 120, b"x" * (12 << 20)))
        polling.until(polling.entries)
        polling.until(lambda: sender.of_kind("credit"))
        assert sum(message.bytes for message in sender.of_kind("credit")) > 12 << 20


# ---- who may come ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("push", "wrong"),
    [
        (section(listen="0.0.0.0:0"), "push.listen is 0.0.0.0:0, beyond this machine"),
        (section(tls=Tls(cert_file="/nowhere/c", key_file="/nowhere/k")), "cannot be read"),
        (section(token_file="/nowhere/token"), "cannot be read"),
    ],
)
def test_what_is_unsafe_or_unreadable_is_not_listened_with(push: PushSection, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        PushPuller(push)


def test_a_port_that_another_process_has_is_refused(puller: PushPuller) -> None:
    with pytest.raises(ConfigError, match="cannot be listened on"):
        PushPuller(section(listen=f"127.0.0.1:{puller.port}"))


def test_close_ends_the_streams_the_threads_and_frees_the_port() -> None:
    others = threads_of_pullers()
    puller = PushPuller(LOOPBACK)
    with RawSender(puller.port) as sender:
        sender.hello()
        made_welcome(Polling(puller), sender)
        puller.close()
        assert sender.wait_end()[0] == grpc.StatusCode.UNAVAILABLE
    with socket.create_server(("127.0.0.1", puller.port)):
        pass
    eventually(lambda: threads_of_pullers() <= others)


def threads_of_pullers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("push-")}
