"""Who makes a call, of what the transport has proved. Over TCP and TLS: tests/integration/test_control_service.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import grpc
import pytest

from sidecar.control.asker import asker_of, token_name
from sidecar.shared.model.messages import Asker

TOKEN = "correct horse battery staple"


@dataclass
class Context:
    """As much of gRPC's as is asked."""

    address: str = "ipv4:10.0.0.7:41000"
    proved: Mapping[str, list[bytes]] = field(default_factory=dict)

    def peer(self) -> str:
        return self.address

    def auth_context(self) -> Mapping[str, list[bytes]]:
        return self.proved


def asker(context: Context, token: str = "") -> Asker:
    return asker_of(cast("grpc.ServicerContext", context), token=token)


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.7:41000", "10.0.0.7:41000"),
        ("ipv6:%5B::1%5D:41000", "[::1]:41000"),
        ("ipv6:[fe80::1%25eth0]:41000", "[fe80::1%eth0]:41000"),
        ("unix:/run/x", "unix:/run/x"),
        ("", ""),
    ],
)
def test_an_address_is_as_people_write_it(peer: str, address: str) -> None:
    assert asker(Context(peer)).address == address


@pytest.mark.parametrize(
    ("proved", "name"),
    [
        ({"x509_common_name": [b"alice"], "x509_subject_alternative_name": [b"host"]}, "certificate alice"),
        ({"x509_subject_alternative_name": [b"host", b"other"]}, "certificate host"),
        ({"x509_common_name": [b""], "x509_subject_alternative_name": [b"host"]}, "certificate host"),
        ({"x509_common_name": [b"\xff"]}, "certificate \ufffd"),
        ({"transport_security_type": [b"ssl"]}, "token 1"),
        ({}, "token 1"),
    ],
)
def test_a_certificate_counts_before_the_token(proved: Mapping[str, list[bytes]], name: str) -> None:
    assert asker(Context(proved=proved), "token 1").name == name


def test_without_either_nobody_is_named() -> None:
    assert asker(Context()).name == "not authenticated"
    assert token_name("") == ""


def test_a_token_is_named_by_a_short_fingerprint_that_is_not_it_and_no_common_hash_of_it() -> None:
    name = token_name(TOKEN)
    assert name == token_name(TOKEN) != token_name(TOKEN + "x")
    kind, _, fingerprint = name.partition(" ")
    assert (kind, len(fingerprint)) == ("token", 8)
    assert not any(word in name for word in TOKEN.split())
