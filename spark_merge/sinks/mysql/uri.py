"""`mysql://user:password@host:3306/?…`, `tidb://…`, and `mysql+ssl:`, `tidb+ssl:` with TLS by the machine's authorities. The parameters are
TiCDC's, and a few of ours. One of TiCDC's that would change what arrives is refused by name; one that is about its own ways to be quick is
accepted and has nothing to do here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from sidecar.core.model import CommitTs
from sidecar.errors import SinkError
from spark_merge.ddl.routes import Routes
from spark_merge.sinks.kind import SinkUri
from spark_merge.sinks.mysql.ddl import Decided
from spark_merge.sinks.mysql.session import PASSWORD, SECRET_KIND, Server
from spark_merge.sinks.parameters import Parameters
from spark_merge.sinks.passwords import keep_password

WORKERS, WORKERS_MAX = 4, 64
TXN_ROWS, TXN_ROWS_MAX = 256, 65_536
TIMEOUT_S = 120
POSITION_SCHEMA = "ticdc_dump"
PORTS = {"mysql": 3306, "tidb": 4000}

_OURS = frozenset({"routes", "create-tables", "position-schema", "password-file", "ddl-done", "ddl-again", "skip-views"})
_TICDCS = frozenset(
    {
        "worker-count", "max-txn-row", "safe-mode", "time-zone", "ssl-ca", "ssl-cert", "ssl-key", "read-timeout", "write-timeout",
        "timeout", "batch-dml-enable",
    }
)  # fmt: skip
_NOTHING_TO_DO = frozenset(
    {"multi-stmt-enable", "cache-prep-stmts", "max-multi-update-row", "max-multi-update-row-size", "tidb-txn-mode", "has-vector-type"}
)
PARAMETERS = _OURS | _TICDCS | _NOTHING_TO_DO

_SCHEMA_NAME = re.compile(r"[A-Za-z0-9_$-]{1,64}")


@dataclass(frozen=True, slots=True)
class Settings:
    """`workers` side by side in a task of live rows, and tasks of a dump side by side. `txn_rows`: about so many in a transaction.
    `batched`: several rows a statement. `decided` and `skip_views`: ddl.DdlSettings."""

    server: Server
    workers: int = WORKERS
    txn_rows: int = TXN_ROWS
    batched: bool = True
    routes: Routes = field(default_factory=Routes)
    create_tables: bool = False
    position_schema: str = POSITION_SCHEMA
    decided: Mapping[CommitTs, Decided] = field(default_factory=dict)
    skip_views: bool = False


def settings_of(uri: SinkUri) -> Settings:
    """Raises SinkError for what cannot be meant; it shows no value of a parameter that may be a secret. A password is kept here, in this
    process and those that it starts."""
    found = Parameters(uri.parameters, any_case=True)
    _refuse_what_would_change_rows(found)
    hint = "use letters, digits, _ and -"
    done: dict[CommitTs, Decided] = dict.fromkeys(found.commit_tss("ddl-done"), "done")
    again: dict[CommitTs, Decided] = dict.fromkeys(found.commit_tss("ddl-again"), "again")
    return Settings(
        server=_server(uri, found),
        workers=found.number("worker-count", WORKERS, WORKERS_MAX),
        txn_rows=found.number("max-txn-row", TXN_ROWS, TXN_ROWS_MAX),
        batched=found.flag("batch-dml-enable", otherwise=True),
        routes=found.routes(),
        create_tables=found.flag("create-tables", otherwise=False),
        position_schema=found.matching("position-schema", _SCHEMA_NAME, POSITION_SCHEMA, expected="schema's name", hint=hint),
        decided=done | again,
        skip_views=found.flag("skip-views", otherwise=False),
    )


def _refuse_what_would_change_rows(found: Parameters) -> None:
    if not found.flag("safe-mode", otherwise=True):
        raise SinkError(
            "safe-mode=false is not possible: rows of a dump meet rows that are there", hint="leave safe-mode out: rows are always replaced"
        )
    if found.text("time-zone", "UTC").strip("\"'").upper() not in ("UTC", "+00:00", "ETC/UTC", ""):
        raise SinkError(
            "time-zone: a TIMESTAMP is a moment, and is written in UTC by a session in UTC",
            hint="leave time-zone out; readers see the moment in their own session's time_zone",
        )


def _server(uri: SinkUri, found: Parameters) -> Server:
    parts = uri.parts
    scheme, _, tls = parts.scheme.partition("+")
    try:
        port = parts.port or PORTS[scheme]
    except ValueError as error:
        raise SinkError(f"a {parts.scheme}: sink's URI has no usable port", hint=f"write {scheme}://user@host:{PORTS[scheme]}/") from error
    if not parts.hostname or not parts.username or parts.path not in ("", "/"):
        raise SinkError(
            f"a {parts.scheme}: sink's URI names user and host, and no database",
            hint=f"write {scheme}://user@host:{PORTS[scheme]}/?…; where tables go is said by routes=",
        )
    found.check_tls(parts.scheme)
    server = Server(
        host=parts.hostname,
        port=port,
        user=unquote(parts.username),
        password_file=found.text("password-file") if parts.password is None else "",
        tls=bool(tls) or "ssl-ca" in uri.parameters,
        ssl_ca=found.text("ssl-ca"),
        ssl_cert=found.text("ssl-cert"),
        ssl_key=found.text("ssl-key"),
        connect_s=int(found.seconds("timeout", TIMEOUT_S)),
        read_s=int(found.seconds("read-timeout", TIMEOUT_S)),
        write_s=int(found.seconds("write-timeout", TIMEOUT_S)),
    )
    keep_password(server, parts.password, kind=SECRET_KIND, file=server.password_file, variable=PASSWORD)
    return server
