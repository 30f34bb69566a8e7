"""What every sender's stream is, whatever it sends (proto/ticdc_dump/v1/feed.proto): Hello and Welcome, numbers, credit, signs of life,
and a connection that is made again, with growing pauses, to one address after another.

    what is sent and what an answer means:   send_recording.py   key-values      send_messages.py   TiCDC's messages
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import grpc
import stamina

from ticdc_dump.v1 import feed_pb2 as pb
from ticdc_dump.v1 import feed_pb2_grpc

MESSAGE_BYTES_MAX = 256 << 20
HEARTBEATS_IN_SILENCE = 3
WAIT_FIRST_S, WAIT_MAX_S = 0.1, 5.0
KEEPALIVE_MS = 10_000
STOPS = {
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.UNIMPLEMENTED,
}
"""Connecting again would end in the same way."""

NOTHING_DUE_S = 3600.0


class Refused(Exception):
    """The sidecar ended the stream for good, or will never be satisfied."""


class Again(Exception):
    """The stream did not last: try again, later each time."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the sidecar may be and how it is reached. With `ca_file` over TLS; certificate and key for mutual TLS."""

    addresses: str
    changefeed: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    token: str = ""

    def channel(self, turn: int) -> Any:
        """To the address whose turn it is: only the sidecar that owns the changefeed listens."""
        addresses = self.addresses.split(",")
        address = addresses[turn % len(addresses)]
        options = (("grpc.max_receive_message_length", MESSAGE_BYTES_MAX), ("grpc.keepalive_time_ms", KEEPALIVE_MS))
        if not self.ca_file:
            return grpc.insecure_channel(address, options)
        certificate = Path(self.cert_file).read_bytes() if self.cert_file else None
        key = Path(self.key_file).read_bytes() if self.key_file else None
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(Path(self.ca_file).read_bytes(), key, certificate), options)

    def metadata(self) -> list[tuple[str, str]]:
        return [("authorization", f"Bearer {self.token}")] if self.token else []


class Conversation:
    """One sender under its name, over one stream at a time. `run` returns when `done` is called, or it has nothing left to do.

    Whoever sends says what, in the methods under "what a sender says"; all are called with `changed` held, which senders may share.
    """

    version = 1
    form = pb.FORM_KEY_VALUES

    def __init__(self, name: str, target: Target, *, changed: Condition | None = None) -> None:
        self.name = name
        self._target = target
        self._changed = changed or Condition()
        self._finished = False
        self._call: Any = None
        self._streams = 0
        self._begin()

    def _begin(self) -> None:
        """A stream begins with nothing granted, and numbers from 1."""
        self._streams += 1
        self._number = self._received = self._credit = 0
        self._batch_bytes = 0
        self._heartbeat_s = 1.0
        self._said_s = time.monotonic()
        self._ended = False
        self._begun()

    # ---- what a sender says ---------------------------------------------------------------------------------------------

    def _begun(self) -> None:
        """A stream begins: nothing of what the former one was not told to be safe is."""
        raise NotImplementedError

    def _next(self) -> pb.SenderMessage | None:
        """The next message, or None if there is nothing to say."""
        raise NotImplementedError

    def _due_in_s(self) -> float:
        """When there will be something to say; NOTHING_DUE_S if only an answer can tell."""
        raise NotImplementedError

    def _complete(self) -> bool:
        """Whether it may end."""
        raise NotImplementedError

    def _answered(self, answer: pb.SidecarMessage) -> None:
        """Welcome and Credit have been heard already."""
        raise NotImplementedError

    # ---- the connection -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Raises Refused."""
        while not self._finished:
            for attempt in stamina.retry_context(
                on=Again, attempts=None, timeout=None, wait_initial=WAIT_FIRST_S, wait_max=WAIT_MAX_S, wait_jitter=WAIT_FIRST_S
            ):
                with attempt:
                    self._stream()

    def done(self) -> None:
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def break_connection(self) -> None:
        """As a network would."""
        with self._changed:
            if self._call is not None:
                self._call.cancel()

    def _stream(self) -> None:
        """One connection to its end. Raises Again unless it lasted: then the pauses grow."""
        began_s = time.monotonic()
        with self._changed:
            self._begin()
        with self._target.channel(self._streams) as channel:
            call = feed_pb2_grpc.KvFeedStub(channel).Push(  # type: ignore[no-untyped-call]  # generated without types
                self._messages(), metadata=self._target.metadata()
            )
            with self._changed:
                self._call = call
            try:
                for answer in call:
                    self._receive(answer)
            except grpc.RpcError as error:
                if self._finished:
                    return
                self._report(f"stream ended: {error.code().name}: {error.details()}")
                if error.code() in STOPS:
                    raise Refused(f"{error.code().name}: {error.details()}") from error
            finally:
                with self._changed:
                    self._ended, self._call = True, None
                    self._changed.notify_all()
                call.cancel()
            if not self._finished and time.monotonic() - began_s < WAIT_MAX_S:
                raise Again

    # ---- what is sent ---------------------------------------------------------------------------------------------------

    def _messages(self) -> Iterator[pb.SenderMessage]:
        """gRPC takes from here in a thread of its own, as fast as the network allows; credit is what holds it back."""
        hello = pb.Hello(
            version_min=self.version, version_max=self.version, sender=self.name, changefeed=self._target.changefeed, form=self.form
        )
        stream = self._streams
        yield self._numbered(hello=hello)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._credit > 0 or self._over(stream))
                if self._over(stream):
                    return
                message = self._next()
                if message is None:
                    if self._complete():
                        self._finished = True
                        return
                    quiet_s = self._said_s + self._heartbeat_s - time.monotonic()
                    self._changed.wait(max(min(quiet_s, self._due_in_s()), 0.0))
                    if time.monotonic() - self._said_s >= self._heartbeat_s and self._due_in_s() > 0 and not self._over(stream):
                        message = self._numbered(heartbeat=pb.Heartbeat())
                if message is not None:
                    self._credit -= message.ByteSize()
                    self._said_s = time.monotonic()
            if message is not None:
                yield message

    def _over(self, stream: int) -> bool:
        """A former stream's thread may wake up when the next one is under way."""
        return self._ended or self._finished or stream != self._streams

    def _numbered(self, **body: Any) -> pb.SenderMessage:
        self._number += 1
        return pb.SenderMessage(number=self._number, **body)

    # ---- what is told ---------------------------------------------------------------------------------------------------

    def _receive(self, answer: pb.SidecarMessage) -> None:
        with self._changed:
            self._received += 1
            if answer.number != self._received:
                self._report(f"message {answer.number} came in the place of {self._received}: connecting again")
                self._call.cancel()
                return
            match answer.WhichOneof("body"):
                case "welcome":
                    self._credit += answer.welcome.credit_bytes
                    self._batch_bytes = answer.welcome.batch_bytes
                    self._heartbeat_s = answer.welcome.silent_max_ms / 1000 / HEARTBEATS_IN_SILENCE
                case "credit":
                    self._credit += answer.credit.bytes
                case _:
                    self._answered(answer)
            self._changed.notify_all()

    def _report(self, text: str) -> None:
        sys.stderr.write(f"{self.name}: {text}\n")


