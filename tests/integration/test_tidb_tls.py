"""The source over TLS to a real server: only to whom the authority knows, with a certificate where it asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.shared.config import Tls
from sidecar.shared.errors import ConfigError, SourceError
from sidecar.shared.mysql.account import Account
from sidecar.shared.mysql.retry import carried_out
from sidecar.shared.mysql.roles import Role
from sidecar.shared.mysql.session import MysqlSession
from sidecar.shared.resultset.packets import read_packets
from tests.support.services.mariadb import MariaDb
from tests.support.services.tls import Authority

pytestmark = pytest.mark.xdist_group("mariadb")

PASSWORD = "p@ss w:rd"
ACCOUNT = Account(host="tidb.example", port=4000, user="a@b", password="p/w:d", tls=Tls(), statement_timeout_s=2.5, retry_s=0.3)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secured(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """It lets the account in over TLS only."""
    signed = authority.sign("mariadb")
    settings = {"ssl": "ON", "ssl-ca": str(authority.ca_file), "ssl-cert": str(signed.cert_file), "ssl-key": str(signed.key_file)}
    with MariaDb(tmp_path_factory.mktemp("mariadb"), settings=settings) as server:
        server.execute(f"CREATE USER secured IDENTIFIED BY '{PASSWORD}' REQUIRE SSL", "GRANT ALL ON *.* TO secured")
        server.execute(f"CREATE USER known IDENTIFIED BY '{PASSWORD}' REQUIRE X509", "GRANT ALL ON *.* TO known")
        yield server


def account(server: MariaDb, tls: Tls, *, user: str = "secured") -> Account:
    return Account("localhost", server.port, user, PASSWORD, tls, statement_timeout_s=5, retry_s=0.3)


def test_rows_come_in_over_tls(secured: MariaDb, authority: Authority) -> None:
    session = MysqlSession(account(secured, Tls(ca_file=str(authority.ca_file))), Role.READ_SOURCE)
    assert read_packets(session, "SELECT seq, REPEAT('x', 100) FROM mysql.seq_1_to_20000", 2)["c0"].to_pylist() == [
        str(n) for n in range(1, 20_001)
    ]
    (cipher,) = session.rows("SHOW STATUS LIKE 'Ssl_cipher'")
    assert cipher[1]
    session.close()


def test_a_server_of_another_authority_is_refused(secured: MariaDb, tmp_path: Path) -> None:
    session = MysqlSession(account(secured, Tls(ca_file=str(Authority(tmp_path / "other", "other-ca").ca_file))), Role.READ_SOURCE)
    with pytest.raises(SourceError, match="certificate verify failed"):
        carried_out(session, lambda: session.rows("SELECT 1"), doing="trying")


def test_a_client_shows_its_certificate(secured: MariaDb, authority: Authority) -> None:
    signed = authority.sign("client")
    tls = Tls(ca_file=str(authority.ca_file), cert_file=str(signed.cert_file), key_file=str(signed.key_file))
    session = MysqlSession(account(secured, tls, user="known"), Role.READ_SOURCE)
    assert session.rows("SELECT 1") == ((1,),)
    session.close()
    without = MysqlSession(account(secured, Tls(ca_file=tls.ca_file), user="known"), Role.READ_SOURCE)
    with pytest.raises(SourceError, match="1045"):
        carried_out(without, lambda: without.rows("SELECT 1"), doing="trying")


def test_a_file_of_tls_that_is_not_there_is_a_wrong_setting(secured: MariaDb) -> None:
    session = MysqlSession(account(secured, Tls(ca_file="/nowhere/ca.pem")), Role.READ_SOURCE)
    with pytest.raises(ConfigError, match=r"source\.tls"):
        session.rows("SELECT 1")
