"""Certificates for the tests' servers: an authority made on the spot, and what it signs for 127.0.0.1 and localhost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True)
class Signed:
    """PEM files. `pem_file` holds key and certificate together, as Java's PEM key store wants them."""

    cert_file: Path
    key_file: Path
    pem_file: Path


class Authority:
    """Its certificate is `ca_file`. Two authorities do not trust each other."""

    def __init__(self, folder: Path, name: str = "test-ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.ca_file = folder / f"{name}.pem"
        own = _certificate(self._name, self._name, self._key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.ca_file.write_bytes(own.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def sign(self, name: str, *, host: str = "", until: timedelta = timedelta(days=2)) -> Signed:
        """A certificate for servers and clients, with `name` as its common name: of this machine, or of `host` alone; valid from an
        hour before `until`, at the latest from an hour ago. `until`: from now. One of the same name takes its files' place."""
        key = ec.generate_private_key(ec.SECP256R1())
        here: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
        names = x509.SubjectAlternativeName([x509.DNSName(host)] if host else here)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = _certificate(subject, self._name, key, until).add_extension(names, critical=False).sign(self._key, hashes.SHA256())
        cert_pem = certificate.public_bytes(Encoding.PEM)
        key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        signed = Signed(*(self._folder / f"{name}.{suffix}" for suffix in ("crt", "key", "pem")))
        signed.cert_file.write_bytes(cert_pem)
        signed.key_file.write_bytes(key_pem)
        signed.pem_file.write_bytes(key_pem + cert_pem)
        return signed


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, until: timedelta = timedelta(days=2)
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + until) - timedelta(hours=1))
        .not_valid_after(now + until)
    )
