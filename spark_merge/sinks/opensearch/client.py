"""The server as the sink speaks to it, by the kept client's transport: what its errors mean, and which of them pass.

- Only calls that OpenSearch 2 and Elasticsearch 7.10 and later have alike.
- The client itself tries nothing again: what is tried again here may have been done, and its caller knows.
- Errors are classed by their status. The password is in no text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import stamina
from opensearchpy import OpenSearch
from opensearchpy.exceptions import ConnectionError as NotReached
from opensearchpy.exceptions import SSLError, TransportError
from opensearchpy.serializer import JSONSerializer

from sidecar.shared.errors import SinkError
from sidecar.shared.process.patience import patience_s
from sidecar.shared.process.progress import may_take
from spark_merge.sinks.kit.options import option, whole_seconds
from spark_merge.sinks.kit.server import CertifiedServer

T = TypeVar("T")
Body: TypeAlias = "Mapping[str, Any] | bytes | None"

RETRY_S = 30.0
"""How long an error that passes is tried again here; then the loop of the sink tries again, and reports it."""

OPENSEARCH_RETRY_FIRST_S, OPENSEARCH_RETRY_MAX_S, OPENSEARCH_RETRY_JITTER_S = 0.1, 3.0, 0.5

STEPS = 3
"""Of a request, each within the server's timeout: to connect, to send, to read the answer."""

BUSY, AWAY = 429, frozenset({408, 502, 503, 504})
PASSING = AWAY | {BUSY}
CONFLICT, NOT_FOUND = 409, 404

logging.getLogger("opensearch").setLevel(logging.CRITICAL)  # it writes a line for each answer that is not 2xx, of which many are expected


@dataclass(frozen=True, slots=True)
class OpenSearchServer(CertifiedServer):
    """One or several nodes. The account may be absent."""

    SECRET_KIND = "opensearch"
    PASSWORD = "TICDC_DUMP_OPENSEARCH_PASSWORD"

    timeout_s: int = option("timeout", whole_seconds(3600, or_bare=True), 60, "How long the sink waits for an answer.")


class OpenSearchSession:
    """Opens when it is needed. One thread at a time."""

    def __init__(self, server: OpenSearchServer, *, as_text: bool = False) -> None:
        """`as_text`: answers are text and not what it parses to."""
        self.server, self._as_text = server, as_text
        self._client: OpenSearch | None = None

    def call(self, method: str, path: str, body: Body = None, params: Mapping[str, Any] | None = None, ignore: tuple[int, ...] = ()) -> Any:
        """What it answers, once. Answers of a status in `ignore` are returned too. Raises opensearchpy's TransportError, SinkError."""
        if self._client is None:
            self._client = _client(self.server, as_text=self._as_text)
        headers = {"content-type": "application/x-ndjson"} if isinstance(body, bytes) else None
        all_params = {**(params or {}), "request_timeout": self.server.timeout_s, "ignore": ignore}
        with may_take(STEPS * self.server.timeout_s):
            return self._client.transport.perform_request(method, path, params=all_params, body=body, headers=headers)

    def asked(
        self,
        doing: str,
        method: str,
        path: str,
        body: Body = None,
        *,
        params: Mapping[str, Any] | None = None,
        ignore: tuple[int, ...] = (),
    ) -> Any:
        """As `call`, again while its errors pass. Raises SinkError."""
        return self.retried(lambda: self.call(method, path, body, params, ignore), doing=doing)

    def retried(self, action: Callable[[], T], *, doing: str) -> T:
        """What `action` returns, again while its errors pass. Raises SinkError that says what was being done."""
        try:
            for attempt in stamina.retry_context(
                on=passes,
                attempts=None,
                timeout=patience_s(RETRY_S),
                wait_initial=OPENSEARCH_RETRY_FIRST_S,
                wait_max=OPENSEARCH_RETRY_MAX_S,
                wait_jitter=OPENSEARCH_RETRY_JITTER_S,
            ):
                with attempt:
                    return action()
        except TransportError as error:
            raise sink_error(error, self.server, doing) from error
        raise AssertionError("it is tried until it is given up")

    def close(self) -> None:
        """Never raises."""
        client, self._client = self._client, None
        if client is not None:
            client.transport.close()


class _Unparsed(JSONSerializer):
    def loads(self, s: str) -> Any:
        return s


def _client(server: OpenSearchServer, *, as_text: bool) -> OpenSearch:
    account = (server.user, server.password()) if server.user else None
    hosts = [{"host": host, "port": port} for host, port in server.hosts]
    secured: dict[str, Any] = {"use_ssl": True, "ssl_context": server.tls_context()} if server.tls else {}
    serializer = _Unparsed() if as_text else JSONSerializer()
    options: dict[str, Any] = {"max_retries": 0, "retry_on_timeout": False, "timeout": server.timeout_s, "serializer": serializer}
    return OpenSearch(hosts, http_auth=account, **options, **secured)


# ---- errors ----------------------------------------------------------------------------------------------------------


def status_of(error: BaseException) -> int:
    """-1 for one that no server has answered."""
    return error.status_code if isinstance(error, TransportError) and isinstance(error.status_code, int) else -1


def passes(error: Exception) -> bool:
    """Whether the same may go well later, without anybody changing anything."""
    return status_of(error) in PASSING or (isinstance(error, NotReached) and not isinstance(error, SSLError))


def kind_of(error: TransportError) -> str:
    """The server's name of it, as `resource_already_exists_exception`."""
    return str(error.error)


def sink_error(error: TransportError, server: OpenSearchServer, doing: str) -> SinkError:
    return SinkError(f"{server}: {doing}: {reason_of(error)}", hint=hint_of(status_of(error), server, reason_of(error)))


def reason_of(error: TransportError) -> str:
    info = error.info if isinstance(error.info, dict) else {}
    cause = info.get("error")
    if isinstance(cause, dict):
        return f"{cause.get('reason') or cause.get('type')} (status {error.status_code})"
    return str(error.info) if status_of(error) < 0 else f"{error.error} (status {error.status_code})"


def hint_of(status: int, server: OpenSearchServer, reason: str = "") -> str:
    if "flood" in reason or "disk usage" in reason:
        return "make room on the server's disks and lift the block (index.blocks.read_only_allow_delete); the sink continues automatically"
    match status:
        case 401:
            return "check user, password and password-file of the sink's URI"
        case 403:
            return f"give {server.user or 'the account'} its rights: deploy/OPENSEARCH-SINK.md lists them"
        case 413:
            return "make bulk-bytes of the sink's URI smaller than the server's http.max_content_length"
        case _ if status in PASSING or status < 0:
            return "see that the server is up, has room and can be reached; the sink continues automatically"
        case _:
            return "look the error up in the server's manual and remove its cause; the sink continues automatically"
