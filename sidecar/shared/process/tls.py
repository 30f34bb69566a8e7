"""gRPC's TLS, made of the PEM files that a `Tls` of the settings or the command line names: for those who listen and those who connect.

    a server        needs certificate and key; with `ca_file` every client needs a certificate of that authority
    a connection    trusts `ca_file`, or else the machine's authorities; certificate and key, both, are for mutual TLS

Whether there must be TLS at all is decided by who uses it.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc

from sidecar.shared.config import Tls
from sidecar.shared.errors import ConfigError

PEM = "the certificate or key"

OWN_CLOCKS, OWN_LIFE = timedelta(days=1), timedelta(days=3650)
"""Of a certificate that a process makes for itself: other machines' clocks may differ by the first, and no process lives for the second."""


def server_credentials(tls: Tls) -> grpc.ServerCredentials:
    """Raises ConfigError for a file that cannot be read."""
    return grpc.ssl_server_credentials(
        [(read_pem(tls.key_file), read_pem(tls.cert_file))],
        root_certificates=read_pem(tls.ca_file) if tls.ca_file else None,
        require_client_auth=bool(tls.ca_file),
    )


def server_context(tls: Tls, *, protocols: Sequence[str]) -> ssl.SSLContext:
    """As `server_credentials`, for a server that is not gRPC's own. `protocols`: by ALPN. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(list(protocols))
    try:
        context.load_cert_chain(tls.cert_file, tls.key_file)
        if tls.ca_file:
            context.load_verify_locations(tls.ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        hint = "make them PEM files for this user that fit each other"
        raise ConfigError(f"the certificates {tls.cert_file}, {tls.key_file} cannot be used: {error}", hint=hint) from error
    return context


def channel_credentials(tls: Tls, section: str = "") -> grpc.ChannelCredentials:
    """`section`: where the files are set, for what an operator reads. Raises ConfigError for a file that cannot be read."""

    def given(name: str) -> bytes | None:
        path: str = getattr(tls, name)
        return read_pem(path, f"{section}.{name}" if section else PEM) if path else None

    return grpc.ssl_channel_credentials(given("ca_file"), given("key_file"), given("cert_file"))


def section_credentials(section: str, tls: Tls) -> grpc.ChannelCredentials | None:
    """For a section of the settings whose `ca_file` makes a connection TLS; None without. Raises ConfigError for files that do not fit."""
    if not tls.ca_file:
        if tls.cert_file or tls.key_file:
            raise ConfigError(f"{section} has a certificate and no ca_file", hint=f"set {section}.ca_file, or none of the three")
        return None
    if bool(tls.cert_file) != bool(tls.key_file):
        raise ConfigError(f"{section} has only one of cert_file and key_file", hint="set both of them for mutual TLS, or none")
    return channel_credentials(tls, section)


def own_certificate(name: str) -> tuple[bytes, bytes]:
    """A new key and a certificate for it, PEM: who is given the certificate trusts it alone, by this name. For a process's life."""
    from cryptography import x509  # half a second that few processes need
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key, subject = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - OWN_CLOCKS)
        .not_valid_after(now + OWN_LIFE)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, SHA256())
    )
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), certificate.public_bytes(Encoding.PEM)


def read_pem(path: str, what: str = PEM) -> bytes:
    """Raises ConfigError."""
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error  # the latter for a NUL in it
        raise ConfigError(f"{what} {path} cannot be read: {why}", hint="make it a PEM file for this user") from error
