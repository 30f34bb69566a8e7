"""A sender of key-values (feed.proto): what its messages mean, in their order, and what it is answered.

- What is wrong with the data raises MessageUnreadable, ends the stream with INVALID_ARGUMENT, and stops the sidecar: a sender
  that contradicts itself once may have done so before.
- A sender that connects again takes over from its own previous stream, the `predecessor`, which is taken in to its end first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, assert_never

import grpc

from sidecar.feeds.push.conversation import NOT_OURS, Conversation, StreamEnds, StreamTerms
from sidecar.feeds.push.credits import Credits
from sidecar.feeds.push.server import PushStream
from sidecar.feeds.push.spans import Loss, Opened, SpanOpening, SpanRefused, SpanTable, describe
from sidecar.shared.errors import MessageUnreadable
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEvent
from ticdc_dump.v1 import feed_pb2 as pb

WANTED_RANGES_MAX = 10_000
"""Of one message: half a megabyte, for senders with gRPC's usual bound of 4 MB a message."""


class Taken(NamedTuple):
    """What a message gave: events for the caller of `poll`, and what other senders lost and must learn of."""

    events: Sequence[KvEvent] = ()
    losses: Sequence[Loss] = ()


class PushSession(Conversation):
    """One of key-values."""

    def __init__(self, stream: PushStream, spans: SpanTable, credits: Credits, terms: StreamTerms, *, now_s: float) -> None:
        super().__init__(stream, credits, terms, now_s=now_s)
        self.predecessor: PushSession | None = None
        self.finished = False
        self._spans = spans
        self._openings: dict[int, SpanOpening] = {}
        self._last_span = 0

    def waits(self) -> bool:
        if self.predecessor is not None and self.predecessor.finished:
            self.predecessor = None
        return self.predecessor is not None

    # ---- messages -------------------------------------------------------------------------------------------------------

    def take(self, data: bytes, *, now_s: float) -> Taken:
        """The next message. Raises StreamEnds, or MessageUnreadable for a broken sender; then nothing more is to be taken."""
        message = self.next_message(data, now_s=now_s)
        if message is None:
            self.notify_wanted([(wanted.range, wanted.upto_ts()) for wanted in self._spans], [])
            return Taken()
        match message.WhichOneof("body"):
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
            case body:
                raise self.unexpected_message(body)
        return Taken()

    def _known(self, span: int) -> SpanOpening:
        opening = self._openings.get(span)
        if opening is None:
            if 0 < span <= self._last_span:  # refused, and the sender has not received that yet
                return SpanOpening(self.stream.number, self.name, span, KeyRange(b"", b""))
            raise MessageUnreadable(f"{self}: span {span} was never opened", hint=NOT_OURS)
        return opening

    def _resolve(self, spans: Iterable[pb.SpanResolved]) -> Sequence[KvEvent]:
        """All counts are looked at before any mark counts: a stream that ends has changed nothing with its last message."""
        marks = [(self._known(mark.span), mark) for mark in spans]
        for opening, mark in marks:
            if mark.span in self._openings and mark.entries != opening.entries:
                raise StreamEnds(
                    grpc.StatusCode.DATA_LOSS,
                    f"{opening.entries} entries of span {mark.span} came and {mark.entries} were sent: connect and send again",
                )
        return [pulled for opening, mark in marks for pulled in self._spans.resolve(opening, mark.ts)]

    def _open(self, request: pb.OpenSpan, now_s: float) -> Sequence[Loss]:
        if request.span <= self._last_span:
            raise MessageUnreadable(f"{self}: span {request.span} is opened after span {self._last_span}", hint=NOT_OURS)
        self._last_span = request.span
        opening = SpanOpening(self.stream.number, self.name, request.span, KeyRange(request.start, request.end))
        match self._spans.open(opening, available_ts=request.available_ts, now_s=now_s):
            case Opened() as opened:
                self._openings[request.span] = opening
                self.stream.tell(opened=pb.SpanOpened(span=request.span, from_ts=opened.from_ts, durable_ts=opened.durable_ts))
                return opened.losses
            case SpanRefused() as refused:
                reason = pb.SpanRefused.REASON_STARTS_TOO_LATE if refused.from_ts else pb.SpanRefused.REASON_NOT_WANTED
                self.stream.tell(refused=pb.SpanRefused(span=request.span, reason=reason, from_ts=refused.from_ts, text=refused.text))
                return ()
            case never:
                assert_never(never)

    # ---- answers --------------------------------------------------------------------------------------------------------

    def notify_wanted(self, begun: Sequence[tuple[KeyRange, CommitTs]], ended: Sequence[KeyRange]) -> None:
        for at in range(0, max(len(begun), len(ended), 1), WANTED_RANGES_MAX):
            ranges = [pb.WantedRange(start=r.start, end=r.end, from_ts=ts) for r, ts in begun[at : at + WANTED_RANGES_MAX]]
            gone = [pb.UnwantedRange(start=r.start, end=r.end) for r in ended[at : at + WANTED_RANGES_MAX]]
            self.stream.tell(wanted=pb.Wanted(ranges=ranges, ended=gone))

    def notify_lost(self, loss: Loss) -> None:
        start, end = loss.range
        text = f"{describe(loss.range)} " + (f"was opened by sender {loss.to}" if loss.to else "is not wanted any more")
        reason = pb.SpanLost.REASON_MOVED if loss.to else pb.SpanLost.REASON_NOT_WANTED
        self.stream.tell(lost=pb.SpanLost(span=loss.opening.span, start=start, end=end, reason=reason, text=text))

    # ---- ends and views -------------------------------------------------------------------------------------------------

    def finish(self, *, now_s: float) -> None:
        """All that counts has been taken in: what it owned has no owner any more."""
        for opening in self._openings.values():
            self._spans.close(opening, now_s=now_s)
        self.finished = True

    def owned(self) -> list[SpanOpening]:
        return [opening for opening in self._openings.values() if opening.parts]
