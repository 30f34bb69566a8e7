"""Area 2: the push feed's server and puller over TCP. Each attempt has a puller of its own, which somebody polls as the pipeline does.

What is wrong with a conversation ends its stream, what is wrong with the data stops the sidecar by the sender's name, and everybody else
is received.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic

import grpc

from sidecar.feeds.push.credits import SENDERS_MAX
from sidecar.feeds.push.puller import PushPuller
from sidecar.feeds.push.server import HELLO_BYTES_MAX, HELLO_S
from sidecar.shared.config import PushSection
from sidecar.shared.model.nouns import CommitTs
from sidecar.shared.ticdc.changefeed import ChangefeedName
from tests.tools.hostile.attempts import Area, Attempt, Fault, Outcome, outcome_of, refuses
from tests.unit.feeds.pushing import BROKEN, CHANGEFEED, KEY, NO_HELLO, ORDERS, Polling, RawSender, sent

TOKEN = "0123456789abcdef-T0KEN-0123456789abcdef"
NAME = ChangefeedName(*CHANGEFEED.split("/"))
T0 = CommitTs(100)
ENDS_S = 30.0
"""Longer than a stream may be silent before its Hello."""
MIB = 1 << 20
BYTES_A_S_MIN = 4 * MIB
"""That loopback takes on a loaded machine: what is large is not there sooner."""
SHARE = 4


@contextmanager
def opened() -> Iterator[Sequence[Attempt]]:
    with tempfile.TemporaryDirectory() as folder:
        token_file = Path(folder) / "token"
        token_file.write_text(TOKEN)
        yield [
            *_of_lists(),
            *_conversations(),
            *_without_token(token_file),
            *_listening(token_file),
            *_floods(),
        ]


@contextmanager
def _pulled(**settings: object) -> Iterator[Polling]:
    push = PushSection(**{"listen": "127.0.0.1:0"} | settings)  # type: ignore[arg-type]  # by name
    with closing(PushPuller(push, changefeed=NAME)) as puller:
        puller.want({ORDERS: T0})
        yield Polling(puller)


def _port(polling: Polling) -> int:
    assert isinstance(polling.puller, PushPuller)
    return polling.puller.port


def _welcomed(polling: Polling, sender: RawSender, name: str = "node-1") -> RawSender:
    sender.hello(name, changefeed=CHANGEFEED)
    polling.until(lambda: sender.of_kind("wanted") or sender.ended)
    if sender.ended is not None:
        raise Fault(Outcome.HANG, f"a sender that does all well was turned away: {sender.ended}")
    return sender


def _opened(polling: Polling, sender: RawSender, name: str = "node-1") -> RawSender:
    _welcomed(polling, sender, name).open(1, ORDERS)
    polling.until(lambda: sender.of_kind("opened"))
    return sender


def _goes_on(polling: Polling) -> Outcome:
    """A sender that does all well is received."""
    with RawSender(_port(polling)) as other:
        _opened(polling, other, "another").entries(1, sent(KEY, 500))
        other.resolved(1, 600, entries=1)
        polling.until(lambda: polling.upto_ts(ORDERS) == 600)
    if [entry.commit_ts for entry in polling.entries()][-1:] != [500]:
        raise Fault(Outcome.ACCEPTED, f"taken: {polling.entries()}")
    return Outcome.REFUSED


def _end(polling: Polling, sender: RawSender, *, sent_bytes: int = 0) -> Outcome:
    """How the stream ended, and that nothing else did."""
    until_s = monotonic() + ENDS_S + sent_bytes / BYTES_A_S_MIN
    polling.until(lambda: sender.ended or monotonic() > until_s)
    if sender.ended is None:
        raise Fault(Outcome.ACCEPTED, "the stream continues")
    code, text = sender.ended
    if TOKEN in text:
        raise Fault(Outcome.LEAK, text)
    if code in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.OK):
        raise Fault(Outcome.FOREIGN, f"{code}: {text}")
    return _goes_on(polling)


# ---- what no sender may say ------------------------------------------------------------------------------------------------


def _of_lists() -> Iterator[Attempt]:
    """All of them without a network: tests/unit/feeds/test_push_server.py; so a share of them is tried here each time."""
    for number, (data, _, wrong) in enumerate(NO_HELLO):
        yield Attempt(f"first message {number}: {wrong}", partial(_first, data), whole=number % SHARE > 0)
    for number, (name, (breaks, _)) in enumerate(BROKEN.items()):
        yield Attempt(f"after Hello: {name}", partial(_broken, breaks), whole=number % SHARE > 0)


# ---- conversations -----------------------------------------------------------------------------------------------------------


def _first(data: bytes) -> Outcome:
    with _pulled() as polling, RawSender(_port(polling)) as sender:
        sender.send_bytes(data)
        return _end(polling, sender, sent_bytes=len(data))


def _broken(breaks: Callable[[RawSender], object]) -> Outcome:
    with _pulled() as polling, RawSender(_port(polling)) as sender:
        breaks(_opened(polling, sender))
        error = polling.until_raises()
        if "node-1" not in str(error):
            raise Fault(Outcome.FOREIGN, f"nobody is named: {error}")
        return outcome_of(error)


def _conversations() -> Iterator[Attempt]:
    for number in (1, 3, 5, 0, (1 << 64) - 1):
        yield Attempt(f"number {number} in the place of 4", partial(_talked, partial(_numbered, number)))
    yield Attempt("a count of too few", partial(_talked, lambda it: it.resolved(1, 130, entries=7)))
    yield Attempt("a count of all", partial(_talked, lambda it: it.resolved(1, 130, entries=(1 << 64) - 1)))
    yield Attempt("a megabyte too much", partial(_talked, _without_credit, queue_bytes_max=1 << 16))
    yield Attempt("a stream that says nothing", _silent, within_s=ENDS_S + 20, whole=True)
    yield Attempt("a stream that goes before Hello", _gone)
    yield Attempt("two of one name", _of_one_name)
    yield Attempt("a mark of a part that another took", _taken_over)
    yield Attempt("a Hello of 10 MiB", partial(_first, b"\0" * (10 * MIB)))
    yield Attempt("a Hello of 250 MiB", partial(_first, b"\0" * (250 * MIB)), within_s=120, whole=True)
    yield Attempt("a Hello of more than a message may have", partial(_first, b"\0" * (257 * MIB)), within_s=120, whole=True)


def _talked(says: Callable[[RawSender], object], **settings: object) -> Outcome:
    with _pulled(**settings) as polling, RawSender(_port(polling)) as sender:
        _opened(polling, sender).entries(1, sent(KEY, 120))
        says(sender)
        return _end(polling, sender)


def _numbered(number: int, sender: RawSender) -> None:
    sender.send(number=number, heartbeat={})


def _without_credit(sender: RawSender) -> None:
    for _ in range(200):
        sender.entries(1, sent(KEY, 121, b"v" * MIB))


def _silent() -> Outcome:
    with _pulled() as polling, RawSender(_port(polling)) as sender:
        return _end(polling, sender)


def _gone() -> Outcome:
    with _pulled() as polling:
        RawSender(_port(polling)).kill()
        return _goes_on(polling)


def _of_one_name() -> Outcome:
    with _pulled() as polling, RawSender(_port(polling)) as first, RawSender(_port(polling)) as second:
        _opened(polling, first)
        _opened(polling, second)
        return _end(polling, first)


def _taken_over() -> Outcome:
    """What the earlier owner still says of it counts for nothing."""
    with _pulled() as polling, RawSender(_port(polling)) as first, RawSender(_port(polling)) as second:
        _opened(polling, first, "first")
        _opened(polling, second, "second")
        first.entries(1, sent(KEY, 300))
        first.resolved(1, 400, entries=1)
        second.resolved(1, 200)
        polling.until(lambda: polling.upto_ts(ORDERS) >= 200)
        if polling.upto_ts(ORDERS) != 200 or polling.entries():
            raise Fault(Outcome.ACCEPTED, f"{polling.events}")
        return Outcome.HARMLESS


# ---- who may send ------------------------------------------------------------------------------------------------------------

TOKENS = ("", " ", "x", TOKEN[:-1], TOKEN + "x", TOKEN.lower(), TOKEN.upper(), f"{TOKEN},{TOKEN}", "0" * len(TOKEN), "x" * 4000)


def _without_token(token_file: Path) -> Iterator[Attempt]:
    for token in TOKENS:
        yield Attempt(f"token {token!r:.40}", partial(_unauthenticated, token_file, token))
    yield Attempt("10 MiB without a token", partial(_unauthenticated, token_file, "", 10 * MIB))


def _unauthenticated(token_file: Path, token: str, bytes: int = 0) -> Outcome:
    with _pulled(token_file=str(token_file)) as polling, RawSender(_port(polling), token=token) as sender:
        sender.send_bytes(b"\0" * bytes) if bytes else sender.hello("node-1", changefeed=CHANGEFEED)
        code, text = sender.wait_end()
        if TOKEN in text:
            raise Fault(Outcome.LEAK, text)
        if code is not grpc.StatusCode.UNAUTHENTICATED:
            raise Fault(Outcome.ACCEPTED, f"{code}: {text}")
        return Outcome.REFUSED


def _listening(token_file: Path) -> Iterator[Attempt]:
    def closed(push: PushSection) -> None:
        PushPuller(push).close()

    for listen in ("0.0.0.0:0", "[::]:0", "10.0.0.1:0", "127.0.0.1", "x", "", ":0"):
        yield refuses(f"listen {listen!r}", partial(closed, PushSection(listen=listen)))
        yield refuses(f"listen {listen!r} with a token", partial(closed, PushSection(listen=listen, token_file=str(token_file))))
    yield refuses("a port that is taken", _taken)
    yield refuses("a token that is not there", lambda: closed(PushSection(listen="127.0.0.1:0", token_file="/nowhere/token")))


def _taken() -> None:
    with _pulled() as polling:
        PushPuller(PushSection(listen=f"127.0.0.1:{_port(polling)}")).close()


# ---- many at once ------------------------------------------------------------------------------------------------------------


def _floods() -> Iterator[Attempt]:
    yield Attempt("33 streams that say nothing", _many_silent, within_s=60.0, whole=True)
    yield Attempt("33 streams with 16 MiB for Hello", _many_large, within_s=120.0, whole=True)
    yield Attempt("600 idle connections", partial(_connections, b""), within_s=90.0, whole=True)
    yield Attempt("600 connections of garbage", partial(_connections, b"\x16\x03\x01garbage\r\n\r\n" * 20), within_s=90.0, whole=True)


def _many_silent() -> Outcome:
    with _pulled() as polling, ExitStack() as streams:
        began_s = monotonic()
        silent = [streams.enter_context(RawSender(_port(polling))) for _ in range(SENDERS_MAX + 1)]
        polling.until(lambda: all(sender.ended for sender in silent))
        if monotonic() - began_s > HELLO_S + ENDS_S:
            raise Fault(Outcome.HANG, f"{monotonic() - began_s:.0f} s")
        return _goes_on(polling)


def _many_large() -> Outcome:
    with _pulled() as polling, ExitStack() as streams:
        large = [streams.enter_context(RawSender(_port(polling))) for _ in range(SENDERS_MAX + 1)]
        for sender in large:
            sender.send_bytes(b"\0" * (16 * MIB + HELLO_BYTES_MAX))
        polling.until(lambda: all(sender.ended for sender in large))
        return _goes_on(polling)


def _connections(said: bytes) -> Outcome:
    with _pulled() as polling, ExitStack() as opened:
        with RawSender(_port(polling)) as before:
            _opened(polling, before, "before")
            for _ in range(600):
                made = opened.enter_context(closing(socket.socket()))
                made.settimeout(5.0)
                try:
                    made.connect(("127.0.0.1", _port(polling)))
                    made.sendall(said)
                except OSError:
                    continue  # sent away
            before.resolved(1, 200)
            polling.until(lambda: polling.upto_ts(ORDERS) == 200)
        opened.close()
        return _goes_on(polling)


AREA = Area("push", 37, opened)