def play(senders: Sequence[Conversation]) -> int:
    """Run them all; the exit code: 0, or 1 if one was refused."""
    refusals: list[str] = []

    def run(sender: Conversation) -> None:
        try:
            sender.run()
        except Refused as refused:
            refusals.append(f"{sender.name}: {refused}")

    threads = [Thread(target=run, args=(sender,), name=sender.name, daemon=True) for sender in senders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.stderr.writelines(f"{refusal}\n" for refusal in refusals)
    return bool(refusals)


def parser_of(program: str, description: str, *, folder: str) -> argparse.ArgumentParser:
    """With what every sender is told."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("folder", type=Path, help=folder)
    parser.add_argument("--to", default="127.0.0.1:8312", metavar="HOST:PORT,…", help="push.listen of the sidecars (default: %(default)s)")
    parser.add_argument("--changefeed", default="", metavar="CLUSTER/NAMESPACE/ID", help="as the sidecar's settings name it")
    parser.add_argument("--name", default="recording", help="of this sender; the same after a restart (default: %(default)s)")
    parser.add_argument("--speed", type=float, default=0.0, metavar="X", help="times as fast as recorded (default: as fast as it goes)")
    parser.add_argument("--ca", default="", metavar="FILE", help="authority of the sidecar's certificate: use TLS")
    parser.add_argument("--cert", default="", metavar="FILE", help="own certificate, for mutual TLS")
    parser.add_argument("--key", default="", metavar="FILE", help="its key")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="the token of the sidecar's push.token_file")
    return parser


def options_of(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> tuple[argparse.Namespace, Target, list[str]]:
    """Also where to, and the senders' names. Needs `--senders`."""
    options = parser.parse_args(arguments)
    if options.senders < 1 or options.speed < 0:
        parser.error("--senders is at least 1, and --speed not below 0")
    token = options.token_file.read_text().strip() if options.token_file else ""
    target = Target(options.to, options.changefeed, options.ca, options.cert, options.key, token)
    names = [options.name if options.senders == 1 else f"{options.name}-{number}" for number in range(options.senders)]
    return options, target, names


def run_main(main: Callable[[], int]) -> None:
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
