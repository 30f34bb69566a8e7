"""Every session sets every variable that changes what it reads or writes, whatever the server's own values are."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pymysql
import pytest

from sidecar.shared.model.nouns import TableName
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.errors import SettingRefused
from sidecar.shared.mysql.flavour import Flavour, flavour_of
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.mysql.setup import ISOLATION, ROWS_MAX, VARIABLES, same, set_up, settings
from tests.support.services.fake_tidb import FakeTable, FakeTidb, Refused

HOSTILE = "hostile"
CASES = [(role, flavour) for role in Role for flavour in Flavour]


@dataclass
class Variables:
    """A cursor of a server whose variables all have a hostile value. It executes an assignment list up to the first one that it refuses.
    `not_taken`: variables of which it does not take our value; `of_server`: those that are no variables of a session."""

    unknown: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()
    not_taken: frozenset[str] = frozenset()
    of_server: frozenset[str] = frozenset()
    effective: dict[str, str] = field(default_factory=lambda: {one.name: HOSTILE for one in VARIABLES})
    isolation: str = HOSTILE
    _row: tuple[Any, ...] = ()

    def execute(self, sql: str) -> None:
        if match := re.fullmatch(r"SELECT @@(\w+)", sql):
            self._row = (self.effective[match[1]],)
        elif match := re.fullmatch(r"SET SESSION TRANSACTION ISOLATION LEVEL ([A-Z ]+), READ WRITE", sql):
            self.isolation = match[1]
        else:
            assert sql.startswith("SET ")
            for name, value in re.findall(r"(\w+) = ('[^']*'|[^,]+)", sql):
                if name in self.unknown:
                    raise pymysql.err.OperationalError(1193, f"Unknown system variable {name}")
                if name in self.not_taken:
                    raise pymysql.err.OperationalError(1231, f"Variable '{name}' can't be set to the value of {value}")
                if name in self.of_server:
                    raise pymysql.err.OperationalError(1229, f"Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL")
                if name in self.denied:
                    raise pymysql.err.OperationalError(1227, "Access denied; you need SESSION_VARIABLES_ADMIN")
                self.effective[name] = value

    def fetchone(self) -> tuple[Any, ...]:
        return self._row


def opened(server: Variables, role: Role, flavour: Flavour) -> dict[str, str]:
    set_up(cast("Any", server), role, flavour, statement_s=2.5)
    return server.effective


@pytest.mark.parametrize(("role", "flavour"), CASES)
def test_no_value_of_the_server_is_left(role: Role, flavour: Flavour) -> None:
    server = Variables()
    wanted = dict(settings(role, flavour, statement_s=2.5))
    result = opened(server, role, flavour)
    assert {name: result[name] for name in wanted} == wanted
    assert server.isolation == ISOLATION[role]
    assert {name for name, value in result.items() if value != HOSTILE} == wanted.keys(), "and none that is of another role or server"


@pytest.mark.parametrize(("role", "flavour"), CASES)
def test_a_variable_that_this_version_lacks_keeps_no_other_from_being_set(role: Role, flavour: Flavour) -> None:
    wanted = dict(settings(role, flavour, statement_s=2.5))
    for name in wanted:
        result = opened(Variables(unknown=frozenset({name})), role, flavour)
        assert {one for one in wanted if result[one] != wanted[one]} == {name}


@pytest.mark.parametrize(("role", "flavour"), CASES)
def test_a_variable_that_may_not_be_set_is_an_error_that_names_it_unless_its_value_is_right(role: Role, flavour: Flavour) -> None:
    for name, value in settings(role, flavour, statement_s=2.5):
        with pytest.raises(SettingRefused) as caught:
            opened(Variables(denied=frozenset({name})), role, flavour)
        assert (caught.value.name, caught.value.args[0]) == (name, 1227)
        right = Variables(denied=frozenset({name}))
        right.effective[name] = value.strip("'")
        opened(right, role, flavour)


@pytest.mark.parametrize("way", ["not_taken", "of_server"])
@pytest.mark.parametrize(("role", "flavour"), CASES)
def test_a_value_that_a_version_does_not_take_stops_nothing_if_its_effect_shows_itself(role: Role, flavour: Flavour, way: str) -> None:
    """Where it does not, a row could be read or written wrongly without anybody seeing it."""
    wanted = dict(settings(role, flavour, statement_s=2.5))
    showing = {one.name for one in VARIABLES if one.shows}
    assert showing.isdisjoint({"sql_select_limit", "tidb_snapshot", "tidb_read_staleness", "tidb_enable_external_ts_read"})
    assert showing.isdisjoint({"tidb_low_resolution_tso", "time_zone", "sql_mode", "autocommit", "foreign_key_checks", "tidb_txn_mode"})
    for name, value in wanted.items():
        server = replace(Variables(), **{way: frozenset({name})})  # type: ignore[arg-type]  # by the name of its field
        if name not in showing:
            with pytest.raises(SettingRefused, match=name):
                opened(server, role, flavour)
            server.effective[name] = value.strip("'")
        result = opened(server, role, flavour)
        assert {one for one in wanted if result[one].strip("'") != wanted[one].strip("'")} <= {name}


def test_a_variable_that_cannot_be_read_either_is_refused_by_its_name() -> None:
    class Hidden(Variables):
        def execute(self, sql: str) -> None:
            if sql.startswith("SELECT"):
                raise pymysql.err.OperationalError(1238, "Variable is not readable")
            super().execute(sql)

    with pytest.raises(SettingRefused, match="tidb_snapshot"):
        opened(Hidden(not_taken=frozenset({"tidb_snapshot"})), Role.MARK, Flavour.TIDB)


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("flavour", Flavour)
def test_what_cuts_or_moves_a_read_is_set_for_every_role(role: Role, flavour: Flavour) -> None:
    """The list that the table may grow beyond, and never lose."""
    result = dict(settings(role, flavour, statement_s=2.5))
    assert result["sql_select_limit"] == str(ROWS_MAX)
    assert {"time_zone", "sql_mode", "collation_connection", "group_concat_max_len", "autocommit"} <= result.keys()
    if flavour is Flavour.MARIADB:
        assert result["max_statement_time"] == "2.5"
        assert result["system_versioning_asof"] == "DEFAULT"
    else:
        assert result["max_execution_time"] == "2500"
    if flavour is Flavour.TIDB:
        stale = ("tidb_snapshot", "tidb_read_staleness", "tidb_enable_external_ts_read", "tidb_low_resolution_tso", "tidb_read_consistency")
        assert {*stale, "tidb_replica_read", "tidb_translate_softdelete_sql"} <= result.keys()


def test_each_variable_is_in_the_table_once_and_says_why() -> None:
    assert len({one.name for one in VARIABLES}) == len(VARIABLES)
    assert all(one.why and one.flavours and one.roles for one in VARIABLES)


@pytest.mark.parametrize(
    ("effective", "value", "expected"),
    [
        (1, "1", True), ("ON", "1", True), ("OFF", "0", True), ("ON", "0", False), ("", "''", True), ("440000000000000000", "''", False),
        (2500, "2500", True), ("2.500000", "2.5", True), ("B,A", "'A,B'", True), ("A", "'A,B'", False), ("NO_CHAIN", "'NO_CHAIN'", True),
    ],
)  # fmt: skip
def test_values_compare_as_the_server_shows_them(effective: object, value: str, expected: bool) -> None:
    assert same(effective, value) is expected


def test_the_checker_of_certificates_sets_the_same_as_a_read_of_the_source() -> None:
    """It stands alone, so it cannot use the table."""
    wanted = settings(Role.READ_SOURCE, Flavour.TIDB, statement_s=0)
    assert [*importlib.import_module("deploy.certificate.check").SETTINGS] == [one for one in wanted if one[0] != "tidb_snapshot"]


def test_a_server_is_known_by_its_version() -> None:
    texts = {
        "8.0.11-TiDB-v8.5.0": Flavour.TIDB,
        "11.4.2-MariaDB-log": Flavour.MARIADB,
        "8.4.0": Flavour.MYSQL,
        "5.5.5-10.6.1-mariadb": Flavour.MARIADB,
    }
    assert {text: flavour_of(text) for text in texts} == texts


# ---- over the protocol ----------------------------------------------------------------------------------------------

T = TableName("shop", "t")


@pytest.fixture
def tidb(tmp_path: Path) -> Iterator[FakeTidb]:
    with FakeTidb(tmp_path) as fake:
        fake.defaults = {"sql_select_limit": "100", "tidb_snapshot": "400"}
        fake.history = {0: {}, 500: {T: FakeTable(1, rows=tuple((str(number),) for number in range(900)))}}
        yield fake


@pytest.mark.parametrize("unknown", [(), ("tidb_read_consistency",), ("tidb_translate_softdelete_sql", "tidb_skip_utf8_check")])
@pytest.mark.parametrize("role", Role)
def test_every_role_reads_all_rows_of_the_present(tidb: FakeTidb, role: Role, unknown: tuple[str, ...]) -> None:
    tidb.unknown = frozenset(unknown)
    session = MysqlSession(Account.of(tidb.settings()), role)
    assert len(session.rows("SELECT `t`.`id` AS c0 FROM `shop`.`t`")) == 900
    session.close()


def test_a_session_without_the_right_to_a_variable_reads_nothing(tidb: FakeTidb) -> None:
    def before(sql: str) -> None:
        if sql.startswith("SET") and "sql_select_limit" in sql:
            raise Refused(1227, "Access denied")

    tidb.before = before
    session = MysqlSession(Account.of(tidb.settings()), Role.READ_SOURCE)
    with pytest.raises(SettingRefused, match="sql_select_limit"):
        session.rows("SELECT `t`.`id` AS c0 FROM `shop`.`t`")
    assert not session.connected
