"""Where answers arrive, the watch of the work hears of it: in each client once, whichever sink asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest
from deltalake.exceptions import DeltaError

from sidecar.shared.errors import SinkError
from sidecar.shared.log import storage
from sidecar.shared.log.storage import open_folder, s3
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.process.progress import watched_by
from spark_merge.sinks.clickhouse.server import ClickHouseServer as ClickHouse
from spark_merge.sinks.delta.table import CALL_S_MAX as DELTA_S_MAX
from spark_merge.sinks.delta.table import delta_errors
from spark_merge.sinks.http.client import Client, Receiver
from spark_merge.sinks.iceberg import lake
from spark_merge.sinks.kafka import client as kafka
from spark_merge.sinks.kafka.producer import _Patience
from spark_merge.sinks.mysql.server import SqlServer
from spark_merge.sinks.opensearch.client import OpenSearchServer, OpenSearchSession
from tests.support.scripted_http import Answer, scripted
from tests.support.watched import RecordingWatch


@pytest.fixture
def received() -> Iterator[RecordingWatch]:
    watch = RecordingWatch()
    with watched_by(watch):
        yield watch


def test_each_file_of_a_disk_is_progress(received: RecordingWatch, tmp_path: Path) -> None:
    folder = open_folder(str(tmp_path))
    acts: list[Callable[[], object]] = [
        lambda: storage.write_atomically(folder, "a", b"a"),
        lambda: storage.read_file(folder, "a"),
        lambda: storage.create_exclusively(folder, "b", b"b"),
        lambda: storage.list_names(folder, deep=False),
        lambda: storage.exists(folder, "a"),
    ]
    for act in acts:
        before = received.progress
        act()
        assert received.progress > before
    for many in (storage.make_durable, storage.remove):
        before = received.progress
        many(folder, ["a", "b"])
        assert received.progress >= before + 2, many


def test_each_file_of_s3_is_progress_also_by_threads(received: RecordingWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "fs", lambda _: SimpleNamespace(cat_file=lambda _, **__: b"", cp_file=lambda *_: None))
    folder = storage.Folder("s3", "b")
    storage.read_files(folder, [f"{number}" for number in range(50)])
    assert received.progress >= 50
    storage.copy_files(folder, [(f"{number}", f"{number % 3}/{number}") for number in range(50)])
    assert received.progress >= 100


def test_each_body_that_is_answered_is_progress_whatever_the_answer(received: RecordingWatch) -> None:
    with scripted() as receiver:
        receiver.answers.extend([Answer(503), Answer(200, "state")])
        client = Client(Receiver(receiver.url, timeout_s=700))
        assert client.state() == "state"
        client.close()
    assert received.calls_s == [2100, 2100]


def test_each_statement_is_progress_with_the_time_that_it_may_take(received: RecordingWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cursor:
        warning_count = 0

        def __enter__(self) -> Cursor:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def execute(self, *_: object) -> int:
            return 1

        def fetchone(self) -> tuple[object, ...]:
            return ("8.0", 1, 1 << 20)

        fetchall = tuple

    done = [lambda *_: None] * 5
    connection = SimpleNamespace(cursor=Cursor, **dict(zip(("connect", "begin", "commit", "rollback", "_force_close"), done, strict=True)))
    monkeypatch.setattr(pymysql, "connect", lambda **_: connection)
    monkeypatch.setattr(SqlServer, "password", lambda _: "")
    session = MysqlSession(SqlServer((("h", 1),), "u", connect_s=10, read_s=300, write_s=200), Role.WRITE_TARGET)
    session.rows("SELECT 1")
    assert received.calls_s == [10 + 5 * 500, 500]
    with session.transaction():
        session.change("UPDATE t SET v = 1")
    with suppress(ZeroDivisionError), session.transaction():
        raise ZeroDivisionError
    assert received.calls_s[2:] == [500] * 5, "begin, change, commit; begin, rollback"


def test_each_request_of_a_server_is_progress(received: RecordingWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    answering = SimpleNamespace(transport=SimpleNamespace(perform_request=lambda *_, **__: {}))
    monkeypatch.setattr("spark_merge.sinks.opensearch.client._client", lambda _, **__: answering)
    OpenSearchSession(OpenSearchServer((("h", 9200),), timeout_s=400)).call("GET", "/")
    assert received.calls_s == [1200]
    monkeypatch.setattr("spark_merge.sinks.clickhouse.server._client", lambda _: SimpleNamespace(command=lambda *_, **__: None))
    ClickHouse((("h", 8123),), "u", connect_s=10, read_s=300).run("SELECT 1", doing="it")
    assert received.calls_s == [1200, 610]


def test_brokers_that_take_some_of_what_waits_are_progress(received: RecordingWatch) -> None:
    patience = _Patience()
    for waiting in (9, 9, 9, 5, 5):
        assert not patience.ends(waiting)
    assert received.progress == 2, "of a queue that gets no shorter there is none"
    cluster: Any = SimpleNamespace(refusal=lambda: None)
    assert kafka.patiently(cluster, None, lambda _: "answer", "it") == "answer"
    assert received.calls_s == [kafka.REQUEST_TIMEOUT_S]


def test_each_call_of_a_lake_may_take_its_time_and_is_progress(received: RecordingWatch) -> None:
    settings: Any = SimpleNamespace(catalog="c", secrets=tuple)
    assert lake.Lake(settings).retried(lambda: 7, doing="it") == 7
    assert received.calls_s == [lake.CALL_S_MAX]
    with pytest.raises(SinkError), delta_errors("t"):
        raise DeltaError("no")
    assert received.calls_s == [lake.CALL_S_MAX, DELTA_S_MAX]
