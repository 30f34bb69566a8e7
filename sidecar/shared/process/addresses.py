"""Whether an address can be listened on: the one rule for every setting that is one.

An address that another process has is fine where that is a sidecar of this changefeed: a preflight is also run beside one that runs. So
the check calls the process that has it, in the way of what listens there. Over TLS it cannot: the settings do
not say whose certificates are needed.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from enum import Enum

from sidecar.shared.process.checks import CheckFinding, failed, ok, warning

ANSWER_S = 3.0
"""For who has an address to answer; it is on this machine."""


class AddressHolder(Enum):
    """Who has an address, as a finding calls it."""

    OURS = "a sidecar of this changefeed"
    ANOTHERS = "another changefeed's sidecar"
    NONE_OF_OURS = "no sidecar of this changefeed"


def address(setting: str, listen: str, ask: Callable[[], AddressHolder], *, tls: bool = False, hint: str = "") -> CheckFinding:
    """`hint`: what else than another address would do."""
    error = bind_error(listen)
    if error is None:
        return ok(f"{listen} can be listened on")
    what = f"{listen}: {getattr(error, 'strerror', None) or error}"
    if getattr(error, "errno", None) == errno.EADDRINUSE:
        if tls:
            what = f"{what}; whether by this changefeed's sidecar cannot be checked over TLS from here"
            return warning(what, setting=setting, hint="if no sidecar of this changefeed runs here, give another port")
        holder = ask()
        if holder is AddressHolder.OURS:
            return ok(f"{holder.value} listens on {listen} already")
        what = f"{what}, by {holder.value}"
    return failed(what, setting=setting, hint=f"give a port that is free, and one of this machine's addresses{hint}")


def bind_error(listen: str) -> Exception | None:
    """Why nobody could listen there now."""
    host, _, port = listen.rpartition(":")
    try:
        places = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, place in places:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
    except (OSError, ValueError, OverflowError) as error:
        return error
    return None
