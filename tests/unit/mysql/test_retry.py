"""An action is tried again while its errors pass, until its time is up or the process is told to stop."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import pymysql
import pytest

from sidecar.shared.config import SourceSection, Tls
from sidecar.shared.errors import SourceError, SourceLost
from sidecar.shared.mysql import retry
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.errors import is_away
from sidecar.shared.mysql.retry import carried_out, end_questions
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from tests.support.eventually import PATIENCE_S, eventually

PASSWORD = "p@ss w:rd"
ACCOUNT = Account(host="tidb.example", port=4000, user="a@b", password="p/w:d", tls=Tls(), statement_timeout_s=2.5, retry_s=0.3)
LOST = pymysql.err.OperationalError(2013, "Lost connection")
DENIED = pymysql.err.OperationalError(1142, "SELECT command denied")


def test_an_action_is_tried_again_while_its_errors_pass() -> None:
    errors = iter([LOST, pymysql.err.InternalError(9007, "conflict")])

    def action() -> str:
        for error in errors:
            raise error
        return "done"

    assert carried_out(MysqlSession(replace(ACCOUNT, retry_s=30), Role.READ_SOURCE), action, doing="trying") == "done"


def test_an_action_is_tried_until_the_time_is_up() -> None:
    tries = []

    def action() -> None:
        tries.append(1)
        raise LOST

    with pytest.raises(SourceError, match=r"a@b@tidb.example:4000: trying failed: Lost connection \(error 2013\)") as caught:
        carried_out(MysqlSession(ACCOUNT, Role.READ_SOURCE), action, doing="trying")
    assert len(tries) > 1
    assert "tried for 0.3 s" in caught.value.hint


@pytest.mark.parametrize("stopped", [True, False])
def test_an_error_that_does_not_pass_or_comes_after_the_stop_is_not_tried_again(stopped: bool) -> None:
    tries = []

    def action() -> None:
        tries.append(1)
        raise LOST if stopped else DENIED

    with pytest.raises(SourceError):
        carried_out(MysqlSession(ACCOUNT, Role.READ_SOURCE), action, doing="trying", stopped=lambda: stopped)
    assert len(tries) == 1


def test_a_session_that_was_interrupted_opens_no_connection() -> None:
    session = MysqlSession(ACCOUNT, Role.READ_SOURCE)
    session.interrupt()
    with pytest.raises(pymysql.err.OperationalError, match="2013"):
        session.rows("SELECT 1")


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes a connection and says nothing, as one that is stopped."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def test_whoever_queries_a_server_that_says_nothing_gets_the_end_and_queries_no_more(
    silent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "_ending", Event())
    account = replace(ACCOUNT, host="127.0.0.1", port=silent.getsockname()[1], statement_timeout_s=600, retry_s=600)

    session = MysqlSession(account, Role.READ_SOURCE)
    with ThreadPoolExecutor() as pool:
        call = pool.submit(carried_out, session, lambda: session.rows("SELECT 1"), doing="asking")
        connected, _ = silent.accept()
        eventually(lambda: session._opening is not None and session._opening._sock is not None)
        end_questions()
        assert isinstance(call.exception(timeout=PATIENCE_S), SourceLost)
        connected.close()
    with pytest.raises(SourceLost):
        carried_out(other := MysqlSession(account, Role.READ_SOURCE), lambda: other.rows("SELECT 1"), doing="asking")


@pytest.mark.parametrize(
    ("code", "away"), [(2013, True), (9005, True), (1205, True), (3024, False), (1969, False), (1142, False), (1054, False)]
)
def test_a_server_is_away_that_was_not_to_be_had_and_not_one_that_said_no_or_takes_too_long(code: int, away: bool) -> None:
    def action() -> None:
        raise pymysql.err.OperationalError(code, "text")

    with pytest.raises(SourceError) as caught:
        carried_out(MysqlSession(replace(ACCOUNT, retry_s=0.01), Role.READ_SOURCE), action, doing="trying")
    assert is_away(caught.value) is away


def test_the_password_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    section = SourceSection(host="h", user="u", password_file=str(tmp_path / "secret"))
    assert Account.of(section).password == "s3cret"
    assert "s3cret" not in str(Account.of(section))
