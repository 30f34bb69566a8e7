"""The rules for listening, for each section that has them, with real servers on loopback. Real TLS: tests/integration."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, get_args

import grpc
import pytest

from sidecar.shared.config import ConsoleSection, ControlSection, PushSection, Tls
from sidecar.shared.errors import ConfigError
from sidecar.shared.process import listening
from sidecar.shared.process.listening import (
    TOKEN_LENGTH_MAX,
    SectionName,
    Settings,
    bind,
    check_listening,
    check_token,
    interceptors,
    is_loopback,
    read_token,
    server_options,
)
from tests.support.eventually import PATIENCE_S
from tests.support.services.tls import Authority, Signed

CERT = Tls(cert_file="c", key_file="k")
MUTUAL = Tls(ca_file="a", cert_file="c", key_file="k")
LOOPBACK = "127.0.0.1:0"
TOKEN = "4a5b6c7d8e9f0a1b"

SETTINGS: dict[SectionName, type[Settings]] = {"control": ControlSection, "push": PushSection, "console": ConsoleSection}
SHAPES = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
"""Of methods; each is the name of one at the server below, which gives back what it gets."""


@pytest.fixture(params=get_args(SectionName))
def section(request: pytest.FixtureRequest) -> SectionName:
    name: SectionName = request.param
    return name


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return str(path)


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    return Authority(tmp_path_factory.mktemp("authority")).sign("sidecar")


@contextmanager
def serving(section: SectionName, settings: Settings, *, services: tuple[str, ...] = ("of.Test",)) -> Iterator[str]:
    """A server with a method of each shape; those of `of.Open` need no token. The address."""
    threads = ThreadPoolExecutor(4)
    server = grpc.server(
        threads,
        interceptors=interceptors(section, settings, open_prefixes=["/of.Open/"]),
        options=server_options(received_bytes_max=1 << 20, sent_bytes_max=1 << 20),
    )
    echoes = {
        "unary_unary": lambda request, context: request,
        "unary_stream": lambda request, context: iter([request]),
        "stream_unary": lambda requests, context: b"".join(requests),
        "stream_stream": lambda requests, context: requests,
    }
    methods = {shape: getattr(grpc, f"{shape}_rpc_method_handler")(echoes[shape]) for shape in SHAPES}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, methods) for service in services])
    try:
        port = bind(section, server, settings)
        server.start()
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()
        threads.shutdown()


def call(channel: grpc.Channel, service: str, shape: str, *, token: str | None = None, wait_for_ready: bool = False) -> bytes:
    metadata = None if token is None else [("authorization", token)]
    asks, _, answers = shape.partition("_")
    sent: Any = b"hello" if asks == "unary" else iter([b"hello"])
    got = getattr(channel, shape)(f"/{service}/{shape}")(sent, metadata=metadata, timeout=PATIENCE_S, wait_for_ready=wait_for_ready)
    return got if answers == "unary" else b"".join(got)


def refused(channel: grpc.Channel, service: str, shape: str, *, token: str | None) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as raised:
        call(channel, service, shape, token=token)
    return raised.value


# ---- addresses -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "localhost:1"])
def test_this_machine_alone_needs_no_protection(section: SectionName, listen: str) -> None:
    assert is_loopback(listen)
    check_listening(section, listen, Tls(), has_token=False)


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "[::]:1", "10.1.2.3:1", "db.example.com:1"])
def test_beyond_this_machine_it_takes_mutual_tls_or_tls_and_a_token(section: SectionName, listen: str) -> None:
    assert not is_loopback(listen)
    for tls, has_token in ((Tls(), False), (Tls(), True), (CERT, False)):
        with pytest.raises(ConfigError, match=rf"^{section}\.listen is .*, beyond this machine") as raised:
            check_listening(section, listen, tls, has_token=has_token)
        assert f"{section}.tls cert_file and key_file" in raised.value.hint
        assert f"{section}.token_file" in raised.value.hint
    check_listening(section, listen, MUTUAL, has_token=False)
    check_listening(section, listen, CERT, has_token=True)


def test_the_refusal_says_what_could_happen(section: SectionName) -> None:
    harm = {"control": "stop the dump", "push": "write into the dump", "console": "read what it shows"}
    with pytest.raises(ConfigError, match=f"anybody who reaches it could {harm[section]}"):
        check_listening(section, "0.0.0.0:1", CERT, has_token=False)
    with pytest.raises(ConfigError, match="a token goes over the network unencrypted"):
        check_listening(section, "0.0.0.0:1", Tls(), has_token=True)


@pytest.mark.parametrize("tls", [Tls(cert_file="c"), Tls(key_file="k"), Tls(ca_file="a")])
def test_half_of_a_certificate_is_refused(section: SectionName, tls: Tls) -> None:
    with pytest.raises(ConfigError, match=rf"^{section}\.tls needs cert_file and key_file together"):
        check_listening(section, "127.0.0.1:1", tls, has_token=False)


@pytest.mark.parametrize("listen", ["8310", ":8310", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"])
def test_an_address_that_is_none_is_refused_with_one_that_is(section: SectionName, listen: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{section}\.listen is '{listen}', expected host:port") as raised:
        check_listening(section, listen, Tls(), has_token=False)
    default = SETTINGS[section]().listen
    assert default in raised.value.hint
    check_listening(section, default, Tls(), has_token=False)


def test_a_port_that_is_taken_is_refused(section: SectionName) -> None:
    with (
        serving(section, SETTINGS[section](listen=LOOPBACK)) as address,
        pytest.raises(ConfigError, match=rf"^{section}\.listen {address} cannot be listened on: Address already in use") as refused,
        serving(section, SETTINGS[section](listen=address)),
    ):
        pass
    assert f"set {section}.listen to a free port" in refused.value.hint
    assert "GRPC" not in str(refused.value)


def test_certificates_that_cannot_be_read_or_used_are_refused(section: SectionName, tmp_path: Path, signed: Signed) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("no certificate")
    for cert_file, wrong in (
        (tmp_path / "absent.pem", "absent.pem cannot be read"),
        (junk, rf"{section}\.listen .* cannot be listened on with the files of {section}.tls"),
    ):
        tls = Tls(cert_file=str(cert_file), key_file=str(signed.key_file))
        with pytest.raises(ConfigError, match=wrong), serving(section, SETTINGS[section](listen=LOOPBACK, tls=tls)):
            pass


# ---- tokens ----------------------------------------------------------------------------------------------------------


def test_a_token_is_its_files_line(section: SectionName, token_file: str) -> None:
    assert read_token(section, SETTINGS[section](token_file=token_file)) == TOKEN
    assert read_token(section, SETTINGS[section]()) == ""


@pytest.mark.parametrize("text", ["", "\n", "zwölf", "two\nlines", " blank"])
def test_a_token_that_nobody_could_send_is_refused(section: SectionName, tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(ConfigError, match=rf"{section}\.token_file {file} is (empty|not one line of ASCII)"):
        interceptors(section, SETTINGS[section](listen=LOOPBACK, token_file=str(file)))


@pytest.mark.parametrize(
    ("length", "wrong"), [(1, "1 characters, expected 16"), (15, "15 characters"), (TOKEN_LENGTH_MAX + 1, "4,097 characters")]
)
def test_a_token_that_can_be_guessed_or_that_no_header_holds_is_refused(
    section: SectionName, tmp_path: Path, length: int, wrong: str
) -> None:
    file = tmp_path / "token"
    file.write_text("x" * length)
    with pytest.raises(ConfigError, match=rf"^the token in {section}\.token_file {file} has {wrong}"):
        read_token(section, SETTINGS[section](token_file=str(file)))


def test_the_longest_token_is_one_that_a_call_can_carry(section: SectionName, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("x" * TOKEN_LENGTH_MAX)
    with (
        serving(section, SETTINGS[section](listen=LOOPBACK, token_file=str(file))) as address,
        grpc.insecure_channel(address) as channel,
    ):
        assert call(channel, "of.Test", "unary_unary", token="Bearer " + "x" * TOKEN_LENGTH_MAX) == b"hello"


@pytest.mark.parametrize("token", ["two\nlines", "zwölf zwölf zwölf", " blank", "x" * (TOKEN_LENGTH_MAX + 1)])
def test_the_caller_checks_a_token_as_the_server_does(token: str) -> None:
    with pytest.raises(ConfigError, match=r"^the token in TICDC_DUMP_TOKEN "):
        check_token(token, "TICDC_DUMP_TOKEN")


def test_a_token_file_that_is_not_there_is_refused(section: SectionName) -> None:
    with pytest.raises(ConfigError, match="/nowhere/token cannot be read"):
        read_token(section, SETTINGS[section](token_file="/nowhere/token"))


def test_a_server_that_would_receive_tokens_unencrypted_is_refused(section: SectionName, token_file: str) -> None:
    with pytest.raises(ConfigError, match="a token goes over the network unencrypted"):
        interceptors(section, SETTINGS[section](listen="0.0.0.0:0", token_file=token_file))


@pytest.mark.parametrize("shape", SHAPES)
def test_with_a_token_a_call_of_any_shape_needs_it(section: SectionName, token_file: str, shape: str) -> None:
    way_out = {"control": "--token-file or TICDC_DUMP_TOKEN", "push": "authorization: Bearer … with that of push.token_file"}
    way_out["console"] = "log in with that of console.token_file"
    with (
        serving(section, SETTINGS[section](listen=LOOPBACK, token_file=token_file)) as address,
        grpc.insecure_channel(address) as channel,
    ):
        assert call(channel, "of.Test", shape, token=f"Bearer {TOKEN}") == b"hello"
        for token in (None, "", TOKEN, f"bearer {TOKEN}", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x"):
            error: Any = refused(channel, "of.Test", shape, token=token)
            assert error.code() == grpc.StatusCode.UNAUTHENTICATED
            assert way_out[section] in error.details().replace("`", "")


def test_two_tokens_are_none(section: SectionName, token_file: str) -> None:
    """Of two, a proxy before the server may have looked at the other one."""
    with (
        serving(section, SETTINGS[section](listen=LOOPBACK, token_file=token_file)) as address,
        grpc.insecure_channel(address) as channel,
    ):
        for tokens in ((f"Bearer {TOKEN}", "Bearer x"), ("Bearer x", f"Bearer {TOKEN}"), (f"Bearer {TOKEN}",) * 2):
            metadata = [("authorization", token) for token in tokens]
            with pytest.raises(grpc.RpcError) as raised:
                channel.unary_unary("/of.Test/unary_unary")(b"", metadata=metadata, timeout=PATIENCE_S)
            error: Any = raised.value
            assert error.code() == grpc.StatusCode.UNAUTHENTICATED


def test_what_is_open_needs_no_token(section: SectionName, token_file: str) -> None:
    settings = SETTINGS[section](listen=LOOPBACK, token_file=token_file)
    with serving(section, settings, services=("of.Test", "of.Open")) as address, grpc.insecure_channel(address) as channel:
        assert call(channel, "of.Open", "unary_unary") == b"hello"
        refused(channel, "of.Test", "unary_unary", token=None)


def test_without_a_token_everybody_may_call(section: SectionName) -> None:
    with serving(section, SETTINGS[section](listen=LOOPBACK)) as address, grpc.insecure_channel(address) as channel:
        assert call(channel, "of.Test", "unary_unary") == b"hello"


# ---- connections -------------------------------------------------------------------------------------------------------------


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def until_closed(connection: socket.socket) -> None:
    """What the server says first is its settings."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass


def test_a_connection_that_says_nothing_is_closed(section: SectionName, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "HANDSHAKE_MS", 200)
    with serving(section, SETTINGS[section](listen=LOOPBACK)) as address, closing(connect(address)) as silent:
        until_closed(silent)


def test_a_connection_that_asks_nothing_is_closed(section: SectionName, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "IDLE_MS", 200)
    with serving(section, SETTINGS[section](listen=LOOPBACK)) as address, closing(connect(address)) as idle:
        idle.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")  # the preface and empty settings
        until_closed(idle)


def test_connections_are_bounded_and_leave_their_place(section: SectionName, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server hears of closed ones a moment later: who comes meanwhile is turned away, and comes again."""
    monkeypatch.setattr(listening, "connections_max", lambda: 3)
    with serving(section, SETTINGS[section](listen=LOOPBACK)) as address:
        with ExitStack() as opened:
            for _ in range(3):
                opened.enter_context(closing(connect(address))).recv(1)
            until_closed(opened.enter_context(closing(connect(address))))
        with grpc.insecure_channel(address) as channel:
            assert call(channel, "of.Test", "unary_unary", wait_for_ready=True) == b"hello"
