"""A schema registry by Confluent's HTTP interface, which Confluent's, Karapace, Apicurio and Redpanda have.

    POST /subjects/{subject}/versions   registers a schema, or finds it: the same text has the same id        409: it is not compatible
    POST /subjects/{subject}            finds it (auto-register-schemas=false)                                404: it is not there
    GET  /schemas/ids/{id}              the schema

- What fails in a way that passes (no answer, 408, 429, 5xx) is tried again within OUTAGE_MAX_S, at each of the registry's addresses in
  turn. All else a person must repair. Either is an error of the sink, whose loop tries again.
- An id is requested once in a process: a registry gives a text one id for good.
- Redirects are not followed, proxies of the environment not used. The password never travels with a task (kit/passwords.py), and is in no
  text.
"""

from __future__ import annotations

import os
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle
from typing import Any, TypeVar
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

import stamina
import urllib3
from msgspec import Struct, ValidationError, json
from urllib3.exceptions import HTTPError, LocationValueError, SSLError

from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.process.patience import patience_s
from sidecar.shared.process.printable import printable
from sidecar.shared.process.progress import may_take
from spark_merge.sinks.kafka.client import OUTAGE_MAX_S
from spark_merge.sinks.kit.options import flag, option, text
from spark_merge.sinks.kit.passwords import keep_password, password_of

REGISTRY_TIMEOUT_S = 10.0
"""Of a connection, and of an answer."""

REGISTRY_RETRY_FIRST_S, REGISTRY_RETRY_MAX_S = 0.1, 2.0
SCHEMAS_MAX = 1 << 16
"""Ids, and schemas, that a process keeps."""

SECRET_KIND = "schema_registry"
PASSWORD_VARIABLE = "TICDC_DUMP_SCHEMA_REGISTRY_PASSWORD"

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_PASSES = frozenset({408, 429})
_REASON_CHARS_MAX = 600
_SCHEMA_CHARS_MAX = 2_000
"""Of a schema in an error."""

_COMPATIBILITY = (
    "let its readers follow, then set the subject's compatibility so that it takes the schema (PUT /config/{subject}, at the least NONE);"
    " or delete the subject in the registry, or send the table to another topic. The sink continues automatically"
)


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """TiCDC's option, and Confluent's names for the rest."""

    url: str = option("schema-registry", text("`http://…` or `https://…`, or several with commas, percent-encoded"), "",
        "The registry, by Confluent's interface. Required.")  # fmt: skip
    user_info: str = option("basic-auth-user-info", text("`user:password`"), "",
        "The account at the registry, if not in its URL. A cluster's tasks need `TICDC_DUMP_SCHEMA_REGISTRY_PASSWORD` in their"
        " environment instead.")  # fmt: skip
    password_file: str = option("schema-registry-password-file", text("a file"), "",
        "Its password, on every host.")  # fmt: skip
    ca: str = option("schema-registry-ssl-ca-location", text("a file, PEM"), "",
        "The authority of its certificate.", shown="the machine's authorities")  # fmt: skip
    cert: str = option("schema-registry-ssl-certificate-location", text("a file, PEM"), "", "The sink's certificate there.")
    key: str = option("schema-registry-ssl-key-location", text("a file, PEM"), "", "The key of that certificate.")
    registers: bool = option("auto-register-schemas", flag(), True,
        "`false`: a schema that the registry does not have stops the sink.")  # fmt: skip


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """`spark_merge.codecs.encode.avro.SchemaIds`. `urls`: without account. Picklable."""

    urls: tuple[str, ...]
    user: str = ""
    password_file: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""
    registers: bool = True

    @classmethod
    def of(cls, options: RegistryOptions) -> SchemaRegistry:
        """Keeps the password. Raises ConfigError, SinkError; no text has the URL's account."""
        addresses = _addresses(options.url)
        if not addresses or any(one.scheme not in ("http", "https") or not one.hostname for one in addresses):
            raise ConfigError(
                "schema-registry of a kafka: sink is no URL of a schema registry",
                hint="set schema-registry=http%3A%2F%2Fhost%3A8081: protocol avro needs one",
            )
        user, _, password = options.user_info.partition(":")
        account = next((one for one in addresses if one.username), None)
        if not user and account is not None:
            user, password = unquote(account.username or ""), unquote(account.password or "")
        urls = tuple(urlunsplit((one.scheme, one.netloc.rpartition("@")[2], one.path, "", "")) for one in addresses)
        registry = cls(urls, user, options.password_file, options.ca, options.cert, options.key, options.registers)
        if user:
            account_text, given = registry.account(), quote(password) or None
            keep_password(account_text, given, kind=SECRET_KIND, file=registry.password_file, variable=PASSWORD_VARIABLE)
        return registry

    def __str__(self) -> str:
        return ",".join(self.urls)

    def account(self) -> str:
        """Whose password it is."""
        return f"{self.user}@{self}"

    def id_of(self, subject: str, schema: str) -> int:
        return _id_of(os.getpid(), self, subject, schema)

    def schema(self, schema_id: int) -> str:
        """JSON. Raises SinkError."""
        return _schema(os.getpid(), self, schema_id)

    def headers(self) -> dict[str, str]:
        """Of each request. Raises SinkError for a password that this process does not have."""
        if not self.user:
            return {"Content-Type": _CONTENT_TYPE, "Accept": _CONTENT_TYPE}
        password = password_of(self.account(), kind=SECRET_KIND, file=self.password_file, variable=PASSWORD_VARIABLE)
        account = b64encode(f"{self.user}:{password}".encode()).decode()
        return {"Content-Type": _CONTENT_TYPE, "Accept": _CONTENT_TYPE, "Authorization": f"Basic {account}"}


