"""Whether senders could connect: an address that this process may listen on, and that is safe to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sidecar.config import PushSection
from sidecar.feeds.kv.checks import checks as of_key_values
from sidecar.process.checks import Check, Options, Told, failed, ok, warning
from sidecar.process.listening import check_listening, port_problem, read_token


def checks(_: Options) -> Sequence[Check[Any]]:
    return of_key_values(lambda it: listens(it.config.push))


def listens(section: PushSection) -> Told[None]:
    check_listening("push", section.listen, section.tls, has_token=bool(read_token("push", section)))
    problem = port_problem(section.listen)
    if problem is None:
        yield ok(f"{section.listen} can be listened on")
    elif section.tls.cert_file or section.token_file:
        hint = "if no sidecar of this changefeed owns it here now, give another port"
        yield warning(f"{section.listen}: {problem}", setting="push.listen", hint=hint)
    else:
        yield failed(
            f"{section.listen}: {problem}", setting="push.listen", hint="give a port that is free, and one of this machine's addresses"
        )
