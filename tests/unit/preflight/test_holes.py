"""Each cause of holes that is not watched is a finding with its GRANT; what this TiDB does not have is no warning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sidecar.preflight.holes import holes
from sidecar.shared.config import Config
from sidecar.shared.process.checks import CheckFinding, CheckSkipped, CheckStatus
from sidecar.watch.unwatched import in_ticdcs_etcd
from tests.support.services.fake_tidb import FakeTidb, Refused

TABLES = ("tidb_import_jobs", "tidb_restore_registry", "tidb_pitr_id_map")


@pytest.fixture
def tidb(tmp_path: Path) -> Iterator[FakeTidb]:
    with FakeTidb(tmp_path) as server:
        server.own_tables = dict.fromkeys(TABLES, ())
        yield server


def config(tidb: FakeTidb, **more: Any) -> Config:
    base = {"changefeed": {"id": "cf"}, "etcd": {"endpoints": ["127.0.0.1:1"]}, "log": {"uri": "memory://log"}, "sinks": ["console:"]}
    source = msgspec.to_builtins(tidb.settings())
    return msgspec.convert({**base, "source": source, **more}, Config)


def findings(tidb: FakeTidb, **more: Any) -> list[CheckFinding]:
    return list(holes(config(tidb, **more)))


def refuse(tidb: FakeTidb, *tables: str) -> None:
    def before(sql: str) -> None:
        if any(f"FROM mysql.{table}" in sql for table in tables):
            raise Refused(1142, "SELECT command denied")

    tidb.before = before


def test_everything_that_may_be_read_is_watched(tidb: FakeTidb) -> None:
    (one,) = findings(tidb)
    assert one.status is CheckStatus.OK


@pytest.mark.parametrize("table", [*TABLES, "tidb_ddl_history"])
def test_a_right_that_lacks_is_a_warning_with_its_grant(tidb: FakeTidb, table: str) -> None:
    refuse(tidb, table)
    (one,) = findings(tidb)
    assert one.status is CheckStatus.WARNING
    assert one.hint.startswith("GRANT SELECT ON mysql.")
    assert f"mysql.{table}" in one.hint
    assert "TO 'root'@'%'" in one.hint


def test_a_table_that_this_tidb_does_not_have_is_no_warning(tidb: FakeTidb) -> None:
    tidb.own_tables = {}
    assert [one.status for one in findings(tidb)] == [CheckStatus.OK] * 3


def test_without_ticdcs_etcd_leases_and_gaps_are_not_watched(tidb: FakeTidb, tmp_path: Path) -> None:
    assert in_ticdcs_etcd(config(tidb))
    (one,) = findings(tidb, etcd={"folder": str(tmp_path)})
    assert one.status is CheckStatus.OK
    assert "Lightning" in one.what
    assert not in_ticdcs_etcd(config(tidb, changefeed={"id": "cf", "file": "/cf.json"}))
    assert not in_ticdcs_etcd(config(tidb, feed="binlog"))


def test_another_server_is_skipped(tidb: FakeTidb) -> None:
    tidb.version = "11.4.2-MariaDB"
    with pytest.raises(CheckSkipped):
        findings(tidb)
