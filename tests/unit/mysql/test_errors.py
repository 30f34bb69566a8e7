"""Which errors pass, whose server an error is of, and what it tells that server's operator."""

from __future__ import annotations

import pymysql
import pytest

from sidecar.shared.config import Tls
from sidecar.shared.errors import SinkError, SourceChanged, SourceError, SourceLost
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.errors import _PASSES, _READ_ONLY, NO_RIGHT, NOT_THERE, SettingRefused, failure, passes
from sidecar.shared.mysql.roles import Role

ACCOUNT = Account(host="tidb.example", port=4000, user="a@b", password="p/w:d", tls=Tls(), statement_timeout_s=2.5, retry_s=0.3)
DENIED = pymysql.err.OperationalError(1142, "SELECT command denied")
SOURCE = [role for role in Role if role.at_source]
TARGET = [role for role in Role if not role.at_source]
CODES = sorted({*_PASSES, *_READ_ONLY, *NO_RIGHT, *NOT_THERE, 1045, 1153, 1105, 1064, 9999})


@pytest.mark.parametrize("code", [2003, 2006, 2013, 1205, 1213, 9007, 8002, 8022, 8028, 9005])
@pytest.mark.parametrize("role", Role)
def test_what_passes_is_known_by_its_code(code: int, role: Role) -> None:
    assert passes(pymysql.err.OperationalError(code, "text"), role)


@pytest.mark.parametrize(
    "error", [DENIED, pymysql.err.ProgrammingError(1064, "syntax"), pymysql.err.InternalError("no code"), ValueError(2013)]
)
@pytest.mark.parametrize("role", Role)
def test_what_is_not_known_does_not_pass(error: Exception, role: Role) -> None:
    assert not passes(error, role)


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
    assert all(passes(error, role) is expected for role in Role)
    assert ("it was tried for" in failure(error, ACCOUNT, Role.READ_SOURCE, "x").hint) is expected


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
    assert hint in failure(error, ACCOUNT, Role.READ_SOURCE, "x").hint


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("role", Role)
def test_an_error_is_of_the_server_that_the_role_is_at_and_so_is_its_way_out(role: Role, code: int) -> None:
    """C2: an error of the source said that the sink continues automatically."""
    result = failure(pymysql.err.OperationalError(code, "text"), ACCOUNT, role, "reading rows of s.t")
    assert isinstance(result, SourceError if role.at_source else SinkError)
    assert result.hint
    foreign = ("sink", "target") if role.at_source else ("source.", "dumpresume", "changefeed")
    assert not [word for word in foreign if word in result.hint], result.hint
    assert "p/w:d" not in str(result)


@pytest.mark.parametrize("code", sorted(NOT_THERE))
def test_what_a_ddl_took_from_the_source_is_an_error_of_its_own(code: int) -> None:
    assert type(failure(pymysql.err.OperationalError(code, "gone"), ACCOUNT, Role.READ_SOURCE, "x")) is SourceChanged


@pytest.mark.parametrize("code", sorted(_READ_ONLY))
def test_a_target_that_is_read_only_is_waited_for_and_a_source_is_the_wrong_server(code: int) -> None:
    error = pymysql.err.OperationalError(code, "read-only")
    assert all(passes(error, role) for role in TARGET)
    assert not any(passes(error, role) for role in SOURCE)
    assert "accepts writes" in failure(error, ACCOUNT, Role.MARK, "x").hint


@pytest.mark.parametrize("code", sorted(_PASSES))
@pytest.mark.parametrize("role", SOURCE)
def test_what_passes_at_the_source_may_be_tried_later(role: Role, code: int) -> None:
    assert isinstance(failure(pymysql.err.OperationalError(code, "text"), ACCOUNT, role, "x"), SourceLost)


@pytest.mark.parametrize("role", Role)
def test_a_variable_that_may_not_be_set_is_named_and_not_tried_again(role: Role) -> None:
    error = SettingRefused(1227, "Access denied", name="tidb_snapshot", value="''")
    assert not passes(error, role)
    result = failure(error, ACCOUNT, role, "reading")
    assert "SET tidb_snapshot = '': Access denied" in result.message
    assert "SET GLOBAL tidb_snapshot = ''" in result.hint
