"""What a SQL sink's URI says, and what is refused by name."""

from __future__ import annotations

import pickle
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from sidecar.shared.errors import SinkError
from sidecar.shared.model.nouns import TableName
from sidecar.shared.process.kept_secrets import variable
from spark_merge.port.contract import Owner
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.mysql.position import OwnedSlots
from spark_merge.sinks.mysql.server import SqlServer
from spark_merge.sinks.mysql.uri import SqlSettings, settings_of
from spark_merge.sinks.mysql.writer import SqlWriter
from spark_merge.sinks.registry import name_of, open_sink


def read(text: str) -> SqlSettings:
    parts = urlsplit(text)
    return settings_of(SinkUri(text, parts, dict(parse_qsl(parts.query, keep_blank_values=True)), "log"))


def test_ticdcs_parameters_and_ours() -> None:
    settings = read(
        "mysql://u%40x:p%3A%2F@db:3307/?worker-count=8&max-txn-row=10&safe-mode=true&time-zone=UTC&read-timeout=1m30s&batch-dml-enable=false"
        "&multi-stmt-enable=true&routes=shop.*=>copy.*&create-tables=true&position-schema=ours&ddl-done=5,6"
    )
    assert (settings.server.user, settings.server.password(), settings.server.host, settings.server.port) == ("u@x", "p:/", "db", 3307)
    assert (settings.workers, settings.txn_rows, settings.batched, settings.create_tables, settings.position_schema) == (
        8,
        10,
        False,
        True,
        "ours",
    )
    assert settings.server.read_s == 90
    assert settings.routes.target(TableName("Shop", "t")) == TableName("copy", "t")
    assert settings.decided == {5: "done", 6: "done"}


def test_the_password_may_come_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from a file\n")
    assert read(f"tidb://u@db/?password-file={secret}").server.password() == "from a file"
    assert read(f"tidb://u:here@db/?password-file={secret}").server.password() == "here"
    assert read("tidb://u@db/").server.password() == "here", "another URI has brought it of this account"
    assert read("tidb://v@db/").server.password() == ""
    monkeypatch.setenv(SqlServer.PASSWORD, "from the environment")
    assert read("tidb://v@db/").server.password() == "from the environment"
    assert read("tidb://u@db/").server.password() == "here"
    assert read("tidb://u@db/").server.port == 4000


def test_a_password_does_not_travel_with_a_task_and_a_process_without_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read("mysql://u:hunter2@far/?create-tables=true")
    sent = pickle.dumps(SqlWriter(settings, OwnedSlots("ours", Owner(1, 1)), {}))
    assert b"hunter2" not in sent
    arrived: SqlWriter = pickle.loads(sent)
    assert arrived.settings.server.password() == "hunter2", "a process that this one starts has it"
    monkeypatch.delenv(variable("mysql", "u@far:3306"))
    with pytest.raises(SinkError, match="u@far:3306: its password is not known to this process") as error:
        arrived.settings.server.password()
    assert "password-file" in error.value.hint
    monkeypatch.setenv(SqlServer.PASSWORD, "hunter3")
    assert arrived.settings.server.password() == "hunter3"


def test_tls() -> None:
    assert read("mysql+ssl://u@db/").server.tls
    assert read("mysql://u@db/?ssl-ca=/ca.pem&ssl-cert=/c.pem&ssl-key=/k.pem").server.ssl_cert == "/c.pem"
    assert not read("mysql://u@db/").server.tls


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("mysql://u@db/?safe-mode=false", "safe-mode=false"),
        ("mysql://u@db/?time-zone=Asia/Shanghai", "time-zone"),
        ("mysql://u@db/shop", "no database"),
        ("mysql://db/", "user and host"),
        ("mysql://u@db/?worker-count=0", "worker-count"),
        ("mysql://u@db/?worker-count=x", "worker-count"),
        ("mysql://u@db/?batch-dml-enable=1", "none of true, false"),
        ("mysql://u@db/?read-timeout=5", "no time of 1s or more"),
        ("mysql://u@db/?position-schema=a`b", "no schema's name"),
        ("mysql://u@db/?routes=shop", "route"),
        ("mysql://u@db/?ssl-cert=/c.pem", "without ssl-ca"),
        ("mysql://u@db/?password-file=/nowhere/at/all", "cannot be read"),
        ("mysql://u@db:99999/", "port"),
        ("mysql://u@db/?ddl-done=x", "ddl-done"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(uri: str, problem: str) -> None:
    with pytest.raises(SinkError, match=problem):
        read(uri)


def test_the_registry_knows_it_and_shows_no_secret() -> None:
    uri = "mysql://u:secret@db/?password-file=/x"
    assert "secret" not in name_of(uri)
    assert open_sink("tidb+ssl://u:secret@db/", log_id="log") is not None
    with pytest.raises(SinkError, match="no parameter nonsense"):
        open_sink("mysql://u:secret@db/?nonsense=1", log_id="log")
