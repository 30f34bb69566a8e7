"""Whether senders could connect: an address that this process may listen on, and that is safe to. Of messages: whether the changefeed sends
here, and whether what is kept continues the log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import grpc

from sidecar.feeds.checks import CHANGEFEED, LOG, LogEnd
from sidecar.feeds.encoded.checks import HIDDEN, LARGE_ROWS, SETTINGS
from sidecar.feeds.kv.checks import checks as of_key_values
from sidecar.feeds.push.conversation import VERSIONS
from sidecar.feeds.push.make import check_sends_here
from sidecar.feeds.push.messages import LANE
from sidecar.feeds.push.server import PUSH
from sidecar.shared.config import ChangefeedSection, PushSection
from sidecar.shared.errors import FeedUnsuitable
from sidecar.shared.log.inbox import WAY_OUT, Inbox
from sidecar.shared.log.storage import log_folder
from sidecar.shared.process.addresses import AddressHolder, address
from sidecar.shared.process.checks import Check, Checking, CheckOptions, Key, ok, warning
from sidecar.shared.process.listening import check_listening, read_token
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
from ticdc_dump.v1 import feed_pb2 as pb

SENDS_HERE: Key[None] = Key("sender")
INBOX: Key[None] = Key("inbox")
LISTENS: Key[None] = Key("push address")

HELLO_ANSWER_S = 10.0
"""The pipeline's own thread answers a sender of key-values, between what else it does."""


def checks(_: CheckOptions) -> Sequence[Check[Any]]:
    return of_key_values(lambda it: listens(it.config.push, it.config.changefeed))


def listens(section: PushSection, name: ChangefeedSection) -> Checking[None]:
    token = read_token("push", section)
    check_listening("push", section.listen, section.tls, has_token=bool(token))
    if not section.token_file and not section.tls.ca_file:
        yield warning(
            f"{section.listen}: every user of this machine may write into the dump, or stop the sidecar by one wrong message",
            setting="push.token_file",
            hint="give a token (`openssl rand -hex 32`) that senders bring, or push.tls with ca_file",
        )
    changefeed = ChangefeedName(name.cluster, name.namespace, name.id)
    yield address("push.listen", section.listen, partial(_server_of, section, changefeed, token), tls=bool(section.tls.cert_file))


def _server_of(section: PushSection, changefeed: ChangefeedName, token: str) -> AddressHolder:
    """A Hello that names no sender is refused for that alone by a sidecar of this changefeed, and makes no sender."""
    form = pb.FORM_MESSAGES if section.form == "messages" else pb.FORM_KEY_VALUES
    hello = pb.Hello(version_min=VERSIONS[0], version_max=VERSIONS[-1], changefeed=str(changefeed), form=form)
    with grpc.insecure_channel(section.listen, [("grpc.enable_http_proxy", 0)]) as channel:
        push = channel.stream_stream(PUSH, pb.SenderMessage.SerializeToString, pb.SidecarMessage.FromString)
        bearer = [("authorization", f"Bearer {token}")] if token else None
        code = push(iter([pb.SenderMessage(number=1, hello=hello)]), timeout=HELLO_ANSWER_S, metadata=bearer).code()
    match code:
        case grpc.StatusCode.INVALID_ARGUMENT:
            return AddressHolder.OURS
        case grpc.StatusCode.FAILED_PRECONDITION:
            return AddressHolder.ANOTHERS
        case _:
            return AddressHolder.NONE_OF_OURS


def of_sinks(_: CheckOptions) -> Sequence[Check[Any]]:
    """`push.form = "messages"`. That marks come back cannot be probed here: senders speak with the owner alone."""
    return (
        SETTINGS,
        HIDDEN,
        LARGE_ROWS,
        Check(SENDS_HERE, lambda it: sends_here(it[CHANGEFEED], it.config.push), "sink-uri (changefeed), push.listen", (CHANGEFEED,)),
        Check(INBOX, lambda it: inbox(it.config.log.uri, it[LOG]), "log.uri", (LOG,)),
        Check(LISTENS, lambda it: listens(it.config.push, it.config.changefeed), "push.listen"),
    )


def sends_here(changefeed: Changefeed, section: PushSection) -> Checking[None]:
    """By the ports alone: under which names this machine is reached from TiCDC's, only TiCDC's can know."""
    check_sends_here(changefeed)
    port = section.listen.rpartition(":")[2]
    there = changefeed.sink.hosts
    if not any(host.rpartition(":")[2] == port for host in there):
        what = f"the changefeed sends to {', '.join(there)}, and this sidecar listens on {section.listen}"
        hint = "let the sink URI name every sidecar of the changefeed with the port of its push.listen; or see that something forwards it"
        yield warning(what, setting="sink-uri (changefeed), push.listen", hint=hint)
    else:
        yield ok(f"the changefeed sends to {', '.join(there)}")


def inbox(uri: str, log: LogEnd | None) -> Checking[None]:
    """Takes nothing over: a running sidecar continues."""
    kept = Inbox(log_folder(uri))
    kept.look()
    at = log.positions.get(LANE) if log is not None else None
    if at is not None and not kept.first <= at <= kept.next:
        raise FeedUnsuitable(f"the log needs message {at}, and {kept} has {kept.first} to {kept.next} (exclusive)", hint=WAY_OUT)
    yield ok(f"{kept} has messages {kept.first} to {kept.next} (exclusive)" if kept.next else "none yet: the first owner makes it")
