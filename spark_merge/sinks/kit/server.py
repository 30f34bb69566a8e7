"""A server that the driver and the tasks of a sink connect to: the options that such sinks have in common, and how a URI gives them.

A sink declares the rest of its server's options in a subclass. No password is in it, because it travels with tasks (passwords.py).
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias, TypeVar
from urllib.parse import SplitResult, unquote

from sidecar.shared.errors import SinkError
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.kit.options import option, read, text
from spark_merge.sinks.kit.passwords import keep_password, password_of

Hosts: TypeAlias = tuple[tuple[str, int], ...]
S = TypeVar("S", bound="Server")


@dataclass(frozen=True, slots=True)
class Server:
    """`hosts`: host and port of each. `user`: empty without an account. `tls` without `ssl_ca`: by the machine's authorities.
    `SECRET_KIND`: under which the password is kept (sidecar/shared/process/kept_secrets.py); `PASSWORD`: its environment variable."""

    SECRET_KIND: ClassVar[str]
    PASSWORD: ClassVar[str]

    hosts: Hosts
    user: str = ""
    tls: bool = False
    password_file: str = option("password-file", text("a file"), "",
        "A file with the account's [password](SINKS.md#passwords).")  # fmt: skip
    ssl_ca: str = option("ssl-ca", text("a file"), "",
        "Whose certificates are accepted.", shown="the machine's authorities")  # fmt: skip

    def __str__(self) -> str:
        account = f"{self.user}@" if self.user else ""
        return account + ",".join(f"{host}:{port}" for host, port in self.hosts)

    @property
    def host(self) -> str:
        """Of a server that has one."""
        return self.hosts[0][0]

    @property
    def port(self) -> int:
        return self.hosts[0][1]

    def password(self) -> str:
        """Raises SinkError in a process that does not have it."""
        return password_of(self, kind=self.SECRET_KIND, file=self.password_file, variable=self.PASSWORD)


@dataclass(frozen=True, slots=True)
class CertifiedServer(Server):
    """One that may ask for the client's certificate."""

    ssl_cert: str = option("ssl-cert", text("a file"), "", "The client's certificate.")
    ssl_key: str = option("ssl-key", text("a file"), "", "The key of `ssl-cert`.")

    def tls_context(self) -> ssl.SSLContext:
        """Raises SinkError for files that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ssl_ca or None)
            if self.ssl_cert:
                context.load_cert_chain(self.ssl_cert, self.ssl_key or None)
        except OSError as error:
            raise SinkError(
                f"{self}: the files of TLS cannot be used: {error}", hint="check ssl-ca, ssl-cert and ssl-key of the sink's URI"
            ) from error
        return context


def one_host(parts: SplitResult, default_port: int) -> Hosts:
    """The host may be empty. Raises SinkError."""
    try:
        return ((parts.hostname or "", parts.port or default_port),)
    except ValueError as error:
        hint = f"write {parts.scheme}://user@host:{default_port}/…"
        raise SinkError(f"a {parts.scheme}: sink's URI has no usable port", hint=hint) from error


def server_of(declared: type[S], uri: SinkUri, hosts: Hosts, *, user: str = "") -> S:
    """`user`: the account of a URI that names none. The password of the URI is kept in this process and those that it starts. Raises
    SinkError."""
    parts, given = uri.parts, uri.parameters
    tls = parts.scheme.endswith("+ssl") or "ssl-ca" in given
    for name in ("ssl-cert", "ssl-key"):
        if name in given and not tls:
            raise SinkError(f"{name} without ssl-ca", hint=f"add ssl-ca=FILE, or use {parts.scheme}+ssl:")
    server = read(declared, given, hosts=hosts, user=unquote(parts.username or user), tls=tls)
    if parts.password is not None:
        server = replace(server, password_file="")
    if server.user:
        keep_password(server, parts.password, kind=server.SECRET_KIND, file=server.password_file, variable=server.PASSWORD)
    return server
