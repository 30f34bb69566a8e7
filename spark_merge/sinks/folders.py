"""What a folder's URI is the sink of: with `protocol=` TiCDC's storage layout (sinks/storage), else our own files (sinks/files)."""

from __future__ import annotations

from sidecar.shared.errors import SinkError
from spark_merge.port.contract import Sink
from spark_merge.port.kinds import SinkKind, SinkUri
from spark_merge.sinks.files import uri as files
from spark_merge.sinks.storage.options import PARAMETERS
from spark_merge.sinks.storage.uri import open_storage, storage_holds_rows, storage_leaves


def _either(kind: SinkKind) -> SinkKind:
    def opened(uri: SinkUri) -> Sink:
        if "protocol" in uri.parameters:
            return open_storage(uri)
        if needless := sorted(uri.parameters.keys() & PARAMETERS):
            raise SinkError(
                f"a {uri.parts.scheme or 'file'}: sink has {', '.join(needless)} and no protocol",
                hint="add protocol=csv or protocol=canal-json for TiCDC's storage layout, or leave them out",
            )
        return kind.open(uri)

    def holds_rows(uri: SinkUri) -> bool:
        requested = storage_holds_rows if "protocol" in uri.parameters else kind.holds_rows
        return requested is not None and requested(uri)

    def leaves(uri: SinkUri) -> str:
        return storage_leaves(uri) if "protocol" in uri.parameters else ""

    return SinkKind(opened, kind.parameters | PARAMETERS, holds_rows, leaves=leaves)


FILE, S3 = _either(files.FILE), _either(files.S3)
