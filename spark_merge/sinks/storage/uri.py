"""A storage output by its URI: `file:///dir?protocol=csv&…`, `s3://bucket/dir?protocol=canal-json&…`. `options` says what may follow; the
storage's own parameters are those of the files sink.
"""

from __future__ import annotations

from sidecar.shared.errors import SinkError
from spark_merge.port.contract import Sink
from spark_merge.port.kinds import SinkUri
from spark_merge.sinks.kit.folder_uri import checked_folder, folder_of, has_files_of_others
from spark_merge.sinks.storage.layout import IDENTITY, OURS, PROBE
from spark_merge.sinks.storage.options import options_of
from spark_merge.sinks.storage.sink import StorageSink


def open_storage(uri: SinkUri) -> Sink:
    """Raises SinkError, ConfigError for a URI that is not valid."""
    if "format" in uri.parameters:
        raise SinkError(
            f"a {uri.parts.scheme or 'file'}: sink has both format and protocol",
            hint="give format=jsonl or format=parquet for our own files, or protocol=csv or protocol=canal-json for TiCDC's layout",
        )
    return StorageSink(checked_folder(uri), options_of(uri.parameters), log_id=uri.log_id)


def storage_holds_rows(uri: SinkUri) -> bool:
    """Files of somebody else: TiCDC's, where the sidecar takes its place."""
    return has_files_of_others(folder_of(uri), IDENTITY, probe=PROBE)


def storage_leaves(uri: SinkUri) -> str:
    return f"remove {folder_of(uri)}/{OURS}: it holds the position, for a sink that is not to continue"
