"""Messages of TiCDC's own sinks as a Feed: one lane, in the order in which the inbox has them; a position is an entry's number.

    server         bytes between the network and boxes, credit counted down
    conversation   Hello, numbers                                     inlet   into the inbox, then `Kept`, beside the pipeline
    inbox (log)    durable, in one order, for one owner               messages   what the pipeline reads of it

One lane is enough for all partitions: TiCDC sends a resolved mark when the rows that it covers are kept, and those came here before. So no
lane has to join, and none is waited for. (In Kafka partitions have no order between them.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from sidecar.feeds.contract import HIDDEN_LANE
from sidecar.feeds.push.conversation import StreamTerms
from sidecar.feeds.push.inlet import Inlet, SinkView
from sidecar.feeds.push.server import PushServer
from sidecar.ports import NO_READ_ENDS, NOT_KNOWN
from sidecar.shared.config import PushSection
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.log.inbox import WAY_OUT, Inbox
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.nouns import Lane, Message, ReadEnd
from sidecar.shared.ticdc.changefeed import ChangefeedName
from ticdc_dump.v1 import feed_pb2 as pb

LANE = Lane("push/messages")

POLL_MESSAGES_MAX = 5_000
POLL_BYTES_MAX = 2 << 20
"""Of one poll: what the pipeline takes in some tens of milliseconds, so that it comes back to the dump and to operators."""


class MessageFeed:
    """sidecar.ports.Feed; listens from the constructor on, and keeps what comes. `changefeed`: senders of another are refused; None: none
    is. Raises ConfigError where it cannot listen as the settings say, LogTaken and LogBroken as the inbox does."""

    def __init__(self, push: PushSection, folder: Folder, *, changefeed: ChangefeedName | None = None) -> None:
        self._inbox = Inbox(folder)
        self._inbox.open()
        self._server = PushServer(push)
        self.port = self._server.port
        self._inlet = Inlet(
            self._server.streams,
            self._inbox,
            StreamTerms(str(changefeed or ""), push.silent_max_s, pb.FORM_MESSAGES),
            queue_bytes_max=push.queue_bytes_max,
            ahead_bytes_max=push.ahead_bytes_max,
        )
        self._listen = push.listen
        self._at = self._inbox.next
        self._waiting: deque[bytes] = deque()
        self._fresh = False
        self._after_gap = False

    def lanes(self) -> frozenset[Lane]:
        return frozenset({LANE})

    def ends(self) -> Mapping[Lane, int]:
        return {LANE: self._inbox.next}

    def incarnations(self) -> Mapping[Lane, str]:
        """The inbox's own id."""
        return {LANE: self._inbox.id}

    def read_ends(self) -> Mapping[Lane, ReadEnd]:
        """None: an inbox keeps what it took."""
        return NO_READ_ENDS

    def seek(
        self,
        positions: Mapping[Lane, int],
        incarnations: Mapping[Lane, str] = NOT_KNOWN,
        read_ends: Mapping[Lane, ReadEnd] = NO_READ_ENDS,  # noqa: ARG002  # there are none
    ) -> None:
        """Raises FeedUnsuitable for positions of another feed, for another inbox, and for what the inbox has not or no more."""
        if foreign := sorted(positions.keys() - {LANE, HIDDEN_LANE}):
            raise FeedUnsuitable(
                f"the log has a position in lane {foreign[0]}, which is not what TiCDC's own sink brings",
                hint="give this changefeed a log of its own, or a new one",
            )
        if (known := incarnations.get(LANE, "")) not in ("", self._inbox.id):
            raise FeedUnsuitable(
                f"{self._inbox} is another one (its id was {known}, and is {self._inbox.id}): what the other kept is lost",
                hint=WAY_OUT,
            )
        first, end = self._inbox.first, self._inbox.next
        position = positions.get(LANE, first)
        if not first <= position <= end:
            raise FeedUnsuitable(f"{self._inbox} cannot be read from {position}: it has {first} to {end} (exclusive)", hint=WAY_OUT)
        self._at, self._waiting = position, deque()
        self._fresh, self._after_gap = LANE not in positions, bool(positions) and first > 0

    def poll(self, *, timeout_s: float) -> Sequence[Message]:
        """Raises what ended the receiving: LogTaken where another owner writes the inbox, what its storage says."""
        if not self._waiting and (entries := self._inlet.read(self._at, timeout_s=timeout_s)) is not None:
            self._waiting.extend(entries.entries)
        messages: list[Message] = []
        bytes_left = POLL_BYTES_MAX
        while self._waiting and bytes_left > 0 and len(messages) < POLL_MESSAGES_MAX:
            entry = self._waiting.popleft()
            if entry:
                sent = pb.TopicMessage.FromString(entry)
                key, value = (getattr(sent, name) if sent.HasField(name) else None for name in ("key", "value"))
                messages.append(Message(LANE, self._at, key, value, after_gap=self._fresh and self._after_gap))
                self._fresh = False
                bytes_left -= len(entry)
            self._at += 1
        self._inlet.taken(self._at)
        return messages

    def acknowledge(self, positions: Mapping[Lane, int]) -> None:
        if LANE in positions:
            self._inlet.acknowledge(positions[LANE])

    def still_because(self) -> str:
        if not self.senders():
            return f"no TiCDC node is connected to {self._listen}: see whether the changefeed runs, and its sink-uri names this address"
        return "TiCDC's owner has sent no resolved mark: see the changefeed's checkpoint"

    def senders(self) -> list[SinkView]:
        """Those that are connected. From any thread."""
        return self._inlet.senders()

    def close(self) -> None:
        self._server.close()
        self._inlet.close()
