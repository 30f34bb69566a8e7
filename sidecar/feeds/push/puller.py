"""Key-values pushed by custom sinks in TiCDC's place, as a Puller: senders connect, open spans and send (feed.proto).

    server    bytes between the network and boxes, credit counted down    threads of gRPC and of the streams
    session   one sender's conversation                                   │
    spans     who owns what, what a mark is worth                         │ only where `poll`, `want`, `acknowledge` run
    credits   who may send how much                                       │
    turns     a message of each in turn                                   │
    puller    who has which name, silence, what stops the sidecar         │

Everything that decides runs in `poll`: what has arrived waits as bytes until it is taken, so the order in which messages
count is the order in which they are taken here, one of each sender in turn. Silence is measured in time in which somebody polls:
a sidecar that slept blames no sender.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

import grpc

from sidecar.feeds.push.conversation import StreamEnds, StreamTerms
from sidecar.feeds.push.credits import Credits
from sidecar.feeds.push.server import PushServer
from sidecar.feeds.push.session import PushSession
from sidecar.feeds.push.spans import Loss, SpanPart, SpanTable, WantedSpan, describe
from sidecar.feeds.push.turns import Turns
from sidecar.ports import Clock
from sidecar.shared.config import PushSection
from sidecar.shared.errors import FeedLost, FeedUnsuitable, MessageUnreadable, TicdcDumpError
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.rowcodec.key_values import KeyRange, KvEvent
from sidecar.shared.ticdc.changefeed import ChangefeedName

TAKEN_PART = 4
"""A poll ends at this part of `queue_bytes_max`: meanwhile the senders continue with the rest of their credit."""

POLL_BYTES_MAX = 2 << 20
"""And at this: what is decoded in some tens of milliseconds, so that the pipeline comes back to the dump and to operators."""

AWAY_MIN_S = 1.0
"""Between two polls; longer is time in which nobody was here to hear a sender."""

CHECKS_IN_SILENCE = 4
"""How often silence is looked for in `silent_max_s`: each time all parts are looked at."""

ENDS_REPORTED = 3
"""Of the streams that ended last, in the text of a FeedLost: often they say why nobody is there."""


class _SystemClock:
    def now_s(self) -> float:
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class SenderView:
    """A sender for operators. `resolved_ts`: up to where all that it owns has been delivered; None if it owns nothing."""

    sender: str
    peer: str
    spans: int
    waiting_bytes: int
    resolved_ts: CommitTs | None
    silent_s: float


class PushPuller:
    """sidecar.ports.Puller; listens from the constructor on. `changefeed`: senders of another are refused; None: none is.

    One thread calls all but `senders`. Raises ConfigError where it cannot listen as the settings say.
    """

    def __init__(self, push: PushSection, *, changefeed: ChangefeedName | None = None, clock: Clock | None = None) -> None:
        self._silent_max_s = push.silent_max_s
        self._take_bytes_max = min(push.queue_bytes_max // TAKEN_PART, POLL_BYTES_MAX)
        self._clock = clock or _SystemClock()
        self._terms = StreamTerms(str(changefeed or ""), push.silent_max_s)
        self._lock = Lock()
        self._spans = SpanTable()
        self._credits = Credits(push.queue_bytes_max)
        self._sessions: dict[int, PushSession] = {}
        self._turns = Turns[PushSession](self._credits)
        self._by_name: dict[str, PushSession] = {}
        self._ends: deque[str] = deque(maxlen=ENDS_REPORTED)
        self._failure: TicdcDumpError | None = None
        self._away_s = 0.0
        self._left_s = self._clock.now_s()
        self._check_at_s = self._left_s
        self._server = PushServer(push)
        self._streams = self._server.streams
        self.port = self._server.port

    # ---- the port -------------------------------------------------------------------------------------------------------

    def want(self, wanted: Mapping[KeyRange, CommitTs]) -> None:
        with self._lock:
            changed = self._spans.want(wanted, now_s=self._now_s())
            self._notify_losses(changed.losses)
            if changed.begun or changed.ended:
                begun = [(begun, wanted[begun]) for begun in changed.begun]
                for session in self._sessions.values():
                    if session.name:
                        session.notify_wanted(begun, changed.ended)

    def poll(self, *, timeout_s: float) -> Sequence[KvEvent]:
        """Raises MessageUnreadable for a broken sender; FeedLost, or FeedUnsuitable if what a sender can give begins too late,
        for a range without a sender, or whose sender is silent, for `silent_max_s`. After an error only `close` may follow."""
        now_s = self._clock.now_s()
        self._away_s += away_s if (away_s := now_s - self._left_s) > AWAY_MIN_S else 0.0
        try:
            return self._poll(now_s + timeout_s)
        finally:
            self._left_s = self._clock.now_s()

    def acknowledge(self, durable: Mapping[KeyRange, CommitTs]) -> None:
        with self._lock:
            for opening, ts in self._spans.acknowledge(durable):
                self._sessions[opening.stream].stream.notify_durable(opening.span, ts)

    def close(self) -> None:
        self._server.close()

    def senders(self) -> list[SenderView]:
        """Those that are connected, and those whose last messages wait, by name. From any thread."""
        with self._lock:
            now_s = self._now_s()
            return [_view(session, now_s) for session in self._turns.named()]

    # ---- taking in ------------------------------------------------------------------------------------------------------

    def _poll(self, until_s: float) -> Sequence[KvEvent]:
        while True:
            self._streams.arrived.clear()
            with self._lock:
                events, more = self._take()
                if not events and self._failure is not None:
                    raise self._failure
                if not events and not more:
                    self._check_silence()
            left_s = until_s - self._clock.now_s()
            if events or left_s <= 0:
                return events
            if not more:
                self._streams.arrived.wait(left_s)

    def _take(self) -> tuple[list[KvEvent], bool]:
        """Until nothing waits or it is enough for one poll; whether more may wait."""
        now_s = self._now_s()
        for stream in self._streams.new_streams():
            self._sessions[stream.number] = PushSession(stream, self._spans, self._credits, self._terms, now_s=now_s)
            self._turns.add(self._sessions[stream.number])
        events: list[KvEvent] = []
        for session, data in self._turns.messages(self._take_bytes_max if self._failure is None else 0):
            if data is None:
                if self._by_name.get(session.name) is session:
                    self._ends.append(f"{session}: its connection ended")
                self._finish(session, now_s)
                continue
            events += self._take_one(session, data, now_s)
            if self._failure is not None:
                break
        self._turns.grant()
        return events, self._turns.more

    def _take_one(self, session: PushSession, data: bytes, now_s: float) -> Sequence[KvEvent]:
        greeted = bool(session.name)
        try:
            taken = session.take(data, now_s=now_s)
        except StreamEnds as end:
            self._end(session, end.code, end.text, now_s)
            return ()
        except MessageUnreadable as error:
            self._failure = error
            self._end(session, grpc.StatusCode.INVALID_ARGUMENT, str(error), now_s)
            return ()
        self._notify_losses(taken.losses)
        if not greeted:
            self._succeed(session)
        return taken.events

    def _succeed(self, session: PushSession) -> None:
        """A new stream of a sender's name: the previous one ends, and what arrived of it comes first."""
        previous = self._by_name.get(session.name)
        self._by_name[session.name] = session
        if previous is not None and not previous.finished:
            session.predecessor = previous
            previous.stream.end(grpc.StatusCode.ABORTED, f"a newer stream, from {session.stream.peer}, has the name {session.name}")
            self._credits.close(previous.stream.number, waiting=previous.stream.waiting_bytes())

    def _end(self, session: PushSession, code: grpc.StatusCode, text: str, now_s: float) -> None:
        session.cut(code, text)
        self._ends.append(f"{session}: {text.partition(chr(10))[0]}")
        self._finish(session, now_s)

    def _finish(self, session: PushSession, now_s: float) -> None:
        self._turns.finish(session)
        session.finish(now_s=now_s)
        del self._sessions[session.stream.number]
        if self._by_name.get(session.name) is session:
            del self._by_name[session.name]

    def _notify_losses(self, losses: Iterable[Loss]) -> None:
        for loss in losses:
            self._sessions[loss.opening.stream].notify_lost(loss)

    # ---- silence --------------------------------------------------------------------------------------------------------

    def _now_s(self) -> float:
        """In time in which somebody polls."""
        return self._clock.now_s() - self._away_s

    def _check_silence(self) -> None:
        now_s = self._now_s()
        if now_s < self._check_at_s:
            return
        self._check_at_s = now_s + self._silent_max_s / CHECKS_IN_SILENCE
        for session in [*self._sessions.values()]:
            if not session.name and session.silent_s(now_s) > self._silent_max_s:
                self._end(session, grpc.StatusCode.DEADLINE_EXCEEDED, "no Hello came", now_s)
        for wanted in self._spans:
            for part in wanted.parts:
                if part.owner is None and now_s - part.since_s > self._silent_max_s:
                    raise self._nobody(wanted, part, now_s)
                if part.owner is not None:
                    owner = self._sessions[part.owner.stream]
                    if (silent_s := owner.silent_s(now_s)) > self._silent_max_s:
                        raise FeedLost(
                            f"{describe(wanted.range)}: {owner}, who sends it, has said nothing for {silent_s:.0f} s",
                            hint="see whether that TiCDC node lives and reaches this sidecar; it is taken up again when it does",
                        )

    def _nobody(self, wanted: WantedSpan, part: SpanPart, now_s: float) -> TicdcDumpError:
        which = describe(wanted.range)
        if (part.start, part.end) != wanted.range:
            which += f", of it {part.start.hex()} to {part.end.hex()}"
        if wanted.too_late is not None and wanted.too_late.available_ts > part.upto_ts:
            sender, available_ts = wanted.too_late
            return FeedUnsuitable(
                f"{which} is complete up to {part.upto_ts}, and sender {sender} can give it from {available_ts} only: "
                "what was committed between them is lost",
                hint="move the changefeed's checkpoint back below that ts, or begin with an empty log",
            )
        ends = "; streams that ended last: " + "; ".join(self._ends) if self._ends else ""
        senders = ", ".join(sorted(self._by_name)) or "none"
        return FeedLost(
            f"{which}: no sender has sent it for {now_s - part.since_s:.0f} s (senders: {senders}){ends}",
            hint="see whether the changefeed runs, and whether its custom sinks reach this sidecar's push.listen",
        )


def _view(session: PushSession, now_s: float) -> SenderView:
    owned = session.owned()
    resolved_ts = min((part.upto_ts for opening in owned for part in opening.parts), default=None)
    return SenderView(session.name, session.stream.peer, len(owned), session.stream.waiting_bytes(), resolved_ts, session.silent_s(now_s))
