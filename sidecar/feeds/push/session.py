"""One sender's side of the conversation (feed.proto): what its messages mean, in their order, and what it is answered.

- What is wrong with the data raises MessageUnreadable, ends the stream with INVALID_ARGUMENT, and stops the sidecar: a sender
  that contradicts itself once may have done so before. What is wrong with the conversation (a number or a count that shows a
  message got lost, a version, a name) ends the stream alone: what came before it counts, the rest is sent again.
- A sender that connects again takes over from its own former stream, the `predecessor`, which is taken in to its end first.
- Nothing here waits or knows sockets: messages come as bytes, answers go to the stream's outbox.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, assert_never

import grpc
from google.protobuf.message import DecodeError

from sidecar.core.model import CommitTs
from sidecar.errors import MessageUnreadable, with_hint
from sidecar.feeds.push.credits import Credits
from sidecar.feeds.push.server import Stream
from sidecar.feeds.push.spans import Loss, Opened, Opening, Refused, Spans, describe
from sidecar.rowcodec.key_values import KeyRange, KvEvent
from ticdc_dump.v1 import feed_pb2 as pb

VERSIONS = range(1, 2)
"""Of feed.proto that are spoken here."""

WANTED_RANGES_MAX = 10_000
"""Of one message: half a megabyte, for senders with gRPC's usual bound of 4 MB a message."""

SENDER_NAME_LENGTH_MAX = 255

_NOT_OURS = "use a sender made for this feed.proto (deploy/push)"


