"""The sink of subscribers by its URI: `grpc:///dir` or `grpc://bucket/prefix`, the folder of the spool on a disk or S3; `grpc:` alone is
beside the log (sidecar/config.py::placed). Subscribers find it at the control service's address, so the URI has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from sidecar.errors import ConfigError, SinkError
from sidecar.log.storage import Folder, open_folder
from sidecar.log.storage.folder import S3_PARAMETERS, place_problem
from spark_merge.contract import Sink
from spark_merge.sinks.kind import SinkKind, SinkUri
from spark_merge.sinks.parameters import Parameters
from spark_merge.sinks.spool.keeping import Bounds
from spark_merge.sinks.spool.reader import SpoolReader
from spark_merge.sinks.spool.sink import SpoolSink

SCHEME = "grpc"
_RETAIN_BYTES, _RETAIN_HOURS = "retain-bytes", "retain-hours"
_BYTES_MIN, _HOURS_MIN, _MOST = 1 << 20, 0.01, 1 << 59


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
    found = Parameters(uri.parameters)
    bounds = Bounds(
        int(found.real(_RETAIN_BYTES, Bounds().bytes_max, _MOST, least=_BYTES_MIN)),
        3600 * found.real(_RETAIN_HOURS, Bounds().age_max_s / 3600, _MOST, least=_HOURS_MIN),
    )
    return SpoolSink(open_folder(uri.text), log_id=uri.log_id, bounds=bounds)


GRPC = SinkKind(_open, S3_PARAMETERS | {_RETAIN_BYTES, _RETAIN_HOURS})


def spool_of(sinks: Sequence[str], log: Folder) -> SpoolReader | None:
    """What the control service reads; None without such a sink. Raises ConfigError for two."""
    found = [uri for uri in sinks if urlsplit(uri).scheme == SCHEME]
    if len(found) > 1:
        raise ConfigError("sinks names two grpc: sinks", hint="name one: any number of subscribers read it")
    return SpoolReader(open_folder(found[0]), log) if found else None
