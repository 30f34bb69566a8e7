"""PEM files to gRPC's credentials. Handshakes with them: tests/integration/test_handshakes.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.shared.config import Tls
from sidecar.shared.errors import ConfigError
from sidecar.shared.process.tls import channel_credentials, read_pem, section_credentials, server_credentials
from tests.support.services.tls import Authority


def test_a_pem_file_is_read_as_it_is(tmp_path: Path) -> None:
    signed = Authority(tmp_path).sign("server")
    assert read_pem(str(signed.cert_file)) == signed.cert_file.read_bytes()


@pytest.mark.parametrize("section", ["etcd.tls", "tikv.tls"])
@pytest.mark.parametrize(
    ("tls", "wrong"),
    [
        (Tls(cert_file="c", key_file="k"), "has a certificate and no ca_file"),
        (Tls(key_file="k"), "has a certificate and no ca_file"),
        (Tls(ca_file="a", cert_file="c"), "has only one of cert_file and key_file"),
        (Tls(ca_file="/nowhere/a"), r"\.ca_file /nowhere/a cannot be read: No such file"),
    ],
)
def test_files_of_a_section_that_do_not_fit_are_named_by_their_setting(section: str, tls: Tls, wrong: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{section} ?{wrong}"):
        section_credentials(section, tls)


def test_a_section_without_files_is_plain_text() -> None:
    assert section_credentials("etcd.tls", Tls()) is None


def test_a_connection_of_the_command_line_needs_no_authority_of_its_own() -> None:
    assert channel_credentials(Tls()) is not None


@pytest.mark.parametrize("make", [channel_credentials, server_credentials])
def test_files_that_cannot_be_read_are_reported_by_their_path(make: object) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=r"^the certificate or key /nowhere/k cannot be read"):
        make(Tls(cert_file="/nowhere/c", key_file="/nowhere/k"))
