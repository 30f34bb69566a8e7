"""Who gets through a handshake with the two servers that we have, the control service and the push feed: real TLS, real sockets.

A client that the server refuses and a server that the client refuses are the same to whoever asks: no answer, and nothing was asked.
"""

from __future__ import annotations

import socket
import ssl
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Literal

import grpc
import pytest

from sidecar.feeds.push.puller import PushPuller
from sidecar.shared.config import ControlSection, PushSection, Tls
from sidecar.shared.errors import ConfigError
from tests.support.services.tls import Authority, Signed
from tests.unit.control.serving import Owner, Serving
from tests.unit.feeds.pushing import Polling, RawSender
from ticdc_dump.v1 import control_pb2 as pb
from ticdc_dump.v1 import control_pb2_grpc

Server = Literal["control", "push"]
ANSWER_S = 300.0
REFUSED_BY_SERVER = ("UNEXPECTED_EOF_WHILE_READING", "TLSV1_ALERT_PROTOCOL_VERSION")
EXPIRED = timedelta(minutes=-1)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "stranger")


def files(signed: Signed, authority: Authority | None = None) -> Tls:
    return Tls(ca_file=str(authority.ca_file) if authority else "", cert_file=str(signed.cert_file), key_file=str(signed.key_file))


class Listening:
    """One of the servers. `answers`: whether a call over this channel comes through."""

    def __init__(self, port: int, polling: Polling | None) -> None:
        self.port, self._polling = port, polling

    def answers(self, channel: grpc.Channel) -> bool:
        if self._polling is None:
            try:
                query = control_pb2_grpc.ControlStub(channel).Query  # type: ignore[no-untyped-call]  # generated without types
                return bool(query(pb.DumpRequest(changefeed=pb.Changefeed(id="cf")), timeout=ANSWER_S).owner)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
                return False
        with RawSender(self.port, channel=channel) as sender:
            sender.hello()
            self._polling.until(lambda: sender.of_kind("welcome") or sender.ended)
            assert sender.ended is None or sender.ended[0] is grpc.StatusCode.UNAVAILABLE
            return sender.ended is None


@contextmanager
def listening(server: Server, tls: Tls) -> Iterator[Listening]:
    if server == "push":
        with closing(PushPuller(PushSection(listen="127.0.0.1:0", tls=tls))) as puller:
            yield Listening(puller.port, Polling(puller))
        return
    with Owner() as owner, Serving(owner.served(), ControlSection(listen="127.0.0.1:0", tls=tls)) as serving:
        yield Listening(serving.server.port, None)


@pytest.fixture(params=["control", "push"])
def server(request: pytest.FixtureRequest) -> Server:
    param: Server = request.param
    return param


def channel(port: int, trusted: Authority, own: Signed | None = None) -> grpc.Channel:
    pair = (own.key_file.read_bytes(), own.cert_file.read_bytes()) if own else (None, None)
    credentials = grpc.ssl_channel_credentials(trusted.ca_file.read_bytes(), *pair)
    return grpc.secure_channel(f"127.0.0.1:{port}", credentials, options=[("grpc.use_local_subchannel_pool", 1)])


def test_with_mutual_tls_a_certificate_of_the_authority_comes_through_and_no_other(
    server: Server, authority: Authority, stranger: Authority
) -> None:
    with listening(server, files(authority.sign(f"{server}-server"), authority)) as result:
        for own, through in (
            (authority.sign("operator"), True),
            (authority.sign("elsewhere", host="elsewhere.example"), True),  # a client is known by its authority, not by where it is
            (None, False),
            (stranger.sign("operator"), False),
            (authority.sign("late", until=EXPIRED), False),
        ):
            with channel(result.port, authority, own) as asking:
                assert result.answers(asking) is through, own
        with grpc.insecure_channel(f"127.0.0.1:{result.port}") as plain:
            assert not result.answers(plain)
        with channel(result.port, authority, authority.sign("operator")) as asking:
            assert result.answers(asking), "those that were refused leave the server as it was"


def test_a_client_takes_the_server_only_by_its_authority_its_time_and_its_name(
    server: Server, authority: Authority, stranger: Authority
) -> None:
    for signed, through in (
        (authority.sign("server"), True),
        (stranger.sign("server"), False),
        (authority.sign("late-server", until=EXPIRED), False),
        (authority.sign("other-server", host="elsewhere.example"), False),
    ):
        with listening(server, files(signed)) as result, channel(result.port, authority) as asking:
            assert result.answers(asking) is through


@pytest.mark.parametrize(("version", "through"), [("TLSv1", False), ("TLSv1_1", False), ("TLSv1_2", True), ("TLSv1_3", True)])
def test_old_versions_of_tls_are_refused(server: Server, authority: Authority, version: str, through: bool) -> None:
    with warnings.catch_warnings(), listening(server, files(authority.sign(f"{server}-server"))) as result:
        warnings.simplefilter("ignore", DeprecationWarning)  # the versions are old: that is asked here
        context = ssl.create_default_context(cafile=str(authority.ca_file))
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion[version]
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.set_alpn_protocols(["h2"])
        assert _handshake(context, result.port) == (version.replace("_", ".") if through else None)


def _handshake(context: ssl.SSLContext, port: int) -> str | None:
    """The version agreed on; None where the server ends the connection instead."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as secure:
                return secure.version()
        except ssl.SSLError as error:
            if error.reason in REFUSED_BY_SERVER:
                return None
            raise


def test_certificates_that_fit_no_key_are_refused_at_the_start(server: Server, authority: Authority, tmp_path: Path) -> None:
    one, other = authority.sign("one"), authority.sign("other")
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
    for tls in (
        Tls(cert_file=str(one.cert_file), key_file=str(other.key_file)),
        Tls(cert_file=str(garbage), key_file=str(one.key_file)),
        Tls(cert_file=str(one.key_file), key_file=str(one.key_file)),
    ):
        with pytest.raises(ConfigError, match=rf"^{server}\.listen 127\.0\.0\.1:0 cannot be listened on"), listening(server, tls):
            pass
