"""Whether senders could connect: an address that this process may listen on, and that is safe to. Of messages: whether the changefeed sends
here, and whether what is kept goes on with the log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sidecar.config import PushSection
from sidecar.errors import FeedUnsuitable
from sidecar.feeds.checks import CHANGEFEED, LOG, LogEnd
from sidecar.feeds.encoded.checks import HIDDEN, SETTINGS
from sidecar.feeds.kv.checks import checks as of_key_values
from sidecar.feeds.push.make import check_sends_here
from sidecar.feeds.push.messages import LANE
from sidecar.log.inbox import WAY_OUT, Inbox
from sidecar.log.storage import log_folder
from sidecar.process.checks import Check, Key, Options, Told, failed, ok, warning
from sidecar.process.listening import check_listening, port_problem, read_token
from sidecar.ticdc.changefeed import Changefeed

SENDS_HERE: Key[None] = Key("sender")
INBOX: Key[None] = Key("inbox")
LISTENS: Key[None] = Key("push address")


def checks(_: Options) -> Sequence[Check[Any]]:
    return of_key_values(lambda it: listens(it.config.push))


def listens(section: PushSection) -> Told[None]:
    check_listening("push", section.listen, section.tls, has_token=bool(read_token("push", section)))
    problem = port_problem(section.listen)
    if not section.token_file and not section.tls.ca_file:
        yield warning(
            f"{section.listen}: every user of this machine may write into the dump, or stop the sidecar by one wrong message",
            setting="push.token_file",
            hint="give a token (`openssl rand -hex 32`) that senders bring, or push.tls with ca_file",
        )
    if problem is None:
        yield ok(f"{section.listen} can be listened on")
    elif section.tls.cert_file or section.token_file:
        hint = "if no sidecar of this changefeed owns it here now, give another port"
        yield warning(f"{section.listen}: {problem}", setting="push.listen", hint=hint)
    else:
        yield failed(
            f"{section.listen}: {problem}", setting="push.listen", hint="give a port that is free, and one of this machine's addresses"
        )


def of_sinks(_: Options) -> Sequence[Check[Any]]:
    """`push.form = "messages"`. That marks come back cannot be probed here: senders speak with the owner alone."""
    return (
        SETTINGS,
        HIDDEN,
        Check(SENDS_HERE, lambda it: sends_here(it[CHANGEFEED], it.config.push), "sink-uri (changefeed), push.listen", (CHANGEFEED,)),
        Check(INBOX, lambda it: inbox(it.config.log.uri, it[LOG]), "log.uri", (LOG,)),
        Check(LISTENS, lambda it: listens(it.config.push), "push.listen"),
    )


def sends_here(changefeed: Changefeed, section: PushSection) -> Told[None]:
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


def inbox(uri: str, log: LogEnd | None) -> Told[None]:
    """Nothing is taken over: a sidecar that runs goes on."""
    found = Inbox(log_folder(uri))
    found.look()
    at = log.positions.get(LANE) if log is not None else None
    if at is not None and not found.first <= at <= found.next:
        raise FeedUnsuitable(f"the log goes on at message {at}, and {found} has {found.first} to {found.next} (exclusive)", hint=WAY_OUT)
    yield ok(f"{found} has messages {found.first} to {found.next} (exclusive)" if found.next else "none yet: the first owner makes it")
