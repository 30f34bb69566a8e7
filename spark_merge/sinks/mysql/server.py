"""The target's server, as the sink's URI names it: a `MysqlServer` of shared/mysql whose password does not travel with tasks."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.shared.mysql.session import Login
from spark_merge.sinks.kit.options import option, whole_seconds
from spark_merge.sinks.kit.server import CertifiedServer

RETRY_S = 30.0
"""How long what passes is tried again within an attempt of the sink; then the sink's own loop does, and reports it."""


@dataclass(frozen=True, slots=True)
class SqlServer(CertifiedServer):
    """The times are TiCDC's, in seconds."""

    SECRET_KIND = "mysql"
    PASSWORD = "TICDC_DUMP_MYSQL_PASSWORD"

    connect_s: int = option("timeout", whole_seconds(), 120, "How long a connection may take to open.")
    read_s: int = option("read-timeout", whole_seconds(), 120, "How long the sink waits for an answer.")
    write_s: int = option("write-timeout", whole_seconds(), 120, "How long the sink waits until a statement is sent.")

    @property
    def retry_s(self) -> float:
        return RETRY_S

    @property
    def statement_s(self) -> float:
        """No limit of the server's own: a DDL may take days, and rows are read as fast as they are compared."""
        return 0.0

    @property
    def answer_s(self) -> int:
        """The longest that a statement may take."""
        return self.write_s + self.read_s

    def login(self) -> Login:
        """Raises SinkError in a process that does not have the password, and for files of TLS that cannot be used."""
        tls = self.tls_context() if self.tls else None
        return Login(self.host, self.port, self.user, self.password(), tls, self.connect_s, self.read_s, self.write_s)
