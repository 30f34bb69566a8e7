"""Addresses on loopback, free and taken. Real holders: tests/unit/feeds/test_push_checks.py, tests/integration/test_preflight.py."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from sidecar.shared.process.addresses import AddressHolder, address
from sidecar.shared.process.checks import CheckStatus


def nobody_asks() -> AddressHolder:
    raise AssertionError("there is nobody to ask")


def taken() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_a_free_address_can_be_listened_on() -> None:
    finding = address("control.listen", "127.0.0.1:0", nobody_asks)
    assert (finding.status, finding.setting) == (CheckStatus.OK, "")


@pytest.mark.parametrize(
    ("holder", "status", "what"),
    [
        (AddressHolder.OURS, CheckStatus.OK, "a sidecar of this changefeed listens on {listen} already"),
        (AddressHolder.ANOTHERS, CheckStatus.FAILED, "{listen}: Address already in use, by another changefeed's sidecar"),
        (AddressHolder.NONE_OF_OURS, CheckStatus.FAILED, "{listen}: Address already in use, by no sidecar of this changefeed"),
    ],
)
def test_a_taken_address_is_judged_by_who_has_it(holder: AddressHolder, status: CheckStatus, what: str) -> None:
    with closing(taken()) as other:
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        finding = address("push.listen", listen, lambda: holder, hint=", or none")
    assert (finding.status, finding.what) == (status, what.format(listen=listen))
    assert (finding.setting == "push.listen" and finding.hint.endswith(", or none")) == (status is CheckStatus.FAILED)


def test_who_speaks_tls_is_not_queried() -> None:
    with closing(taken()) as other:
        finding = address("push.listen", f"127.0.0.1:{other.getsockname()[1]}", nobody_asks, tls=True)
    assert (finding.status, finding.setting) == (CheckStatus.WARNING, "push.listen")


@pytest.mark.parametrize("listen", ["192.0.2.1:8310", "no-such-host.invalid:8310"])
@pytest.mark.parametrize("tls", [True, False])
def test_an_address_that_is_not_this_machine_s_has_failed_whoever_answers_there(listen: str, *, tls: bool) -> None:
    finding = address("control.listen", listen, nobody_asks, tls=tls)
    assert finding.status is CheckStatus.FAILED
    assert finding.what.startswith(f"{listen}: ")
