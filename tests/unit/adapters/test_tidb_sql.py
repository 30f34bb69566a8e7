"""How a session is set up, which errors pass, and what an error tells the operator."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pymysql
import pytest

from sidecar.adapters.tidb import sql
from sidecar.adapters.tidb.sql import (
    Account,
    SourceFlavour,
    TidbSession,
    carried_out,
    end_questions,
    is_away,
    passes,
    setup_statements,
    source_error,
)
from sidecar.config import SourceSection, Tls
from sidecar.errors import SourceError, SourceLost
from tests.support.eventually import PATIENCE_S, eventually

PASSWORD = "p@ss w:rd"
ACCOUNT = Account(host="tidb.example", port=4000, user="a@b", password="p/w:d", tls=Tls(), statement_timeout_s=2.5, retry_s=0.3)
LOST = pymysql.err.OperationalError(2013, "Lost connection")
DENIED = pymysql.err.OperationalError(1142, "SELECT command denied")


def test_a_session_of_tidb_reads_the_present_whatever_the_clusters_defaults_are() -> None:
    found = setup_statements(SourceFlavour.TIDB, statement_timeout_s=2.5)
    assert {"SET tidb_snapshot = ''", "SET tidb_low_resolution_tso = OFF", "SET tidb_read_staleness = 0"} <= set(found)
    assert "SET max_execution_time = 2500" in found
    assert "SET time_zone = '+00:00'" in found
    assert "SET transaction_isolation = 'REPEATABLE-READ'" in found, "else a SELECT reads later than its transaction's TSO"


@pytest.mark.parametrize("flavour", SourceFlavour)
def test_no_default_of_the_server_cuts_what_is_read(flavour: SourceFlavour) -> None:
    assert "SET sql_select_limit = 18446744073709551615" in setup_statements(flavour, statement_timeout_s=1)


@pytest.mark.parametrize(
    ("flavour", "expected"),
    [(SourceFlavour.MARIADB, "SET max_statement_time = 2.5"), (SourceFlavour.MYSQL, "SET max_execution_time = 2500")],
)
def test_each_server_has_its_own_statement_timeout(flavour: SourceFlavour, expected: str) -> None:
    assert expected in setup_statements(flavour, statement_timeout_s=2.5)


@pytest.mark.parametrize("code", [2003, 2006, 2013, 1205, 1213, 9007, 8002, 8022, 8028, 9005])
def test_what_passes_is_known_by_its_code(code: int) -> None:
    assert passes(pymysql.err.OperationalError(code, "text"))


@pytest.mark.parametrize(
    "error", [DENIED, pymysql.err.ProgrammingError(1064, "syntax"), pymysql.err.InternalError("no code"), ValueError(2013)]
)
def test_what_is_not_known_does_not_pass(error: Exception) -> None:
    assert not passes(error)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Information schema is out of date", True),
        ("[schema:8028]Information schema is changed during the execution of the statement", True),
        ("rpc error: code = Unavailable desc = connection error", True),
        ("context deadline exceeded", True),
        ("[tikv:9005]Region is unavailable", True),
        ("XPATH syntax error: '~secret'", False),
        ("error parsing regexp: missing closing ): `(ab`", False),
        ("Invalid JSON path expression", False),
    ],
)
def test_an_error_without_a_code_passes_by_its_text_alone(text: str, expected: bool) -> None:
    error = pymysql.err.OperationalError(1105, text)
    assert passes(error) is expected
    assert ("it was tried for" in source_error(error, ACCOUNT, "x").hint) is expected


def test_an_action_is_tried_again_while_its_errors_pass() -> None:
    errors = iter([LOST, pymysql.err.InternalError(9007, "conflict")])

    def action() -> str:
        for error in errors:
            raise error
        return "done"

    assert carried_out(TidbSession(replace(ACCOUNT, retry_s=30)), action, doing="trying") == "done"


def test_an_action_is_tried_until_the_time_is_up() -> None:
    tries = []

    def action() -> None:
        tries.append(1)
        raise LOST

    with pytest.raises(SourceError, match=r"a@b@tidb.example:4000: trying failed: Lost connection \(error 2013\)") as caught:
        carried_out(TidbSession(ACCOUNT), action, doing="trying")
    assert len(tries) > 1
    assert "tried for 0.3 s" in caught.value.hint


@pytest.mark.parametrize("stopped", [True, False])
def test_an_error_that_does_not_pass_or_comes_after_the_stop_is_not_tried_again(stopped: bool) -> None:
    tries = []

    def action() -> None:
        tries.append(1)
        raise LOST if stopped else DENIED

    with pytest.raises(SourceError):
        carried_out(TidbSession(ACCOUNT), action, doing="trying", stopped=lambda: stopped)
    assert len(tries) == 1


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (DENIED, "GRANT SELECT ON `schema`.* TO 'a@b'@'%' for each dumped schema, and no more"),
        (pymysql.err.OperationalError(1045, "denied"), "source.password_file"),
        (pymysql.err.ProgrammingError(1146, "no table"), "leaves DDLs out"),
        (pymysql.err.OperationalError(3024, "time"), "source.statement_timeout_s"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "no text of its character set"),
        (pymysql.err.InternalError(1, "odd"), "not one that passes"),
        (pymysql.err.InternalError("no code at all"), "not one that passes"),
    ],
)
def test_every_error_has_a_way_out(error: Exception, hint: str) -> None:
    assert hint in source_error(error, ACCOUNT, "x").hint


def test_a_session_that_was_interrupted_opens_no_connection() -> None:
    session = TidbSession(ACCOUNT)
    session.interrupt()
    with pytest.raises(pymysql.err.OperationalError, match="2013"):
        session.rows("SELECT 1")


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes a connection and says nothing, as one that is stopped."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def test_whoever_asks_a_server_that_says_nothing_hears_of_the_end_and_asks_no_more(
    silent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql, "_ending", Event())
    account = replace(ACCOUNT, host="127.0.0.1", port=silent.getsockname()[1], statement_timeout_s=600, retry_s=600)

    session = TidbSession(account)
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(carried_out, session, lambda: session.rows("SELECT 1"), doing="asking")
        connected, _ = silent.accept()
        eventually(lambda: session._opening is not None and session._opening._sock is not None)
        end_questions()
        assert isinstance(asked.exception(timeout=PATIENCE_S), SourceLost)
        connected.close()
    with pytest.raises(SourceLost):
        carried_out(other := TidbSession(account), lambda: other.rows("SELECT 1"), doing="asking")


@pytest.mark.parametrize(
    ("code", "away"), [(2013, True), (9005, True), (1205, True), (3024, False), (1969, False), (1142, False), (1054, False)]
)
def test_a_server_is_away_that_was_not_to_be_had_and_not_one_that_said_no_or_takes_too_long(code: int, away: bool) -> None:
    def action() -> None:
        raise pymysql.err.OperationalError(code, "text")

    with pytest.raises(SourceError) as caught:
        carried_out(TidbSession(replace(ACCOUNT, retry_s=0.01)), action, doing="trying")
    assert is_away(caught.value) is away


def test_the_password_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    section = SourceSection(host="h", user="u", password_file=str(tmp_path / "secret"))
    assert Account.of(section).password == "s3cret"
    assert "s3cret" not in str(Account.of(section))