def _addresses(url: str) -> list[SplitResult]:
    """None where one cannot be split. An error of that has the URL's account in its text."""
    try:
        return [urlsplit(one.strip().rstrip("/")) for one in url.split(",") if one.strip()]
    except ValueError:
        return []


class _SchemaId(Struct):
    id: int


class _SchemaText(Struct):
    schema: str


_Answer = TypeVar("_Answer", _SchemaId, _SchemaText)


class _Refusal(Struct):
    """Of a registry."""

    message: str = ""
    error_code: int = 0


class _Passing(Exception):
    """It may succeed later."""


@lru_cache(SCHEMAS_MAX)
def _id_of(_: int, registry: SchemaRegistry, subject: str, schema: str) -> int:
    path = f"/subjects/{quote(subject, safe='')}{'/versions' if registry.registers else ''}"
    status, answer = _call(registry, "POST", path, {"schema": schema}, f"subject {subject}")
    if status == 409:
        raise SinkError(
            f"schema registry {registry}: subject {subject} does not take the table's schema: {_reason(answer)}",
            hint=_COMPATIBILITY.replace("{subject}", subject),
        )
    if status == 404 and not registry.registers:
        raise SinkError(
            f"schema registry {registry}: subject {subject} does not have the table's schema, and auto-register-schemas is false:"
            f" {_reason(answer)}",
            hint=_register(subject, schema),
        )
    return _decoded(registry, status, answer, _SchemaId, f"subject {subject}").id


@lru_cache(SCHEMAS_MAX)
def _schema(_: int, registry: SchemaRegistry, schema_id: int) -> str:
    what = f"schema {schema_id}"
    status, answer = _call(registry, "GET", f"/schemas/ids/{schema_id}", None, what)
    if status == 404:
        raise SinkError(
            f"schema registry {registry}: it has no schema {schema_id}, by which a record was written",
            hint="name the registry by which the topic was written, and restore what it had",
        )
    return _decoded(registry, status, answer, _SchemaText, what).schema


def _decoded(registry: SchemaRegistry, status: int, answer: bytes, kind: type[_Answer], what: str) -> _Answer:
    if 200 <= status < 300:
        try:
            return json.decode(answer, type=kind)
        except (ValidationError, ValueError) as error:
            raise SinkError(f"schema registry {registry}: {what}: its answer is not as expected: {error}", hint=_hint(404)) from error
    raise SinkError(f"schema registry {registry}: {what}: {status}: {_reason(answer)}", hint=_hint(status))