class StreamEnds(Exception):
    """This stream ends, and nothing else."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class Terms:
    """What every sender is told or asked at the start. `changefeed` empty: any."""

    changefeed: str
    silent_max_s: float


class Taken(NamedTuple):
    """What a message gave: events for whoever polls, and what other senders are to be told that they lost."""

    events: Sequence[KvEvent] = ()
    losses: Sequence[Loss] = ()


class Session:
    """`name`: the sender's, empty before its Hello. `taken_s`: when a message of it was last taken in."""

    def __init__(self, stream: Stream, spans: Spans, credits: Credits, terms: Terms, *, now_s: float) -> None:
        self.stream = stream
        self.name = ""
        self.predecessor: Session | None = None
        self.taken_s = now_s
        self.finished = False
        self._spans = spans
        self._credits = credits
        self._terms = terms
        self._number = 0
        self._openings: dict[int, Opening] = {}
        self._last_span = 0

    def __str__(self) -> str:
        return f"sender {self.name or '(not named yet)'} at {self.stream.peer}"

    # ---- messages -------------------------------------------------------------------------------------------------------

    def take(self, data: bytes, *, now_s: float) -> Taken:
        """The next message. Raises StreamEnds, or MessageUnreadable for a broken sender; then nothing more is to be taken."""
        self.taken_s = now_s
        try:
            message = pb.SenderMessage.FromString(data)
        except DecodeError as error:
            if not self.name:
                raise StreamEnds(grpc.StatusCode.INVALID_ARGUMENT, with_hint("no SenderMessage", _NOT_OURS)) from error
            raise MessageUnreadable(f"{self}: message {self._number + 1} is no SenderMessage: {error}", hint=_NOT_OURS) from error
        self._number += 1
        if message.number != self._number:
            raise StreamEnds(
                grpc.StatusCode.DATA_LOSS, f"message {message.number} came in the place of {self._number}: connect and send again"
            )
        body = message.WhichOneof("body")
        if not self.name:
            if body != "hello":
                raise StreamEnds(grpc.StatusCode.INVALID_ARGUMENT, f"the first message is {body}, expected hello")
            self._greet(message.hello, len(data))
            return Taken()
        self._credits.taken(self.stream.number, len(data))
        match body:
            case "entries":
                return Taken(self._spans.take(self._known(message.entries.span), message.entries.entries))
            case "resolved":
                return Taken(self._resolve(message.resolved.spans))
            case "open":
                return Taken(losses=self._open(message.open, now_s))
            case "close":
                self._spans.close(self._known(message.close.span), now_s=now_s)
            case "heartbeat":
                pass
            case _:
                raise MessageUnreadable(f"{self}: message {self._number} is {body or 'empty or of a newer version'}", hint=_NOT_OURS)
        return Taken()

    def _greet(self, hello: pb.Hello, bytes: int) -> None:
        common = [version for version in VERSIONS if hello.version_min <= version <= hello.version_max]
        if not common:
            raise StreamEnds(
                grpc.StatusCode.FAILED_PRECONDITION,
                with_hint(
                    f"the sender speaks versions {hello.version_min} to {hello.version_max} of feed.proto, the sidecar "
                    f"{VERSIONS[0]} to {VERSIONS[-1]}",
                    "upgrade the older of the two",
                ),
            )
        if self._terms.changefeed and hello.changefeed != self._terms.changefeed:
            raise StreamEnds(
                grpc.StatusCode.FAILED_PRECONDITION,
                with_hint(
                    f"the sender is of changefeed {hello.changefeed!r}, the sidecar of {self._terms.changefeed!r}",
                    "give the sender the address of its own changefeed's sidecar",
                ),
            )
        if not 0 < len(hello.sender) <= SENDER_NAME_LENGTH_MAX:
            raise StreamEnds(grpc.StatusCode.FAILED_PRECONDITION, "Hello.sender is empty or too long: give the sender a name of its own")
        if not self._credits.join(self.stream.number):
            raise StreamEnds(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many senders: connect again later")
        self.name = hello.sender
        granted = self._credits.grant(self.stream.number)
        self.stream.grant(granted + bytes - 1, tell=False)  # a stream begins with credit for one message, and Hello costs nothing
        self.stream.tell(
            welcome=pb.Welcome(
                version=common[-1],
                credit_bytes=granted,
                batch_bytes=self._credits.batch_bytes,
                silent_max_ms=int(self._terms.silent_max_s * 1000),
            )
        )
        self.tell_wanted([(wanted.range, wanted.upto_ts()) for wanted in self._spans], [])

    def _known(self, span: int) -> Opening:
        opening = self._openings.get(span)
        if opening is None:
            if 0 < span <= self._last_span:  # refused, and the sender had not heard yet
                return Opening(self.stream.number, self.name, span, KeyRange(b"", b""))
            raise MessageUnreadable(f"{self}: span {span} was never opened", hint=_NOT_OURS)
        return opening

    def _resolve(self, spans: Iterable[pb.SpanResolved]) -> Sequence[KvEvent]:
        """All counts are looked at before any mark counts: a stream that ends has changed nothing with its last message."""
        marks = [(self._known(told.span), told) for told in spans]
        for opening, told in marks:
            if told.span in self._openings and told.entries != opening.entries:
                raise StreamEnds(
                    grpc.StatusCode.DATA_LOSS,
                    f"{opening.entries} entries of span {told.span} came and {told.entries} were sent: connect and send again",
                )
        return [pulled for opening, told in marks for pulled in self._spans.resolve(opening, told.ts)]

    def _open(self, asked: pb.OpenSpan, now_s: float) -> Sequence[Loss]:
        if asked.span <= self._last_span:
            raise MessageUnreadable(f"{self}: span {asked.span} is opened after span {self._last_span}", hint=_NOT_OURS)
        self._last_span = asked.span
        opening = Opening(self.stream.number, self.name, asked.span, KeyRange(asked.start, asked.end))
        match self._spans.open(opening, available_ts=asked.available_ts, now_s=now_s):
            case Opened() as opened:
                self._openings[asked.span] = opening
                self.stream.tell(opened=pb.SpanOpened(span=asked.span, from_ts=opened.from_ts, durable_ts=opened.durable_ts))
                return opened.losses
            case Refused() as refused:
                reason = pb.SpanRefused.REASON_STARTS_TOO_LATE if refused.from_ts else pb.SpanRefused.REASON_NOT_WANTED
                self.stream.tell(refused=pb.SpanRefused(span=asked.span, reason=reason, from_ts=refused.from_ts, text=refused.text))
                return ()
            case never:
                assert_never(never)

    # ---- answers --------------------------------------------------------------------------------------------------------

    def tell_wanted(self, begun: Sequence[tuple[KeyRange, CommitTs]], ended: Sequence[KeyRange]) -> None:
        for at in range(0, max(len(begun), len(ended), 1), WANTED_RANGES_MAX):
            ranges = [pb.WantedRange(start=r.start, end=r.end, from_ts=ts) for r, ts in begun[at : at + WANTED_RANGES_MAX]]
            gone = [pb.UnwantedRange(start=r.start, end=r.end) for r in ended[at : at + WANTED_RANGES_MAX]]
            self.stream.tell(wanted=pb.Wanted(ranges=ranges, ended=gone))

    def tell_lost(self, loss: Loss) -> None:
        start, end = loss.range
        text = f"{describe(loss.range)} " + (f"was opened by sender {loss.to}" if loss.to else "is not wanted any more")
        reason = pb.SpanLost.REASON_MOVED if loss.to else pb.SpanLost.REASON_NOT_WANTED
        self.stream.tell(lost=pb.SpanLost(span=loss.opening.span, start=start, end=end, reason=reason, text=text))

    # ---- ends and views -------------------------------------------------------------------------------------------------

    def finish(self, *, now_s: float) -> None:
        """All that counts has been taken in: what it owned has no owner any more."""
        for opening in self._openings.values():
            self._spans.close(opening, now_s=now_s)
        self._credits.leave(self.stream.number)
        self.finished = True

    def owned(self) -> list[Opening]:
        return [opening for opening in self._openings.values() if opening.parts]

    def silent_s(self, now_s: float) -> float:
        """How long it has not said anything. What waits to be taken in, it has said."""
        return 0.0 if self.stream.waiting_bytes() else now_s - self.taken_s
