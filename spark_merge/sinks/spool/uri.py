"""The sink of subscribers by its URI: `grpc:///dir` or `grpc://bucket/prefix`, the folder of the spool on a disk or S3; `grpc:` alone is
beside the log (sidecar/shared/config.py::placed). Subscribers find it at the control service's address, so the URI has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.log.storage import Folder
from sidecar.shared.log.storage.folder import S3_PARAMETERS, place_problem
from spark_merge.port.contract import Sink
from spark_merge.port.kinds import SinkKind, SinkUri
from spark_merge.sinks.kit.errors import sink_folder
from spark_merge.sinks.kit.options import names_of, read
from spark_merge.sinks.spool.keeping import Bounds
from spark_merge.sinks.spool.reader import SpoolReader
from spark_merge.sinks.spool.sink import SpoolSink

SCHEME = "grpc"


def _open(uri: SinkUri) -> Sink:
    if ":" in uri.parts.netloc or "@" in uri.parts.netloc:
        raise SinkError(
            f"a grpc: sink is given the address {uri.parts.netloc.rpartition('@')[2]}",
            hint="name a folder for what subscribers have yet to get (grpc:///var/lib/ticdc-dump/spool), or write grpc: for one beside the"
            " log; subscribers call the control service, at control.listen",
        )
    if problem := place_problem(uri.parts):
        raise SinkError(
            f"a grpc: sink {problem[0]}", hint="write grpc:///folder or grpc://bucket/folder; grpc: alone is for a sidecar's settings"
        )
    return SpoolSink(sink_folder(uri.text), log_id=uri.log_id, bounds=read(Bounds, uri.parameters))


GRPC = SinkKind(
    _open,
    names_of(Bounds, S3_PARAMETERS),
    unreadable="its rows are where its subscribers keep them, and the spool holds no more than they have yet to receive",
)


def spool_of(sinks: Sequence[str], log: Folder) -> SpoolReader | None:
    """What the control service reads; None without such a sink. Raises ConfigError for two."""
    results = [uri for uri in sinks if urlsplit(uri).scheme == SCHEME]
    if len(results) > 1:
        raise ConfigError("sinks names two grpc: sinks", hint="name one: any number of subscribers read it")
    return SpoolReader(sink_folder(results[0]), log) if results else None
