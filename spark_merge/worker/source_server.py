"""The changefeed's upstream as the worker reads it: to verify sinks, and in tasks that read a dump."""

from __future__ import annotations

from sidecar.shared.config import SourceSection
from sidecar.shared.process.kept_secrets import keep
from spark_merge.sinks.mysql.server import SqlServer


def source_server(source: SourceSection) -> SqlServer:
    """The changefeed's upstream, as the SQL sink names a server: on a Spark cluster every host needs the files that it names."""
    tls, timeout_s = source.tls, max(int(source.statement_timeout_s), 1)
    server = SqlServer(
        ((source.host, source.port),),
        user=source.user,
        tls=bool(tls.ca_file),
        password_file=source.password_file,
        ssl_ca=tls.ca_file,
        ssl_cert=tls.cert_file,
        ssl_key=tls.key_file,
        read_s=timeout_s,
        write_s=timeout_s,
    )
    if not source.password_file:
        keep(server.SECRET_KIND, str(server), "")
    return server
