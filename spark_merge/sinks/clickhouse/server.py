"""Requests to a ClickHouse server over HTTP, and what its errors mean: which pass without help, and what the operator does about others.

- Errors are classed by the server's code; one without a code came from the way there, or from a proxy.
- What the server asks to wait (too many parts, no memory, too many queries) is sent again with jitter, within RETRY_S. Then the sink's
  loop reports it, and sends it again. Every request is idempotent: rows have versions, and a statement done twice changes nothing.
- An insert is answered when its rows are there: never buffered by the server (`async_insert`), never with a default for a NULL.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal, TypeAlias, TypeVar

import clickhouse_connect
import msgspec
import pyarrow as pa
import stamina
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, Error
from urllib3.exceptions import HTTPError

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName
from sidecar.shared.process.patience import patience_s
from sidecar.shared.process.progress import may_take
from spark_merge.sinks.kit import server as shared
from spark_merge.sinks.kit.options import one_of, option, whole_seconds

T = TypeVar("T")

Compression: TypeAlias = Literal["lz4", "zstd", "none"]

RETRY_S = 30.0
"""How long what passes is tried again here."""

CLICKHOUSE_RETRY_FIRST_S, CLICKHOUSE_RETRY_MAX_S, CLICKHOUSE_RETRY_JITTER_S = 0.1, 3.0, 1.0

NO_TABLE, NO_DATABASE = 60, 81
TOO_MANY_PARTS, NO_MEMORY = 252, 241
_FULL = frozenset({243})
_BUSY = frozenset({TOO_MANY_PARTS, NO_MEMORY, 202, 439, 745})
_AWAY = frozenset({3, 159, 203, 209, 210, 225, 236, 242, 279, 319, 394, 425, 999})
"""Ends of connections and queries, a server or Keeper that starts or stops, tables that are read-only for a while."""

_NO_LOGIN = frozenset({192, 193, 194, 516})
_NO_RIGHT = frozenset({164, 497})

_INSERT = {
    "async_insert": 0,
    "input_format_null_as_default": 0,
    "date_time_overflow_behavior": "throw",
}
READ_ROWS = 8_192
"""At once of what is read: a granule of a table."""

_READ: Mapping[str, Any] = {
    "max_block_size": READ_ROWS,
    "output_format_arrow_string_as_string": 1,
    "output_format_arrow_compression_method": "none",
    "cancel_http_readonly_queries_on_client_close": 1,
}
_STREAM_END = b"\xff\xff\xff\xff\0\0\0\0"
"""Of Arrow IPC. A stream that ends without it is cut off, and pyarrow takes it for whole."""

_WAITED_FOR = {"mutations_sync": 2, "alter_sync": 2}


@dataclass(frozen=True, slots=True)
class ClickHouseServer(shared.Server):
    """Requests to it, too."""

    SECRET_KIND = "clickhouse"
    PASSWORD = "TICDC_DUMP_CLICKHOUSE_PASSWORD"

    connect_s: int = option("timeout", whole_seconds(or_bare=True), 10, "How long a connection may take to open.")
    read_s: int = option("read-timeout", whole_seconds(or_bare=True), 300, "How long the sink waits for an answer.")
    compression: Compression = option("compression", one_of("lz4", "zstd", "none"), "lz4", "How the rows that are sent are compressed.")

    # ---- requests, each tried again while its errors pass; they raise SinkError that says what was being done ------------------------

    def rows(self, sql: str, *, doing: str, absent: Sequence[int] = ()) -> list[list[Any]] | None:
        """None: the server answered with one of the codes `absent`."""

        def ask() -> list[list[Any]] | None:
            try:
                text = _client(self).raw_query(sql, fmt="JSONCompactEachRow", settings={"output_format_json_quote_64bit_integers": 0})
            except Error as error:
                if error.code in absent:
                    return None
                raise
            return [msgspec.json.decode(line) for line in text.splitlines() if line]

        return self._retried(ask, doing, "")

    def batches(self, sql: str, *, doing: str) -> Iterator[pa.RecordBatch]:
        """The rows of a SELECT as they come, on a connection of its own. It is sent again until the answer begins; what fails amid the
        rows raises SinkError, also where the answer ends before its end."""
        client = self._retried(lambda: _opened(self), doing, "")
        try:
            answer = self._retried(lambda: client.raw_stream(sql, fmt="ArrowStream", settings=dict(_READ)), doing, "")
            with closing(_Whole(answer)) as stream, pa.ipc.open_stream(stream) as reader:
                while (batch := self._next(reader)) is not None:
                    yield batch
                if stream.end != _STREAM_END:
                    raise pa.ArrowInvalid("the server's answer is cut off")
        except (pa.ArrowInvalid, HTTPError, OSError) as error:
            raise SinkError(f"{self}: {doing}: {error}", hint=_hint(None, self)) from error
        finally:
            client.close()

    def _next(self, reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
        with may_take(self.read_s):
            return next(reader, None)

    def run(self, sql: str, *, doing: str, hint: str = "") -> None:
        """What it begins is done when it returns: mutations too."""
        self._retried(lambda: _client(self).command(sql, settings=_WAITED_FOR), doing, hint)

    def insert(self, table: TableName, columns: Sequence[str], block: bytes, *, token: str, hint: str = "") -> None:
        """`block`: a stream of Arrow IPC. `token`: of this content; the server may skip one that it has had."""
        settings: Mapping[str, Any] = {**_INSERT, "insert_deduplication_token": token}
        self._retried(
            lambda: _client(self).raw_insert(identifier(table), columns, insert_block=block, settings=dict(settings), fmt="ArrowStream"),
            f"inserting rows into {table}",
            hint,
        )

    def _retried(self, action: Callable[[], T], doing: str, hint: str) -> T:
        try:
            for attempt in stamina.retry_context(
                on=passes,
                attempts=None,
                timeout=patience_s(RETRY_S),
                wait_initial=CLICKHOUSE_RETRY_FIRST_S,
                wait_max=CLICKHOUSE_RETRY_MAX_S,
                wait_jitter=CLICKHOUSE_RETRY_JITTER_S,
            ):
                with attempt, may_take(self.connect_s + 2 * self.read_s):  # to send, and to read the answer
                    return action()
        except ClickHouseError as error:
            raise SinkError(f"{self}: {doing}: {error}", hint=_hint(code_of(error), self) or hint or _UNKNOWN) from error
        raise AssertionError("it is tried until it is given up")


class _Whole:
    """What pyarrow reads from, and the last bytes that it has read."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream, self.end = stream, b""

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._stream.read(size)
        self.end = (self.end + data[-len(_STREAM_END) :])[-len(_STREAM_END) :]
        return data

    def close(self) -> None:
        self._stream.close()


