"""The snapshot for raw key-values: TableInfos of one moment, from a status port that tells a recorded cluster's."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sidecar.adapters.tidb.infos import TidbInfos, TidbStatusPort
from sidecar.shared.config import SourceSection, Tls
from sidecar.shared.errors import ConfigError, SourceError, SourceLost
from sidecar.shared.model.nouns import TableName
from sidecar.shared.rowcodec.table_info import table_schema
from tests.support.recordings import recording
from tests.support.services.fake_tidb import FakeTable, FakeTidb, Refused
from tests.support.services.tls import Authority

JOBS_TABLE = {"id": 281474976710654, "name": {"O": "tidb_ddl_job", "L": "tidb_ddl_job"}, "cols": [], "state": 5}
RUNNING = {"state": 1, "schema_state": 2}


class StatusPort:
    """TiDB's HTTP API over files. `paths`: what is answered otherwise, as (HTTP status, body). `asked`: called with each path."""

    def __init__(self, folder: Path, *, tls: ssl.SSLContext | None = None) -> None:
        self.databases = json.loads((folder / "schemas.json").read_text())
        self.tables: dict[str, list[dict[str, Any]]] = {}
        for path in sorted(folder.glob("*.*.json")):
            self.tables.setdefault(path.name.split(".")[0], []).append(json.loads(path.read_text()))
        self.paths: dict[str, tuple[int, bytes]] = {"/schema/mysql/tidb_ddl_job": (200, json.dumps(JOBS_TABLE).encode())}
        self.asked: Callable[[str], None] = lambda path: None
        port = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = port.answer(self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """A test's output is for what goes wrong."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, name="status-port", daemon=True)
        self._thread.start()

    def answer(self, path: str) -> tuple[int, bytes]:
        self.asked(path)
        if path in self.paths:
            return self.paths[path]
        if path == "/schema":
            return 200, json.dumps(self.databases).encode()
        database = path.removeprefix("/schema/")
        if database in {one["db_name"]["O"] for one in self.databases}:
            return 200, json.dumps(self.tables.get(database, []), indent=1).encode()
        return 400, f"[schema:1049]Unknown database '{database}'".encode()

    def sql(self) -> dict[TableName, FakeTable]:
        """The same tables as SQL tells them."""
        return {
            TableName(database, info["name"]["O"]): FakeTable(info["id"])
            for database, infos in self.tables.items()
            for info in infos
            if info["view"] is None and info["sequence"] is None
        }

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def schema_folder() -> Path:
    folder = recording("ddl")
    end_ts: str = json.loads((folder / "recording.json").read_text())["end_ts"]
    return folder / "schema" / end_ts


@pytest.fixture
def status() -> Iterator[StatusPort]:
    port = StatusPort(schema_folder())
    yield port
    port.close()


@pytest.fixture
def tidb(tmp_path: Path, status: StatusPort) -> Iterator[FakeTidb]:
    with FakeTidb(tmp_path) as server:
        server.history = {0: status.sql()}
        server.finished_job = 700
        yield server


def infos(tidb: FakeTidb, status: StatusPort, **options: Any) -> TidbInfos:
    return TidbInfos(tidb.settings(status_port=status.port, **options), settle_s=0.01)


def test_all_schemas_are_reported_with_their_ids_and_tables_at_one_tso(tidb: FakeTidb, status: StatusPort) -> None:
    snapshot = infos(tidb, status).snapshot()
    assert snapshot.ts == 1001 == tidb.now_ts
    schemas = {schema.name: schema for schema in snapshot.schemas}
    assert {name: schema.schema_id for name, schema in schemas.items()} == {
        one["db_name"]["O"]: one["id"] for one in status.databases if one["id"] < 1 << 48
    }
    assert [info["name"]["O"] for info in schemas["shop"].tables] == [info["name"]["O"] for info in status.tables["shop"]]
    assert any(info["view"] is not None for info in schemas["shop"].tables), "a view takes a name too"
    assert not list(schemas["mysql"].tables)
    assert snapshot.ddl_job == JOBS_TABLE
    assert (snapshot.new_collation, snapshot.version, snapshot.fast_create_table) == (True, FakeTidb.version, False)
    (orders,) = (info for info in schemas["shop"].tables if info["name"]["O"] == "orders")
    assert table_schema(dict(orders), schema="shop").table_id == orders["id"]


def test_the_clusters_settings_are_reported(tidb: FakeTidb, status: StatusPort) -> None:
    tidb.variables = {"new_collation_enabled": "False", "fast_create": "1"}
    snapshot = infos(tidb, status).snapshot()
    assert (snapshot.new_collation, snapshot.fast_create_table) == (False, True)


def test_what_a_ddl_changed_meanwhile_is_read_again(tidb: FakeTidb, status: StatusPort) -> None:
    """It finishes after the tables of its schema were told."""
    requests: list[str] = []

    def finish(path: str) -> None:
        requests.append(path)
        if requests.count("/schema/mysql/tidb_ddl_job") == 1 and path == "/schema/mysql/tidb_ddl_job":
            tidb.finished_job += 1

    status.asked = finish
    infos(tidb, status, retry_s=30).snapshot()
    assert requests.count("/schema/shop") == 2


def test_a_job_that_goes_on_meanwhile_has_all_read_again_and_one_that_stays_does_not(tidb: FakeTidb, status: StatusPort) -> None:
    tidb.jobs = {701: {**RUNNING, "multi_schema_info": {"sub_jobs": [RUNNING]}}}
    requests: list[str] = []

    def step(path: str) -> None:
        requests.append(path)
        if len(requests) == 1:
            tidb.jobs = {701: {**RUNNING, "multi_schema_info": {"sub_jobs": [{**RUNNING, "schema_state": 3}]}}}

    status.asked = step
    infos(tidb, status, retry_s=30).snapshot()
    assert requests.count("/schema") == 2


def test_a_job_that_is_done_and_not_known_to_all_servers_is_waited_for(tidb: FakeTidb, status: StatusPort) -> None:
    tidb.jobs = {701: {"state": 4, "schema_state": 5}}
    with pytest.raises(SourceLost, match="could not be read between two DDLs"):
        infos(tidb, status).snapshot()
    seen: list[str] = []

    def end(sql: str) -> None:
        seen.append(sql)
        if sum("tidb_ddl_job" in one for one in seen) == 3:
            tidb.jobs, tidb.finished_job = {}, 701

    tidb.before = end
    infos(tidb, status, retry_s=30).snapshot()


def test_a_database_that_is_dropped_meanwhile_is_read_again(tidb: FakeTidb, status: StatusPort) -> None:
    gone = {"id": 9000, "db_name": {"O": "gone", "L": "gone"}, "state": 5}
    whole, requested = list(status.databases), []

    def drop(path: str) -> None:
        requested.append(path)
        status.databases = [*whole, gone] if requested == ["/schema"] else whole

    status.asked = drop
    snapshot = infos(tidb, status, retry_s=30).snapshot()
    assert "/schema/gone" in requested
    assert "gone" not in {schema.name for schema in snapshot.schemas}


def test_a_status_port_of_another_cluster_is_found_by_the_ids(tidb: FakeTidb, status: StatusPort) -> None:
    tidb.history = {0: {**status.sql(), TableName("shop", "orders"): FakeTable(7)}}
    with pytest.raises(SourceError, match=r"returns shop\.orders with id \d+, and SQL at TSO 1001 returns 7") as caught:
        infos(tidb, status).snapshot()
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("path", "answer", "text"),
    [
        ("/schema", (200, b"<html>"), "the answer to /schema is no JSON"),
        ("/schema", (200, b"{}"), "is a dict, not a list"),
        ("/schema", (200, b'[{"id": 1}]'), "lacks or breaks a field"),
        ("/schema", (404, b"404 page not found"), "HTTP 404"),
        ("/schema/shop", (200, b'[{"id": "1", "name": {"O": "t"}, "cols": []}]'), "the answer to /schema/shop lacks or breaks"),
        ("/schema/mysql/tidb_ddl_job", (200, b'{"id": 3}'), "the answer to /schema/mysql/tidb_ddl_job lacks"),
        ("/schema/mysql/tidb_ddl_job", (200, b"[]"), "is a list, not a dict"),
    ],
)
def test_an_answer_that_is_not_tidbs_is_named(tidb: FakeTidb, status: StatusPort, path: str, answer: tuple[int, bytes], text: str) -> None:
    status.paths[path] = answer
    with pytest.raises(SourceError, match=text) as caught:
        infos(tidb, status).snapshot()
    assert f"127.0.0.1:{status.port}" in str(caught.value)
    assert not caught.value.retryable


def test_a_status_port_that_is_away_is_an_outage(tidb: FakeTidb, status: StatusPort) -> None:
    reader = infos(tidb, status)
    status.close()
    with pytest.raises(SourceLost, match=r"does not answer /schema[^$]*source\.status_port"):
        reader.snapshot()


def test_an_overloaded_server_gets_the_request_again(tidb: FakeTidb, status: StatusPort) -> None:
    status.paths["/schema"] = (503, b"")

    def recover(path: str) -> None:
        if path == "/schema":
            status.paths["/schema"] = (200, json.dumps(status.databases).encode()) if len(reports) else (503, b"")
            reports.append(path)

    reports: list[str] = []
    status.asked = recover
    assert infos(tidb, status, retry_s=30).snapshot().ts
    assert len(reports) == 2


def test_a_missing_right_is_named(tidb: FakeTidb, status: StatusPort) -> None:
    def refuse(sql: str) -> None:
        if "tidb_ddl_history" in sql:
            raise Refused(1142, "SELECT command denied to user 'root' for table 'tidb_ddl_history'")

    tidb.before = refuse
    with pytest.raises(SourceError, match="tidb_ddl_history"):
        infos(tidb, status).snapshot()


@pytest.mark.parametrize("job", [{}, {"state": "x", "schema_state": 1}, []])
def test_a_job_that_is_not_understood_is_named(tidb: FakeTidb, status: StatusPort, job: Any) -> None:
    tidb.jobs = {701: job}
    with pytest.raises(SourceError, match=r"DDL job 701 in mysql\.tidb_ddl_job is not understood"):
        infos(tidb, status).snapshot()


def test_a_cluster_that_does_not_report_its_collations_is_refused(tidb: FakeTidb, status: StatusPort) -> None:
    tidb.variables = {}
    with pytest.raises(SourceError, match="new_collation_enabled"):
        infos(tidb, status).snapshot()


def test_files_of_tls_that_are_not_there_are_a_wrong_setting(tidb: FakeTidb, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"source\.tls"):
        TidbInfos(tidb.settings(tls=Tls(ca_file="/nowhere/ca.pem")))
    authority = Authority(tmp_path / "tls")
    with pytest.raises(ConfigError, match=r"source\.tls"):
        TidbInfos(tidb.settings(tls=Tls(ca_file=str(authority.ca_file), cert_file="/nowhere/cert.pem")))


def test_over_tls_the_status_port_must_be_known_to_the_authority_and_knows_us(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "tls"), Authority(tmp_path / "other", "other-ca")
    server, client = authority.sign("localhost"), authority.sign("client")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.cert_file, server.key_file)
    context.load_verify_locations(authority.ca_file)
    context.verify_mode = ssl.CERT_REQUIRED
    port = StatusPort(schema_folder(), tls=context)
    ours = Tls(ca_file=str(authority.ca_file), cert_file=str(client.cert_file), key_file=str(client.key_file))
    try:
        settings = SourceSection(host="localhost", user="u", status_port=port.port, retry_s=0.3, tls=ours)
        assert "shop" in TidbStatusPort(settings).databases()
        strangers = replace(settings, tls=replace(ours, ca_file=str(other.ca_file)), retry_s=60)
        with pytest.raises(SourceError, match=r"does not answer /schema[^$]*certificate verify failed") as caught:
            TidbStatusPort(strangers).databases()
        assert not caught.value.retryable
    finally:
        port.close()
