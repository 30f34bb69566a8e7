"""`opensearch://user:password@host:9200,host2:9200/?…`, `elasticsearch://…`, and `opensearch+ssl:`, `elasticsearch+ssl:` with TLS by the
machine's authorities, unless `ssl-ca` names others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import CommitTs
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.kit.options import block, commit_tss, matching, names_of, number, one_of, option, read, unset_or
from spark_merge.sinks.kit.server import server_of
from spark_merge.sinks.opensearch.client import OpenSearchServer
from spark_merge.sinks.opensearch.fields import Forms
from spark_merge.sinks.opensearch.names import IndexNames

PORT = 9200
POSITION_INDEX = "ticdc_dump"

Refresh: TypeAlias = Literal["interval", "accept"]

_INDEX_NAME = matching(
    re.compile(r"[a-z0-9][a-z0-9_.-]{0,99}"), "index's name", values="1 to 100 of `a`–`z`, `0`–`9`, `_`, `.`, `-`",
    hint="use small letters, digits, _ and -",
)  # fmt: skip
_DURATION = matching(
    re.compile(r"[1-9]\d{0,6}(?:s|m|h|d)"), "time", values="a whole number of `s`, `m`, `h` or `d`",
    hint="write gc-deletes=1h, 90s, 30m or 2d",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpenSearchSettings:
    """`gc_deletes` as the server writes durations. `shards`, `replicas`: None leaves them to the server's own default or template."""

    server: OpenSearchServer
    names: IndexNames = block(IndexNames)
    position_index: str = option("position-index", _INDEX_NAME, POSITION_INDEX,
        "The sink's own index, with one document. Each changefeed needs its own.")  # fmt: skip
    bulk_bytes: int = option("bulk-bytes", number(1, 1 << 30), 5 << 20, "Bytes in one bulk request. A longer row is sent alone.")
    bulk_rows: int = option("bulk-rows", number(1, 1_000_000), 5_000, "Rows in one bulk request.")
    gc_deletes: str = option("gc-deletes", _DURATION, "1h",
        "The least `index.gc_deletes`: how long the server remembers a delete.")  # fmt: skip
    shards: int | None = option("shards", unset_or(number(1, 1024), 1), None,
        "Shards of an index that the sink creates.", shown="the server's, or its template's")  # fmt: skip
    replicas: int | None = option("replicas", unset_or(number(0, 100), 1), None,
        "Its replicas.", shown="the server's, or its template's")  # fmt: skip
    refresh: Refresh = option("refresh", one_of("interval", "accept"), "interval",
        "When searches see rows. `interval`: when the index refreshes. `accept`: when the batch is accepted.")  # fmt: skip
    forms: Forms = block(Forms)
    done: frozenset[CommitTs] = commit_tss("ddl-done", "DDLs that you carried out by hand.")
    again: frozenset[CommitTs] = commit_tss("ddl-anew", "DDLs whose tables begin again with an empty index.")


def settings_of(uri: SinkUri) -> OpenSearchSettings:
    """Raises SinkError for what is not valid; it shows no value of a parameter that may be a secret."""
    parts = uri.parts
    scheme, places = parts.scheme.removesuffix("+ssl"), parts.netloc.rpartition("@")[2]
    if parts.path not in ("", "/") or not places:
        raise SinkError(
            f"a {parts.scheme}: sink's URI names hosts, and nothing behind them",
            hint=f"write {scheme}://user@host:{PORT}/?…; which index a table is, is said by index=",
        )
    hosts = tuple(_host(scheme, place) for place in places.split(","))
    return read(OpenSearchSettings, uri.parameters, server=server_of(OpenSearchServer, uri, hosts))


def _host(scheme: str, place: str) -> tuple[str, int]:
    host, colon, port = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    host = host if colon else place
    if not host or (colon and not (port.isascii() and port.isdecimal() and 0 < int(port) < 1 << 16)):
        raise SinkError(f"a {scheme}: sink's URI has no usable host and port", hint=f"write {scheme}://user@host:{PORT}/")
    return host, int(port) if colon else PORT


OPTIONS = (OpenSearchServer, OpenSearchSettings)
PARAMETERS = names_of(*OPTIONS)
