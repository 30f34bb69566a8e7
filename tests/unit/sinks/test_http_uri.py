"""An http: sink's URI: what it means, and what is refused by name."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.process.kept_secrets import kept
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.http.client import SECRET_KIND, Receiver, secret_of
from spark_merge.sinks.http.sink import HttpSink
from spark_merge.sinks.http.uri import receiver_of
from spark_merge.sinks.http.writer import BodyLimits
from spark_merge.sinks.registry import leaves, name_of, open_sink


def parsed(text: str, **parameters: str) -> SinkUri:
    return SinkUri(text, urlsplit(text), {name.replace("_", "-"): value for name, value in parameters.items()}, "log-1")


def test_the_url_is_the_receivers_own() -> None:
    assert receiver_of(parsed("https://receiver.example/a/b")) == Receiver("https://receiver.example/a/b", timeout_s=60)
    assert receiver_of(parsed("http://[::1]:8080")).url == "http://[::1]:8080/"
    sink = open_sink("https://receiver.example/orders?body-rows=5&timeout=2m30s&compression=gzip&ca=/ca.pem", log_id="log-1")
    assert isinstance(sink, HttpSink)
    assert sink.receiver == Receiver("https://receiver.example/orders", ca="/ca.pem", timeout_s=150, gzip=True)


def test_defaults_are_below_what_servers_take_unasked() -> None:
    assert BodyLimits().bytes_max < 1 << 20, "nginx's client_max_body_size"


def test_account_and_parameters_are_not_shown() -> None:
    uri = "https://user:hunter2@receiver.example/orders?token-file=/t"
    assert name_of(uri) == "https://receiver.example/orders"
    receiver = receiver_of(parsed("https://us%40er:hun%2Fter2@receiver.example/orders"))
    assert "hun" not in repr(receiver)
    assert (receiver.user, kept(SECRET_KIND, secret_of(receiver))) == ("us@er", "hun/ter2")
    assert "state" in leaves("https://receiver.example/orders")


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http:///x", "no usable host"),
        ("http://host:99999/x", "no usable host"),
        ("http://host/x?ca=/ca.pem", "of TLS"),
        ("https://host/x?key=/k", "without cert"),
        ("https://u:p@host/x?token-file=/t", "a user and a token-file"),
        ("https://u@host/x", "without a password"),
        ("https://host/x?body-bytes=10", "body-bytes"),
        ("https://host/x?body-rows=0", "body-rows"),
        ("https://host/x?body-rows=many", "body-rows"),
        ("https://host/x?timeout=soon", "timeout"),
        ("https://host/x?timeout=0s", "timeout"),
        ("https://host/x?compression=zstd", "compression"),
        ("https://host/x?routes=a.*", "no parameter routes"),
    ],
)
def test_what_makes_no_sense_is_refused(uri: str, message: str) -> None:
    with pytest.raises(SinkError, match=message):
        open_sink(uri, log_id="log-1")