def _call(registry: SchemaRegistry, method: str, path: str, body: Mapping[str, Any] | None, what: str) -> tuple[int, bytes]:
    """Status and answer, of a request that passed. Raises SinkError."""
    headers, data = registry.headers(), None if body is None else json.encode(body)
    attempts = stamina.retry_context(
        _Passing, attempts=None, timeout=patience_s(OUTAGE_MAX_S), wait_initial=REGISTRY_RETRY_FIRST_S, wait_max=REGISTRY_RETRY_MAX_S
    )
    urls = cycle(registry.urls)
    try:
        for attempt in attempts:
            with attempt, may_take(3 * REGISTRY_TIMEOUT_S):
                return _once(registry, method, next(urls) + path, headers, data)
    except _Passing as error:
        raise SinkError(
            f"schema registry {registry}: {what}: {error}",
            hint="see that the registry is up and can be reached from each host that runs tasks; the sink continues automatically",
        ) from error
    raise AssertionError("it is tried until it is given up")


def _once(registry: SchemaRegistry, method: str, url: str, headers: Mapping[str, str], data: bytes | None) -> tuple[int, bytes]:
    try:
        answer = _pool(os.getpid(), registry).request(method, url, body=data, headers=headers, retries=False, redirect=False)
    except LocationValueError as error:
        raise SinkError(f"schema registry {registry} is no URL: {error}", hint="set schema-registry to http://host:port") from error
    except SSLError as error:
        if isinstance(error.args[0] if error.args else None, ssl.SSLCertVerificationError):
            raise SinkError(f"schema registry {registry}: {error}", hint=_TLS) from error
        raise _Passing(_one_line(str(error))) from error
    except HTTPError as error:
        raise _Passing(_one_line(f"no answer: {error}")) from error
    if answer.status in _PASSES or answer.status >= 500:
        raise _Passing(f"{answer.status}: {_reason(answer.data)}")
    return answer.status, answer.data


@lru_cache(16)
def _pool(_: int, registry: SchemaRegistry) -> urllib3.PoolManager:
    """Of this process."""
    timeout = urllib3.Timeout(connect=REGISTRY_TIMEOUT_S, read=REGISTRY_TIMEOUT_S)
    if not any(url.startswith("https:") for url in registry.urls):
        return urllib3.PoolManager(timeout=timeout)
    try:
        context = ssl.create_default_context(cafile=registry.ca or None)
        if registry.cert:
            context.load_cert_chain(registry.cert, registry.key or None)
    except (OSError, ValueError) as error:
        raise SinkError(f"schema registry {registry}: the files of TLS cannot be used: {error}", hint=_TLS) from error
    return urllib3.PoolManager(timeout=timeout, ssl_context=context)


def _reason(answer: bytes) -> str:
    try:
        refusal = json.decode(answer, type=_Refusal)
    except (ValidationError, ValueError):
        return _one_line(answer.decode(errors="replace"))
    code = f" ({refusal.error_code})" if refusal.error_code else ""
    return _one_line(refusal.message or answer.decode(errors="replace")) + code


def _register(subject: str, schema: str) -> str:
    if len(schema) <= _SCHEMA_CHARS_MAX:
        return f"register it: {schema}"
    return (
        f"set auto-register-schemas=true once, with an account that may write to {subject}: the sink registers it. It has {len(schema)}"
        f" characters, and begins with: {schema[:_SCHEMA_CHARS_MAX]}…"
    )


def _one_line(given: str) -> str:
    line = " ".join(printable(given).split())
    return line if len(line) <= _REASON_CHARS_MAX else line[:_REASON_CHARS_MAX] + "…"


_TLS = (
    "name the authority that signed the registry's certificate by schema-registry-ssl-ca-location, and check"
    " schema-registry-ssl-certificate-location and schema-registry-ssl-key-location"
)


def _hint(status: int) -> str:
    if status in (401, 403):
        return "check basic-auth-user-info, or schema-registry-password-file, and what the registry allows this account"
    if status == 422:
        return "report this: the registry does not accept the schema that was made of the table"
    return "name the address of a schema registry with Confluent's interface by schema-registry (of Apicurio: …/apis/ccompat/v7)"
