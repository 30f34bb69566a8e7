"""ClickHouse's engine (PyPI's chdb, a session on a folder) behind the part of ClickHouse's HTTP interface that clickhouse-connect uses:

    POST /?query=…&database=…&SETTING=VALUE…      the query in the parameter, the body, or both; settings hold for this query
    GET /ping                                     Basic authorisation; errors with X-ClickHouse-Exception-Code
    POST /fail?code=252&times=3&of=INSERT         ours: the next queries that begin so are answered with that error

One query at a time. What this shows is the engine: SQL, types, formats, merges, FINAL, mutations, deduplication. The real server's own
handler, its limits, its users and replication are not here.

    python -m tests.support.services.clickhouse_front PORT FOLDER USER PASSWORD
"""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from chdb.state.sqlitelike import Connection

_NO_SETTINGS = frozenset(
    {
        "query", "database", "query_id", "session_id", "wait_end_of_query", "compress", "decompress", "default_format", "quota_key",
        "client_protocol_version", "enable_http_compression", "send_progress_in_http_headers", "http_headers_progress_interval_ms",
        "cancel_http_readonly_queries_on_client_close",
    }
)  # fmt: skip
_CODE = re.compile(r"Code: (\d+)")
_BINARY = re.compile(rb"(INSERT INTO [^\n]*)FORMAT (ArrowStream|Native)\n(.*)", re.DOTALL)
_SETTING = re.compile(r"[a-z_0-9]+")
NO_LOGIN = 516


class Refused(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass
class Engine:
    connection: Connection
    login: str
    rows: Path
    lock: Lock = field(default_factory=Lock)
    failures: list[tuple[int, str]] = field(default_factory=list)

    def answer(self, query: bytes, settings: dict[str, str]) -> bytes:
        """Raises Refused."""
        with self.lock:
            for number, (code, of) in enumerate(self.failures):
                if query.lstrip().upper().startswith(of.encode()):
                    del self.failures[number]
                    raise Refused(code, f"Code: {code}. DB::Exception: as requested")
            try:
                for name, value in settings.items():
                    self._run(f"SET {name} = '{value}'")
                return self._insert(*insert.groups()) if (insert := _BINARY.match(query)) else self._run(query.decode())
            finally:
                for name in settings:
                    self._run(f"SET {name} = DEFAULT")

    def _insert(self, head: bytes, name: bytes, rows: bytes) -> bytes:
        """Rows go by a file: within a query the engine cuts them at what looks like its end."""
        self.rows.write_bytes(rows)
        return self._run(f"{head.decode()}FROM INFILE '{self.rows}' FORMAT {name.decode()}")

    def _run(self, query: str) -> bytes:
        try:
            data: bytes = self.connection.query(query, "TabSeparated").bytes()
        except Exception as error:  # whatever the engine raises
            code = _CODE.search(str(error))
            raise Refused(int(code[1]) if code else 1002, str(error)) from error
        return data or b""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    engine: Engine

    def do_GET(self) -> None:
        self._send(200, b"Ok.\n")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urlsplit(self.path)
        parameters = dict(parse_qsl(url.query, keep_blank_values=True))
        if url.path == "/fail":
            self.engine.failures[:] = [(int(parameters["code"]), parameters["of"])] * int(parameters["times"])
            return self._send(200, b"")
        try:
            if self.headers.get("Authorization") != self.engine.login:
                raise Refused(NO_LOGIN, f"Code: {NO_LOGIN}. DB::Exception: Authentication failed")
            settings = {name: value for name, value in parameters.items() if name not in _NO_SETTINGS and _SETTING.fullmatch(name)}
            query = parameters.get("query", "").encode()
            self._send(200, self.engine.answer(query + b"\n" + body if query else body, settings))
        except Refused as error:
            self._send(403 if error.code == NO_LOGIN else 500, str(error).encode(), **{"X-ClickHouse-Exception-Code": str(error.code)})

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body)), "X-ClickHouse-Timezone": "UTC"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


def main() -> None:
    port, folder, user, password = sys.argv[1:]
    login = "Basic " + b64encode(f"{user}:{password}".encode()).decode()
    Handler.engine = Engine(Connection(folder), login, Path(f"{folder}.rows"))
    ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main()
