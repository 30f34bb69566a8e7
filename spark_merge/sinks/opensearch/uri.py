"""`opensearch://user:password@host:9200,host2:9200/?…`, `elasticsearch://…`, and `opensearch+ssl:`, `elasticsearch+ssl:` with TLS by the
machine's authorities, unless `ssl-ca` names others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import unquote

from sidecar.core.model import CommitTs
from sidecar.errors import SinkError
from spark_merge.sinks.kind import SinkUri
from spark_merge.sinks.opensearch.client import PASSWORD, SECRET_KIND, Server
from spark_merge.sinks.opensearch.fields import Forms
from spark_merge.sinks.opensearch.names import PATTERN, Names, checked_pattern
from spark_merge.sinks.parameters import Parameters
from spark_merge.sinks.passwords import keep_password

PORT = 9200
BULK_BYTES, BULK_BYTES_MAX = 5 << 20, 1 << 30
BULK_ROWS, BULK_ROWS_MAX = 5_000, 1_000_000
GC_DELETES = "1h"
TIMEOUT_S, TIMEOUT_S_MAX = 60, 3600
POSITION_INDEX = "ticdc_dump"

PARAMETERS = frozenset(
    {
        "index", "routes", "position-index", "password-file", "ssl-ca", "ssl-cert", "ssl-key", "timeout", "bulk-bytes", "bulk-rows",
        "gc-deletes", "shards", "replicas", "refresh", "decimal", "json", "ddl-done", "ddl-anew",
    }
)  # fmt: skip

Refresh: TypeAlias = Literal["interval", "accept"]

_DURATION = re.compile(r"[1-9]\d{0,6}(?:s|m|h|d)")
_INDEX_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True)
class Settings:
    """`gc_deletes` as the server writes durations. `shards`, `replicas`: of indices that are made; None: what the server's own default or
    template says. `done`, `anew`: commit_ts of DDLs that the operator has seen to, and of those whose tables begin again empty."""

    server: Server
    names: Names
    position_index: str = POSITION_INDEX
    bulk_bytes: int = BULK_BYTES
    bulk_rows: int = BULK_ROWS
    gc_deletes: str = GC_DELETES
    shards: int | None = None
    replicas: int | None = None
    refresh: Refresh = "interval"
    forms: Forms = field(default_factory=Forms)
    done: frozenset[CommitTs] = frozenset()
    anew: frozenset[CommitTs] = frozenset()


def settings_of(uri: SinkUri) -> Settings:
    """Raises SinkError for what cannot be meant; it shows no value of a parameter that may be a secret. A password is kept here, in this
    process and those that it starts."""
    found = Parameters(uri.parameters)
    name_hint, time_hint = "use small letters, digits, _ and -", f"write gc-deletes={GC_DELETES}, 90s, 30m or 2d"
    return Settings(
        server=_server(uri, found),
        names=Names(checked_pattern(found.text("index", PATTERN)), found.routes()),
        position_index=found.matching("position-index", _INDEX_NAME, POSITION_INDEX, expected="index's name", hint=name_hint),
        bulk_bytes=found.number("bulk-bytes", BULK_BYTES, BULK_BYTES_MAX),
        bulk_rows=found.number("bulk-rows", BULK_ROWS, BULK_ROWS_MAX),
        gc_deletes=found.matching("gc-deletes", _DURATION, GC_DELETES, expected="time", hint=time_hint),
        shards=found.number("shards", 1, 1024) if "shards" in uri.parameters else None,
        replicas=found.number("replicas", 1, 100, least=0) if "replicas" in uri.parameters else None,
        refresh=found.one_of("refresh", ("interval", "accept")),
        forms=Forms(decimal=found.one_of("decimal", ("keyword", "scaled_float")), json=found.one_of("json", ("text", "object"))),
        done=found.commit_tss("ddl-done"),
        anew=found.commit_tss("ddl-anew"),
    )


def _server(uri: SinkUri, found: Parameters) -> Server:
    parts = uri.parts
    scheme, _, tls = parts.scheme.partition("+")
    account, _, places = parts.netloc.rpartition("@")
    user, has_password, password = account.partition(":")
    if parts.path not in ("", "/") or not places:
        raise SinkError(
            f"a {parts.scheme}: sink's URI names hosts, and nothing behind them",
            hint=f"write {scheme}://user@host:{PORT}/?…; which index a table is, is said by index=",
        )
    found.check_tls(parts.scheme)
    server = Server(
        hosts=tuple(_host(scheme, place) for place in places.split(",")),
        user=unquote(user),
        password_file="" if has_password else found.text("password-file"),
        tls=bool(tls) or "ssl-ca" in uri.parameters,
        ssl_ca=found.text("ssl-ca"),
        ssl_cert=found.text("ssl-cert"),
        ssl_key=found.text("ssl-key"),
        timeout_s=found.bare_seconds("timeout", TIMEOUT_S, TIMEOUT_S_MAX),
    )
    if server.user:
        told = password if has_password else None
        keep_password(server, told, kind=SECRET_KIND, file=server.password_file, variable=PASSWORD)
    return server


def _host(scheme: str, place: str) -> tuple[str, int]:
    host, colon, port = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    host = host if colon else place
    if not host or (colon and not (port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16)):
        raise SinkError(f"a {scheme}: sink's URI has no usable host and port", hint=f"write {scheme}://user@host:{PORT}/")
    return host, int(port) if colon else PORT
