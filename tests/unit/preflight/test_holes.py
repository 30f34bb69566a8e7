"""Each cause of holes that is not watched is a finding with its GRANT; what this TiDB does not have is no warning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sidecar.adapters.etcd.keys import KeyEntry
from sidecar.preflight.holes import holes
from sidecar.shared.config import Config
from sidecar.shared.errors import ConfigError
from sidecar.shared.process.checks import CheckFinding, CheckSkipped, CheckStatus
from sidecar.shared.ticdc.changefeed import Changefeed, ChangefeedName
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


class Etcd:
    """A user of etcd that may read all but keys that begin so."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused

    def get(self, key: str) -> None:
        if key.startswith(self.refused):
            raise ConfigError(f"{key}: permission denied", hint="")

    def get_prefix(self, prefix: str, *, keys_only: bool) -> list[KeyEntry]:
        assert keys_only
        self.get(prefix)
        return []


def findings(tidb: FakeTidb, *refused: str, upstream_id: int = 12, **more: Any) -> list[CheckFinding]:
    client: Any = Etcd(*refused)
    feed = Changefeed(ChangefeedName("c", "n", "cf"), "1-2", "kafka://h/t", "canal-json", upstream_id=upstream_id)
    return list(holes(config(tidb, **more), client, feed))


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
    *grants, way_out = one.hint.split("; ")
    tables = [re.fullmatch(r"GRANT SELECT ON (mysql\.\w+) TO 'root'@'%'", grant) for grant in grants]
    assert f"mysql.{table}" in [match and match[1] for match in tables]
    assert None not in tables, "each is a statement"
    assert "GRANT" not in one.what + way_out


@pytest.mark.parametrize(("key", "cause"), [("/tidb/brie/import/", "Lightning"), ("/pd/12/gc/safe_point", "that GC has passed")])
def test_keys_that_etcds_user_may_not_read_are_a_warning(tidb: FakeTidb, key: str, cause: str) -> None:
    (one,) = findings(tidb, key)
    assert (one.status, one.setting) == (CheckStatus.WARNING, "etcd.user")
    assert cause in one.what
    assert key in one.hint


def test_a_definition_without_the_clusters_id_is_said(tidb: FakeTidb) -> None:
    (one,) = findings(tidb, upstream_id=0)
    assert one.status is CheckStatus.OK
    assert "no upstream-id" in one.what
    assert len(findings(tidb, upstream_id=0, feed="tikv", tikv={"pd": ["h:1"]})) == 1, "it is well: that feed looks itself"
    assert "are watched" in findings(tidb, upstream_id=0, feed="tikv", tikv={"pd": ["h:1"]})[0].what


def test_what_the_check_of_etcd_could_not_read_is_not_said_twice(tidb: FakeTidb) -> None:
    (one,) = holes(config(tidb), None, None)
    assert one.status is CheckStatus.OK


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