_lock = Lock()
_clients: dict[tuple[int, ClickHouseServer], Client] = {}


def _client(server: ClickHouseServer) -> Client:
    """One a process, for all its threads: it keeps no session, and connections stay warm from one task to the next."""
    place = (os.getpid(), server)
    with _lock:
        if place not in _clients:
            _clients[place] = _opened(server)
        return _clients[place]


def _opened(server: ClickHouseServer) -> Client:
    return clickhouse_connect.get_client(
        host=server.host,
        port=server.port,
        username=server.user,
        password=server.password(),
        interface="https" if server.tls else "http",
        ca_cert=server.ssl_ca or None,
        connect_timeout=server.connect_s,
        send_receive_timeout=server.read_s,
        query_retries=0,
        compress=False,
        autogenerate_session_id=False,
        dedicated_pool=True,
        client_name="ticdc-dump",
    )


def forget(server: ClickHouseServer) -> None:
    """Its connections are closed; who asks again gets new ones. Never raises."""
    with _lock:
        client = _clients.pop((os.getpid(), server), None)
    if client is not None:
        client.close()


# ---- errors ----------------------------------------------------------------------------------------------------------------------


def code_of(error: BaseException) -> int | None:
    return error.code if isinstance(error, Error) else None


def passes(error: BaseException) -> bool:
    """Whether the same may go well later, without anybody changing anything."""
    if not isinstance(error, ClickHouseError):
        return False
    code = code_of(error)
    return code is None or code in _BUSY | _AWAY | _FULL


_UNKNOWN = "look the error up in the target's manual and remove its cause; the sink continues automatically"


def _hint(code: int | None, server: ClickHouseServer) -> str:
    if code is None or code in _AWAY:
        return "see that the target is up, may be written to and can be reached; the sink continues automatically"
    if code in _NO_LOGIN:
        return "check user, password and password-file of the sink's URI, and from which hosts the account may log in"
    if code in _NO_RIGHT:
        return f"give {server.user} its rights: deploy/CLICKHOUSE-SINK.md lists them"
    if code in _BUSY:
        return "see whether the target's merges keep up, and its memory (deploy/CLICKHOUSE-SINK.md); the sink continues automatically"
    if code in _FULL:
        return "make room at the target: its disk is full; the sink continues automatically"
    return ""


# ---- SQL -------------------------------------------------------------------------------------------------------------------------


def quoted(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def identifier(name: TableName) -> str:
    return f"{quoted(name.schema)}.{quoted(name.table)}"


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
