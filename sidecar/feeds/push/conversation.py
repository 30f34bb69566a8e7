"""What every sender's stream begins with, whatever it sends: Hello and Welcome, and messages by number (feed.proto).

What is wrong with the conversation (a number that shows a message got lost, a version, a name) ends the stream alone: what came before
it counts, the rest is sent again. Nothing here waits or knows sockets: messages come as bytes, answers go to the stream's outbox.
"""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError

from sidecar.feeds.push.credits import Credits
from sidecar.feeds.push.server import PushStream
from sidecar.shared.errors import MessageUnreadable, with_hint
from ticdc_dump.v1 import feed_pb2 as pb

VERSIONS = range(1, 3)
"""Of feed.proto that are spoken here."""

SENDER_NAME_LENGTH_MAX = 255

NOT_OURS = "use a sender made for this feed.proto (deploy/push)"

_FORMS = {pb.FORM_KEY_VALUES: "key-values", pb.FORM_MESSAGES: "messages"}
"""As `push.form` calls them."""


class StreamEnds(Exception):
    """This stream ends, and nothing else."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class StreamTerms:
    """What every sender receives, or must name, at the start. `changefeed` empty: any."""

    changefeed: str
    silent_max_s: float
    form: pb.Form = pb.FORM_KEY_VALUES


class Conversation:
    """`name`: the sender's, empty before its Hello. `taken_s`: when a message of it was last taken in. `number`: that message's."""

    def __init__(self, stream: PushStream, credits: Credits, terms: StreamTerms, *, now_s: float) -> None:
        self.stream = stream
        self.name = ""
        self.taken_s = now_s
        self.number = 0
        self._credits = credits
        self._terms = terms

    def __str__(self) -> str:
        return f"sender {self.name or '(not named yet)'} at {self.stream.peer}"

    def next_message(self, data: bytes, *, now_s: float) -> pb.SenderMessage | None:
        """The next message; None for its Hello, which is answered. Raises StreamEnds, or MessageUnreadable for what no named sender may
        say; then nothing more is to be taken."""
        self.taken_s = now_s
        try:
            message: pb.SenderMessage = pb.SenderMessage.FromString(data)
        except DecodeError as error:
            if not self.name:
                raise StreamEnds(grpc.StatusCode.INVALID_ARGUMENT, with_hint("no SenderMessage", NOT_OURS)) from error
            raise MessageUnreadable(f"{self}: message {self.number + 1} is no SenderMessage: {error}", hint=NOT_OURS) from error
        self.number += 1
        if message.number != self.number:
            raise StreamEnds(
                grpc.StatusCode.DATA_LOSS, f"message {message.number} came in the place of {self.number}: connect and send again"
            )
        if self.name:
            self._credits.taken(self.stream.number, len(data))
            return message
        if (body := message.WhichOneof("body")) != "hello":
            raise StreamEnds(grpc.StatusCode.INVALID_ARGUMENT, f"the first message is {body}, expected hello")
        self._greet(message.hello, len(data))
        return None

    def waits(self) -> bool:
        """Whether its turn is another's still."""
        return False

    def cut(self, code: grpc.StatusCode, text: str) -> None:
        """Nothing more of it is read, nor what waits."""
        self.stream.end(code, text)
        self.stream.discard()

    def unexpected_message(self, body: str | None) -> MessageUnreadable:
        return MessageUnreadable(f"{self}: message {self.number} is {body or 'empty or of a newer version'}", hint=NOT_OURS)

    def silent_s(self, now_s: float) -> float:
        """How long it has not said anything. What waits to be taken in, it has said."""
        return 0.0 if self.stream.waiting_bytes() else now_s - self.taken_s

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
        if hello.form != self._terms.form:
            sends, takes = _FORMS.get(hello.form, f"form {hello.form}"), _FORMS[self._terms.form]
            raise StreamEnds(
                grpc.StatusCode.FAILED_PRECONDITION,
                with_hint(f"the sender sends {sends}, the sidecar takes {takes}", "set push.form to what the sender sends (deploy/push)"),
            )
        if self._terms.changefeed and hello.changefeed != self._terms.changefeed:
            raise StreamEnds(
                grpc.StatusCode.FAILED_PRECONDITION,
                with_hint(
                    f"the sender is of changefeed {hello.changefeed!r}, the sidecar of {self._terms.changefeed!r}",
                    "give the sender the address of its own changefeed's sidecar",
                ),
            )
        # Last of the refusals, and alone with its code: a Hello without a name asks whose sidecar this is, and makes no sender (checks.py).
        if not 0 < len(hello.sender) <= SENDER_NAME_LENGTH_MAX:
            raise StreamEnds(grpc.StatusCode.INVALID_ARGUMENT, "Hello.sender is empty or too long: give the sender a name of its own")
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
